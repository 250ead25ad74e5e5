package command

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/admin"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/probes"
	"github.com/skill-bridge/caddy-skill-bridge/module/usage"
)

func statusCommand() *cobra.Command {
	return adminCommand(&cobra.Command{
		Use:   "status",
		Short: "Shows the providers, skills and calls in progress of the running bridge",
		Long: `Shows the version of the running bridge, each provider with its health and circuit breakers, how many of its skills the bridge has read, which of them
have faults, the database, how many runs are kept and accounts of users are connected, and the calls in progress. The command reads no skills: those that were not read yet may have faults, too.
If there are several bridges (handlers, including those of an earlier configuration while they have calls), each has a number. With --json, shows all that the
admin API returns: {"version", "caddy_version", "providers", "skills", "unavailable", "stale", "left_out", "missing_aliases", "calls", "runs", "changes",
"unreadable", "notifications", "stores", "grants"}, or {"error": {"message"}} if Caddy did not answer.` + adminHelp,
		Example: `  caddy skill-bridge status
  caddy skill-bridge status --address localhost:2020 --json
  caddy skill-bridge status --config /etc/caddy/Caddyfile`,
		Args: arguments(0, 0),
	}, nil, func(cmd *cobra.Command, screen *cli.Screen, api *adminClient, _ []string) (int, error) {
		return get(cmd.Context(), screen, api, "/skill_bridge/status", func(s *cli.Screen, all *admin.Status) { (&bridgeStatus{all}).show(s) })
	})
}

func readyCommand() *cobra.Command {
	return adminCommand(&cobra.Command{
		Use:   "ready",
		Short: "Says whether the running bridge is ready for calls, for health checks",
		Long: `Asks the admin API whether the bridge is ready for calls, as the health check of a container does. It also is, and "degraded", if it has lost its database or
if none of its sources can be used. With --json, writes {"status", "problems"}, or {"error": {"message"}} if it is not ready.` + adminHelp,
		Example: "  caddy skill-bridge ready\n  caddy skill-bridge ready --config /etc/caddy/Caddyfile",
		Args:    arguments(0, 0),
	}, nil, func(cmd *cobra.Command, screen *cli.Screen, api *adminClient, _ []string) (int, error) {
		return get(cmd.Context(), screen, api, "/skill_bridge/readyz", func(s *cli.Screen, answer *probes.Answer) {
			fmt.Fprintln(s.Out, strings.Join(append([]string{answer.Status}, answer.Problems...), "\n"))
		})
	})
}

// bridgeStatus is the status of bridges, with the tables that show it.
type bridgeStatus struct{ *admin.Status }

// table writes a table whose first column is the number of the bridge, without that column
// if there is only one bridge. The last column, such as a failure, is shown whole.
func (all *bridgeStatus) table(s *cli.Screen, indent string, header []string, rows [][]string) {
	header = append([]string{"BRIDGE"}, header...)
	if !all.several() {
		header = header[1:]
		for i := range rows {
			rows[i] = rows[i][1:]
		}
	}
	s.Table(indent, len(header)-1, header, rows)
}

// several reports whether there are several bridges.
func (all *bridgeStatus) several() bool {
	return slices.ContainsFunc(all.Providers, func(p admin.Provider) bool { return p.Bridge != all.Providers[0].Bridge })
}

func (all *bridgeStatus) show(s *cli.Screen) {
	rows := make([][]string, len(all.Providers))
	counts := all.counts()
	for i, p := range all.Providers {
		trouble := ""
		if t := p.LastTrouble; t != nil {
			trouble = fmt.Sprintf("%s ago, %s: ", time.Since(t.At).Round(time.Second), t.Phase)
			if t.Error != "" {
				trouble += t.Error
			} else {
				trouble += "HTTP " + strconv.Itoa(t.HTTPStatus)
			}
		}
		open := 0
		for _, b := range p.CircuitBreakers {
			if b.State == "open" {
				open++
			}
		}
		n, health, faulty := counts[sourceKey{p.Bridge, p.Namespace}], p.Health, "-" // faulty is "-" if no skill was read
		if health == "unknown" {
			health = "not asked yet"
		}
		if n.read > 0 {
			faulty = strconv.Itoa(n.faulty)
		}
		rows[i] = []string{
			strconv.Itoa(p.Bridge), p.Namespace, p.Kind, health, strconv.Itoa(n.skills), strconv.Itoa(n.read), faulty,
			strconv.FormatInt(p.CallsInProgress, 10), strconv.Itoa(open), trouble,
		}
	}
	all.table(s, "", []string{"SOURCE", "KIND", "HEALTH", "SKILLS", "READ", "FAULTY", "CALLS", "OPEN BREAKERS", "LAST FAILURE"}, rows)
	showStores(s, all.Stores)
	all.showUnread(s, counts)
	all.showFaults(s)
	summarizeChanges(s, &all.Changes)
	if r := &all.Runs; r.Kept > 0 || len(r.Unread) > 0 {
		fmt.Fprintln(s.Out)
		summarizeRuns(s, r)
	}
	summarizeGrants(s, &all.Grants)
	showNotifications(s, &all.Notifications)
	all.showCalls(s)
	fmt.Fprintln(s.Out, "\nSkill Bridge "+all.Version)
}

