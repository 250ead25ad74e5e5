package command

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/usage"
)

func usageCommand() *cobra.Command {
	var principal string
	var limit int
	cmd := adminCommand(&cobra.Command{
		Use:   "usage",
		Short: "Shows how much the callers of the running bridge use each skill",
		Long: `Shows for each principal and skill how many calls asked to execute it since Caddy started, how many runs providers accepted, and how many calls a quota
of the caller refused; those with the most calls first. Of the 10,000 pairs of a principal and a skill that were used last, there are rows; "all others" are
the sums of the rest. With --json, writes what the admin API returns: {"since", "total", "rows", "other"}, or {"error": {"message"}} if Caddy did not answer.` + adminHelp,
		Example: `  caddy skill-bridge usage
  caddy skill-bridge usage --principal alice --json`,
		Args: arguments(0, 0),
	}, func(cmd *cobra.Command, screen *cli.Screen, api *adminClient, _ []string) (int, error) {
		if limit < 0 || limit > usage.MaxRows {
			return 0, errors.New("--limit is a number from 0 to " + strconv.Itoa(usage.MaxRows))
		}
		query := url.Values{"limit": {strconv.Itoa(limit)}}
		if cmd.Flags().Changed("principal") {
			query.Set("principal", principal)
		}
		return get(cmd.Context(), screen, api, "/skill_bridge/usage?"+query.Encode(), showUsage)
	})
	addJSON(cmd, "Write JSON")
	cmd.Flags().StringVar(&principal, "principal", "", "Only this principal; an empty text: anonymous callers")
	cmd.Flags().IntVar(&limit, "limit", 50, "How many rows are shown, up to "+strconv.Itoa(usage.MaxRows))
	return cmd
}

func showUsage(s *cli.Screen, used *usage.Usage) {
	row := func(principal, source, skill string, c usage.Counts, last string) []string {
		return []string{principal, source, skill, strconv.FormatUint(c.Calls, 10), strconv.FormatUint(c.Runs, 10), strconv.FormatUint(c.Refused, 10), last}
	}
	var rows [][]string
	for i := range used.Rows {
		r := &used.Rows[i]
		rows = append(rows, row(cmp.Or(r.Principal, anonymous), cmp.Or(r.Namespace, "(none)"), cmp.Or(r.SkillID, "(none)"), r.Counts, ago(r.Last)))
	}
	if used.Other.Calls > 0 {
		rows = append(rows, row("all others", "", "", used.Other, ""))
	}
	if len(rows) > 0 {
		s.Table("", []string{"PRINCIPAL", "SOURCE", "SKILL", "CALLS", "RUNS", "REFUSED", "LAST CALL"}, rows)
	}
	fmt.Fprintf(s.Out, "%d of %d rows since %s\n", len(used.Rows), used.Total, used.Since.Format("2006-01-02 15:04:05Z"))
}
