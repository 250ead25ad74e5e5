package command

import (
	"cmp"
	"context"
	"encoding/json" // as Caddy's admin API
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/admin"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

func runsCommand() *cobra.Command {
	var limit int
	known := map[string][]string{"state": admin.RunStates(), "front": {skillsprotocol.Name, a2a.Name, publish.Front}} // the values of flags; these fronts keep runs
	cmd := adminCommand(&cobra.Command{
		Use:   "runs [<id>]",
		Short: "Shows the runs that the running bridge keeps",
		Long: `Lists the runs in the database of the running bridge, or shows one: those that outlive their requests, and of all instances that share the database;
those that were made last come first. Tasks of MCP are sealed tokens, which are in no database. A run is "submitting" until its provider has answered,
"unknown" if the instance that submitted it has ended before, "waiting" if it waits for the client or for you, "accepted" or "working" while it goes on, and
has ended as "completed", "failed", "timed_out" or "canceled"; "lost" means that its end can't be learned. No outputs are shown. With --json, writes what the
admin API returns: {"kept", "open", "runs", "next", "unread"}, of one run its element of "runs", or {"error": {"message"}}. If a database can't be read, the
exit status is 5.` + adminHelp,
		Example: `  caddy skill-bridge runs --state open
  caddy skill-bridge runs --principal alice --front skills_protocol --json
  caddy skill-bridge runs 01982e7c-5a3c-7c1e-9d43-0b9b7a52c4f1`,
		Args: arguments(0, 1),
	}, nil, func(cmd *cobra.Command, screen *cli.Screen, api *adminClient, args []string) (int, error) {
		if limit < 1 || limit > 1000 {
			return 0, errors.New("--limit is a number from 1 to 1000")
		}
		query := url.Values{"limit": {strconv.Itoa(limit)}}
		for _, name := range []string{"state", "front", "skill", "principal", "before"} {
			text, _ := cmd.Flags().GetString(name) // it fails only for unknown flags
			switch {
			case !cmd.Flags().Changed(name):
				continue
			case name == "front" && text == mcp.Name:
				return 0, errors.New("--front mcp: tasks of MCP are sealed tokens, which are in no database")
			case known[name] != nil && !slices.Contains(known[name], text):
				return 0, fmt.Errorf("--%s %q is none of %s", name, text, strings.Join(known[name], ", "))
			}
			query.Set(name, text)
		}
		if len(args) > 0 {
			query.Set("id", args[0])
		}
		runs, answer, err := askRuns(cmd.Context(), api, query, limit)
		switch {
		case err != nil:
			return 0, err
		case len(args) > 0 && len(runs.Runs) == 0 && len(runs.Unread) > 0:
			return 0, &adminError{runs.Unread[0].Place + " can't be read: " + runs.Unread[0].Error, "see what is wrong with it: " + api.command("status")}
		case len(args) > 0 && len(runs.Runs) == 0:
			return 0, &adminError{fmt.Sprintf("no run %q is kept", args[0]), "see which there are: " + api.command("runs")}
		case len(args) > 0:
			screen.Show(runs.Runs[0], func() { showRun(screen, &runs.Runs[0]) })
			return cli.OK, nil
		}
		screen.Show(answer, func() { showRuns(screen, &runs) })
		return statusOf(runs.Unread), nil
	})
	flags := cmd.Flags()
	flags.String("state", "", "Only runs in this state: "+strings.Join(known["state"], ", "))
	flags.String("front", "", "Only runs of this protocol: "+strings.Join(known["front"], ", "))
	flags.String("skill", "", "Only runs of the skill of this name")
	flags.String("principal", "", "Only runs of this principal; an empty text: of anonymous callers")
	flags.String("before", "", "The next page, as the one before says it")
	flags.IntVar(&limit, "limit", 50, "How many runs are shown, up to 1000")
	for name, values := range known {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // it fails only for unknown flags
	}
	return cmd
}

// askRuns asks for pages until they have as many runs as wanted, since one may have fewer, or none, if few of many fit. It returns them as one page, and its
// text.
func askRuns(ctx context.Context, api *adminClient, query url.Values, limit int) (runs admin.Runs, text jsontext.Value, err error) {
	for {
		if err := api.ask(ctx, http.MethodGet, "/skill_bridge/runs?"+query.Encode(), nil, &text); err != nil {
			return runs, text, err
		}
		before := runs.Runs
		if runs = (admin.Runs{}); json.Unmarshal(text, &runs) != nil {
			return runs, text, api.notAdmin("its answer is not about runs")
		}
		if len(before) > 0 {
			runs.Runs = append(before, runs.Runs...)
			text, _ = json.Marshal(runs) // it was JSON
		}
		if len(runs.Runs) >= limit || runs.Next == "" || len(runs.Unread) > 0 {
			return runs, text, nil
		}
		query.Set("before", runs.Next)
		query.Set("limit", strconv.Itoa(limit-len(runs.Runs)))
	}
}

// ago returns how long ago a time was.
func ago(at time.Time) string { return span(time.Since(at)) }

// span returns a duration for people, in days and hours if it has several days.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	if d = d.Round(time.Second); d >= 2*day {
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	}
	return d.String()
}

const (
	// anonymous stands for callers without a principal.
	anonymous = "(anonymous)"
	// notHere stands for the bridge of a run that the running process does not have.
	notHere = "(not here)"
)

