// Package approval shows changes of descriptors that wait for approval, and finds the one that an operator means.
package approval

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/admin"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Of returns the changes of a skill, by its name or id; more than one if several sources have it.
func Of(all []admin.Change, skill string) []admin.Change {
	return slices.DeleteFunc(slices.Clone(all), func(c admin.Change) bool { return c.Name != skill && c.SkillID != skill })
}

// Name returns the name of a changed skill for people.
func Name(c *admin.Change) string {
	if c.Name != "" {
		return c.Name
	}
	return c.SkillID
}

// List writes all changes.
func List(screen *cli.Screen, all *admin.Changes) {
	if screen.AsJSON {
		screen.JSON(all)
		return
	}
	for i := range all.Changes {
		Show(screen, &all.Changes[i])
	}
	if len(all.Changes) == 0 {
		fmt.Fprintln(screen.Out, "no change waits for approval")
	}
	if all.More > 0 {
		fmt.Fprintf(screen.Out, "and %d more changes: approve them by the names or ids of their skills\n", all.More)
	}
}

// Summarize writes which skills have changes, if any.
func Summarize(screen *cli.Screen, all *admin.Changes) {
	for _, u := range all.Unreadable {
		screen.Complain("the changes of %s can't be read: %s", u.Namespace, u.Error)
	}
	if len(all.Changes) == 0 {
		return
	}
	rows := make([][]string, len(all.Changes))
	for i := range all.Changes {
		c := &all.Changes[i]
		rows[i] = []string{Name(c), c.Since.UTC().Format("2006-01-02 15:04 MST"), strings.Join(c.Changed, ", ")}
	}
	fmt.Fprintln(screen.Out, "\nChanges that wait for approval (caddy skill-bridge approve shows them):")
	screen.Table("  ", []string{"SKILL", "SINCE", "CHANGED"}, rows)
	if all.More > 0 {
		fmt.Fprintf(screen.Out, "  and %d more\n", all.More)
	}
}

// Show writes a change: what the skill has asked for, and what it asks for now.
func Show(screen *cli.Screen, c *admin.Change) {
	fmt.Fprintf(screen.Out, "%s (%s of %s), changed %s: %s\n", clean(Name(c)), clean(c.SkillID), clean(c.Namespace), c.Since.UTC().Format("2006-01-02 15:04 MST"), clean(strings.Join(c.Changed, ", ")))
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
	fmt.Fprintf(screen.Out, "  digest %s\n", Short(c))
}

// Present writes a change, also as JSON.
func Present(screen *cli.Screen, c *admin.Change) {
	if screen.AsJSON {
		screen.JSON(c)
		return
	}
	Show(screen, c)
}

// shortDigest is how many characters of a digest name a change.
const shortDigest = 12

// Short returns the beginning of a digest with which [Names] works.
func Short(c *admin.Change) string { return clean(c.Digest[:min(shortDigest, len(c.Digest))]) }

// Names reports whether a text is the digest of a change, or a beginning of it that is long enough.
func Names(digest string, c *admin.Change) bool {
	return len(digest) >= shortDigest && strings.HasPrefix(c.Digest, strings.ToLower(digest))
}

// clean returns a text of a provider without control characters, which could change what a terminal shows.
func clean(text string) string { return safetext.Escape(text, "") }