func (all *bridgeStatus) showCalls(s *cli.Screen) {
	if all.Calls.Total == 0 {
		return
	}
	rows := make([][]string, len(all.Calls.Calls))
	for i, r := range all.Calls.Calls {
		rows[i] = []string{strconv.Itoa(r.Bridge), r.Name, time.Since(r.Arrived).Round(time.Millisecond).String(), r.ExecutionID, r.Principal}
	}
	fmt.Fprintf(s.Out, "\n%d calls in progress:\n", all.Calls.Total)
	all.table(s, "  ", []string{"SKILL", "SINCE", "RUN", "PRINCIPAL"}, rows)
}

// sourceKey identifies a source: several bridges may have the same namespace.
type sourceKey struct {
	bridge    int
	namespace string
}

// skillCounts are the numbers of a source's skills: all, those with a descriptor that was read,
// and those of them that can't be used.
type skillCounts struct{ skills, read, faulty int }

func (all *bridgeStatus) counts() map[sourceKey]skillCounts {
	counts := map[sourceKey]skillCounts{}
	for _, skill := range all.Skills {
		source := sourceKey{skill.Bridge, skill.Namespace}
		n := counts[source]
		n.skills++
		if skill.Descriptor != "not_cached" || skill.Fault != nil {
			n.read++
		}
		if skill.Fault != nil {
			n.faulty++
		}
		counts[source] = n
	}
	return counts
}

// showUnread says that skills which were not read yet, because no call needed them, may have faults that are not known.
func (all *bridgeStatus) showUnread(s *cli.Screen, counts map[sourceKey]skillCounts) {
	for _, n := range counts {
		if n.read < n.skills {
			fmt.Fprintln(s.Out, "\nSkills that were not read yet may have faults. The bridge reads a skill for a call\n"+
				"or for the page (browse). To read one without the bridge: caddy skill-bridge describe <provider-url> <skill>")
			return
		}
	}
}

// showFaultsOf writes a table of sources, and of the skills that have a fault.
func (all *bridgeStatus) showFaultsOf(s *cli.Screen, title string, sources []admin.Unavailable, fault func(admin.Skill) *admin.Fault) {
	var rows [][]string
	for _, u := range sources {
		rows = append(rows, []string{strconv.Itoa(u.Bridge), u.Namespace, u.Fault.Code, u.Fault.Message})
	}
	for _, skill := range all.Skills {
		if f := fault(skill); f != nil {
			rows = append(rows, []string{strconv.Itoa(skill.Bridge), skill.Name, f.Code, f.Message})
		}
	}
	if len(rows) > 0 {
		fmt.Fprintln(s.Out, "\n"+title)
		all.table(s, "  ", []string{"NAME", "CODE", "MESSAGE"}, rows)
	}
}

func (all *bridgeStatus) showFaults(s *cli.Screen) {
	all.showFaultsOf(s, "What can't be used:", all.Unavailable, func(s admin.Skill) *admin.Fault { return s.Fault })
	all.showFaultsOf(s, "What can't be renewed, so that the documents of before are used:", all.Stale, func(s admin.Skill) *admin.Fault { return s.NotRenewed })
	for _, l := range all.LeftOut {
		of := l.Namespace
		if all.several() {
			of += fmt.Sprintf(" (bridge %d)", l.Bridge)
		}
		fmt.Fprintf(s.Out, "\nSkills of %s that are not listed: %d\n", of, l.Count)
		shown := l.Entries[:min(len(l.Entries), shownLeftOut)]
		rows := make([][]string, 0, len(shown))
		for _, entry := range shown {
			rows = append(rows, []string{entry.ID, entry.Path, entry.Message})
		}
		s.Table("  ", 2, []string{"ID", "AT", "MESSAGE"}, rows)
		if more := l.Count - len(rows); more > 0 {
			fmt.Fprintf(s.Out, "  and %d more; --json shows up to 100\n", more)
		}
	}
	if len(all.MissingAliases) == 0 {
		return
	}
	fmt.Fprintln(s.Out, "\nAliases for skills that are not listed:")
	var rows [][]string
	for _, a := range all.MissingAliases {
		rows = append(rows, []string{strconv.Itoa(a.Bridge), a.Namespace, a.Alias, a.SkillID, strings.Join(a.Near, ", ")})
	}
	all.table(s, "  ", []string{"SOURCE", "ALIAS", "SKILL ID", "PERHAPS"}, rows)
}

// shownLeftOut is the maximum number of unlisted entries of one source in a table.
const shownLeftOut = 20

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
	}, nil, func(cmd *cobra.Command, screen *cli.Screen, api *adminClient, _ []string) (int, error) {
		if limit < 0 || limit > usage.MaxRows {
			return 0, errors.New("--limit is a number from 0 to " + strconv.Itoa(usage.MaxRows))
		}
		query := url.Values{"limit": {strconv.Itoa(limit)}}
		if cmd.Flags().Changed("principal") {
			query.Set("principal", principal)
		}
		return get(cmd.Context(), screen, api, "/skill_bridge/usage?"+query.Encode(), showUsage)
	})
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
		s.Table("", 7, []string{"PRINCIPAL", "SOURCE", "SKILL", "CALLS", "RUNS", "REFUSED", "LAST CALL"}, rows)
	}
	fmt.Fprintf(s.Out, "%d of %d rows since %s\n", len(used.Rows), used.Total, used.Since.Format("2006-01-02 15:04:05Z"))
}