// showRuns writes a page of runs.
func showRuns(s *cli.Screen, runs *admin.Runs) {
	head, rows, several := []string{"RUN", "STATE", "SINCE", "FRONT", "SKILL", "PROVIDER'S ID", "PRINCIPAL"}, make([][]string, len(runs.Runs)), false
	for i, r := range runs.Runs {
		rows[i] = []string{r.ID, stateOf(&r), ago(r.Changed), r.Front, r.Skill, r.ExecutionID, cmp.Or(r.Principal, anonymous)}
		several = several || r.BridgeName != runs.Runs[0].BridgeName
	}
	if several {
		head = append(head, "BRIDGE")
		for i, r := range runs.Runs {
			rows[i] = append(rows[i], cmp.Or(r.BridgeName, notHere))
		}
	}
	if len(rows) > 0 {
		s.Table("", len(head), head, rows)
		fmt.Fprintln(s.Out)
	}
	summarizeRuns(s, runs)
	if runs.Next != "" {
		fmt.Fprintln(s.Out, "There are more: --before "+runs.Next)
	}
}

// stateOf returns the state of a run, with that of its task if it says more.
func stateOf(r *admin.Run) string {
	switch r.Task {
	case "input-required", "auth-required", "rejected":
		return r.State + " (" + r.Task + ")"
	}
	return r.State
}

// summarizeRuns writes how many runs there are, and which databases could not be read.
func summarizeRuns(s *cli.Screen, runs *admin.Runs) {
	var open []string
	for _, front := range slices.Sorted(maps.Keys(runs.Open)) {
		for _, state := range slices.Sorted(maps.Keys(runs.Open[front])) {
			open = append(open, fmt.Sprintf("%d %s (%s)", runs.Open[front][state], state, front))
		}
	}
	text := "Runs that are kept: " + strconv.Itoa(runs.Kept)
	if len(runs.Unread) > 0 {
		text = "Runs that are kept: not known"
		if runs.Kept > 0 {
			text += "; in the databases that could be read: " + strconv.Itoa(runs.Kept)
		}
	}
	if len(open) > 0 {
		text += ", of which go on: " + strings.Join(open, ", ")
	}
	fmt.Fprintln(s.Out, text)
	for _, u := range runs.Unread {
		fmt.Fprintf(s.Out, "Not read: %s: %s\n", u.Place, u.Error)
	}
}

// showRun writes one run.
func showRun(s *cli.Screen, r *admin.Run) {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Format(time.RFC3339) + " (" + ago(t) + " ago)"
	}
	named, kept := "", ""
	if r.Named {
		named = "by the caller, such as with an idempotency key"
	}
	if r.Bytes > 0 {
		kept = strconv.FormatInt(r.Bytes, 10) + " bytes"
	}
	var rows [][]string
	for _, row := range [][]string{
		{"state", stateOf(r)},
		{"since", at(r.Changed)},
		{"created", at(r.Created)},
		{"accepted", at(r.Accepted)},
		{"expires", "in " + span(time.Until(r.Expires))},
		{"bridge", cmp.Or(r.BridgeName, notHere)},
		{"front", r.Front},
		{"context", r.Context},
		{"principal", cmp.Or(r.Principal, anonymous)},
		{"named", named},
		{"skill", r.Skill},
		{"skill id", r.SkillID},
		{"source", r.Namespace},
		{"provider's id", r.ExecutionID},
		{"outcome", kept},
	} {
		if row[1] != "" {
			rows = append(rows, row)
		}
	}
	s.Table("", 1, []string{"run", r.ID}, rows)
	if len(r.Receivers) == 0 {
		return
	}
	rows = nil
	for _, to := range r.Receivers {
		waits := "for an event"
		if !to.Since.IsZero() {
			waits = "for " + ago(to.Since)
		}
		rows = append(rows, []string{to.Name, to.Host, waits, nextRequest(to.Since, to.Next), strconv.Itoa(to.Failed)})
	}
	fmt.Fprintln(s.Out)
	s.Table("", 5, []string{"RECEIVER", "HOST", "WAITS", "NEXT REQUEST", "FAILED REQUESTS"}, rows)
}

// showStores writes which databases there are, and what is wrong with them.
func showStores(s *cli.Screen, stores []admin.Store) {
	for _, d := range stores {
		fmt.Fprintf(s.Out, "\nDatabase (store): %s: %s\n", d.Place, d.State)
		if d.Error != "" {
			fmt.Fprintf(s.Out, "  %s\n  %s\n", d.Error, d.Advice)
		}
	}
}

// showNotifications writes how many webhooks of callers wait for events, and at which hosts most of them are.
func showNotifications(s *cli.Screen, n *admin.Notifications) {
	for _, u := range n.Unread {
		fmt.Fprintf(s.Out, "\nWebhooks of callers with events that were not delivered yet: not known of %s\n", u.Place)
	}
	if n.Waiting.Waiting == 0 {
		return
	}
	fmt.Fprintf(s.Out, "\nWebhooks of callers with events that were not delivered yet: %d\n", n.Waiting.Waiting)
	var rows [][]string
	for _, r := range n.Receivers[:min(len(n.Receivers), shownReceivers)] {
		rows = append(rows, []string{r.Host, cmp.Or(r.Principal, anonymous), strconv.Itoa(r.Waiting), ago(r.Oldest), nextRequest(r.Oldest, r.Next)})
	}
	s.Table("  ", 5, []string{"RECEIVER", "PRINCIPAL", "WAITING", "LONGEST", "NEXT REQUEST"}, rows)
}

// nextRequest says when the next request is made, for an event that waits since a time; zero: none does.
func nextRequest(since, next time.Time) string {
	if since.IsZero() {
		return ""
	}
	if left := time.Until(next).Round(time.Second); left > 0 {
		return "in " + left.String()
	}
	return "now"
}

// shownReceivers is the maximum number of receivers in a table.
const shownReceivers = 10

// statusOf returns the exit status of an answer, which may lack what could not be read.
func statusOf(unread []admin.Unread) int {
	if len(unread) > 0 {
		return cli.ProtocolError
	}
	return cli.OK
}
