package command

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/admin"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
)

// ago returns how long ago a time was.
func ago(at time.Time) string { return time.Since(at).Round(time.Second).String() }

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
		s.Table("", head, rows)
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
		{"expires", "in " + time.Until(r.Expires).Round(time.Second).String()},
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
	s.Table("", []string{"run", r.ID}, rows)
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
	s.Table("", []string{"RECEIVER", "HOST", "WAITS", "NEXT REQUEST", "FAILED REQUESTS"}, rows)
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
	s.Table("  ", []string{"RECEIVER", "PRINCIPAL", "WAITING", "LONGEST", "NEXT REQUEST"}, rows)
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
