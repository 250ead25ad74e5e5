package command

import (
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/admin"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/command/approval"
)

func approveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approve [<skill> [<digest>]]",
		Short: "Shows the changes of skills that the running bridge holds, or approves one",
		Long: `Without a skill, shows the changes that wait for approval, of sources with "on_change
hold": what each skill has asked for (-), and what its provider asks for now (+). With the
name or the id of a skill, shows all of its change, and asks at a terminal whether to
approve it. Without a terminal, it needs the digest of the change that you have seen, or
at least its first 12 characters, and approves no other. The bridge, and all instances
with the same database, then use the new descriptor. With --json it asks nothing, and
writes {"changes", "unreadable", "more"}, or the change of the skill. If the change of a
skill was not approved, the exit status is 5.` + adminHelp,
		Example: `  caddy skill-bridge approve
  caddy skill-bridge approve acme.weather
  caddy skill-bridge approve acme.weather 0c5b1d6e9f3a`,
		Args:              arguments(0, 2),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := addAdminFlags(cmd)
	addJSON(cmd, "Write JSON")
	cmd.RunE = exits(func(cmd *cobra.Command, screen *cli.Screen, args []string) (int, error) {
		api, err := f.client()
		if err != nil {
			return 0, err
		}
		path := "/skill_bridge/changes"
		if len(args) > 0 {
			path += "?skill=" + url.QueryEscape(args[0])
		}
		var all admin.Changes
		if e := api.ask(cmd.Context(), http.MethodGet, path, nil, &all); e != nil {
			return screen.Fail(e, e.next), nil
		}
		for _, u := range all.Unreadable {
			screen.Complain("the changes of %s can't be read: %s", u.Namespace, u.Error)
		}
		if len(args) == 0 {
			approval.List(screen, &all)
			return cli.OK, nil
		}
		found := approval.Of(all.Changes, args[0])
		if len(found) != 1 {
			e := &adminError{fmt.Sprintf("no change of a skill %q waits for approval", args[0]), "see which do: " + api.command("approve")}
			if len(found) > 1 {
				e.message = fmt.Sprintf("%q is a skill of several sources: write its name", args[0])
			}
			return screen.Fail(e, e.next), nil
		}
		c := &found[0]
		if len(args) == 1 || !approval.Names(args[1], c) {
			approval.Present(screen, c)
			yes, asked := false, false
			if len(args) == 1 {
				yes, asked = screen.Confirm(os.Stdin, "Approve this change?")
			} else {
				screen.Complain("%q is not the digest of the change that waits, or not 12 characters of it", args[1])
			}
			if !yes && !asked {
				screen.Advise("to approve this change: " + api.command("approve", approval.Name(c), approval.Short(c)))
			}
			if !yes {
				fmt.Fprintln(screen.Err, "not approved")
				return cli.ProtocolError, nil
			}
		}
		var answer admin.Approval
		if e := api.ask(cmd.Context(), http.MethodPost, "/skill_bridge/approve", admin.Approval{Namespace: c.Namespace, SkillID: c.SkillID, Digest: c.Digest}, &answer); e != nil {
			return screen.Fail(e, e.next), nil
		}
		if screen.AsJSON {
			screen.JSON(c)
			return cli.OK, nil
		}
		fmt.Fprintln(screen.Out, "approved")
		return cli.OK, nil
	})
	return cmd
}
