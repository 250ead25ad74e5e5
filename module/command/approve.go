package command

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/admin"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

func approveCommand() *cobra.Command {
	cmd := adminCommand(&cobra.Command{
		Use:   "approve [<skill> [<digest>]]",
		Short: "Shows the changes of skills that the running bridge holds, or approves one",
		Long: `Without a skill, shows the changes that wait for approval, of sources with "on_change hold": what each skill has asked for (-), and what its provider
asks for now (+). With the name or the id of a skill, shows all of its change, and asks at a terminal whether to approve it. Without a terminal, it needs the
digest of the change that you have seen, or at least its first 12 characters, and approves no other. The bridge, and all instances with the same database,
then use the new descriptor. With --json it asks nothing, and writes {"changes", "unreadable", "more"}, or the change of the skill. If the change of a skill
was not approved, the exit status is 5.` + adminHelp,
		Example: `  caddy skill-bridge approve
  caddy skill-bridge approve acme.weather
  caddy skill-bridge approve acme.weather 0c5b1d6e9f3a`,
		Args: arguments(0, 2),
	}, func(cmd *cobra.Command, screen *cli.Screen, api *adminClient, args []string) (int, error) {
		path := "/skill_bridge/changes"
		if len(args) > 0 {
			path += "?skill=" + url.QueryEscape(args[0])
		}
		var all admin.Changes
		if err := api.ask(cmd.Context(), http.MethodGet, path, nil, &all); err != nil {
			return 0, err
		}
		for _, u := range all.Unreadable {
			screen.Complain("the changes of %s can't be read: %s", u.Namespace, u.Error)
		}
		if len(args) == 0 {
			screen.Show(all, func() { showChanges(screen, &all) })
			return cli.OK, nil
		}
		return approve(cmd.Context(), screen, api, all.Changes, args)
	})
	addJSON(cmd, "Write JSON")
	return cmd
}

// approve approves the change of a skill, by its name or id, if the person or the digest after the skill says so.
func approve(ctx context.Context, screen *cli.Screen, api *adminClient, all []admin.Change, args []string) (int, error) {
	found := slices.DeleteFunc(all, func(c admin.Change) bool { return c.Name != args[0] && c.SkillID != args[0] })
	next := "see which do: " + api.command("approve")
	switch len(found) {
	case 0:
		return 0, &adminError{fmt.Sprintf("no change of a skill %q waits for approval", args[0]), next}
	case 1:
	default:
		return 0, &adminError{fmt.Sprintf("%q is a skill of several sources: write its name", args[0]), next}
	}
	c := &found[0]
	if len(args) == 1 || !isDigest(args[1], c) {
		screen.Show(c, func() { showChange(screen, c) })
		yes, asked := false, false
		if len(args) == 1 {
			yes, asked = screen.Confirm(os.Stdin, "Approve this change?")
		} else {
			screen.Complain("%q is not the digest of the change that waits, or not 12 characters of it", args[1])
		}
		if !yes && !asked {
			screen.Advise("to approve this change: " + api.command("approve", changed(c), shortDigest(c)))
		}
		if !yes {
			fmt.Fprintln(screen.Err, "not approved")
			return cli.ProtocolError, nil
		}
	}
	var answer admin.Approval
	if err := api.ask(ctx, http.MethodPost, "/skill_bridge/approve", admin.Approval{Namespace: c.Namespace, SkillID: c.SkillID, Digest: c.Digest}, &answer); err != nil {
		return 0, err
	}
	screen.Show(c, func() { fmt.Fprintln(screen.Out, "approved") })
	return cli.OK, nil
}

// changed returns the name of a changed skill for people.
func changed(c *admin.Change) string { return cmp.Or(c.Name, c.SkillID) }

// showChanges writes all changes.
func showChanges(screen *cli.Screen, all *admin.Changes) {
	for i := range all.Changes {
		showChange(screen, &all.Changes[i])
	}
	if len(all.Changes) == 0 {
		fmt.Fprintln(screen.Out, "no change waits for approval")
	}
	if all.More > 0 {
		fmt.Fprintf(screen.Out, "and %d more changes: approve them by the names or ids of their skills\n", all.More)
	}
}

// summarizeChanges writes which skills have changes, if any.
func summarizeChanges(screen *cli.Screen, all *admin.Changes) {
	for _, u := range all.Unreadable {
		screen.Complain("the changes of %s can't be read: %s", u.Namespace, u.Error)
	}
	if len(all.Changes) == 0 {
		return
	}
	rows := make([][]string, len(all.Changes))
	for i := range all.Changes {
		c := &all.Changes[i]
		rows[i] = []string{changed(c), c.Since.UTC().Format("2006-01-02 15:04 MST"), strings.Join(c.Changed, ", ")}
	}
	fmt.Fprintln(screen.Out, "\nChanges that wait for approval (caddy skill-bridge approve shows them):")
	screen.Table("  ", []string{"SKILL", "SINCE", "CHANGED"}, rows)
	if all.More > 0 {
		fmt.Fprintf(screen.Out, "  and %d more\n", all.More)
	}
}

// showChange writes a change: what the skill has asked for, and what it asks for now.
func showChange(screen *cli.Screen, c *admin.Change) {
	fmt.Fprintf(screen.Out, "%s (%s of %s), changed %s: %s\n", clean(changed(c)), clean(c.SkillID), clean(c.Namespace), c.Since.UTC().Format("2006-01-02 15:04 MST"), clean(strings.Join(c.Changed, ", ")))
	for _, d := range c.Differences {
		fmt.Fprintf(screen.Out, "  %s\n", clean(d.Path))
		if d.Was != "" {
			fmt.Fprintf(screen.Out, "  - %s\n", clean(d.Was))
		}
		if d.Now != "" {
			fmt.Fprintf(screen.Out, "  + %s\n", clean(d.Now))
		}
	}
	if c.More > 0 {
		fmt.Fprintf(screen.Out, "  %d differences: approve with the name or id of the skill shows them\n", c.More)
		return
	}
	fmt.Fprintf(screen.Out, "  digest %s\n", shortDigest(c))
}

// digestLength is how many characters of a digest name a change.
const digestLength = 12

// shortDigest returns the beginning of a digest with which [isDigest] works.
func shortDigest(c *admin.Change) string { return clean(c.Digest[:min(digestLength, len(c.Digest))]) }

// isDigest reports whether a text is the digest of a change, or a beginning of it that is long enough.
func isDigest(digest string, c *admin.Change) bool {
	return len(digest) >= digestLength && strings.HasPrefix(c.Digest, strings.ToLower(digest))
}

// clean returns a text of a provider without control characters, which could change what a terminal shows.
func clean(text string) string { return safetext.Escape(text, "") }
