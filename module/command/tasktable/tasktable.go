// Package tasktable shows A2A tasks, call-backs and databases to an operator.
package tasktable

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/admin"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// MaxError bounds the text of an error, in characters.
const MaxError = 500

// ago returns how long ago a time was.
func ago(at time.Time) string { return time.Since(at).Round(time.Second).String() }

// Show writes tasks, and what is wrong with them.
func Show(s *cli.Screen, tasks *admin.Tasks) {
	var rows, stored [][]string
	for _, t := range tasks.Tasks {
		row := []string{t.ID, t.State, ago(t.Since), t.Skill, t.ExecutionID}
		if t.StoredOnly {
			stored = append(stored, row)
		} else {
			rows = append(rows, append(row, t.Principal))
		}
	}
	if len(rows) > 0 {
		s.Table("", []string{"TASK", "STATE", "SINCE", "SKILL", "RUN", "PRINCIPAL"}, rows)
		fmt.Fprintln(s.Out)
	}
	if len(stored) > 0 {
		s.Table("", []string{"TASK ONLY IN THE STORAGE", "STATE", "SINCE", "SKILL", "RUN"}, stored)
		fmt.Fprintln(s.Out)
	}
	Summarize(s, tasks)
	if len(stored) > 0 {
		fmt.Fprintf(s.Out, "A2A tasks only in the storage, the newest: %d\n", len(stored))
	}
}

// Summarize writes how many tasks there are, and what is wrong.
func Summarize(s *cli.Screen, tasks *admin.Tasks) {
	counts := make([]string, 0, len(tasks.States))
	for _, state := range slices.Sorted(maps.Keys(tasks.States)) {
		counts = append(counts, strconv.Itoa(tasks.States[state])+" "+state)
	}
	text := "A2A tasks in memory: " + strconv.Itoa(tasks.Total)
	if len(counts) > 0 {
		text += " (" + strings.Join(counts, ", ") + ")"
	}
	fmt.Fprintln(s.Out, text)
	if n := tasks.FailingWebhooks; n > 0 {
		fmt.Fprintf(s.Out, "Webhooks that do not take their events: %d\n", n)
	}
	if failure := tasks.StorageFailure; failure != nil {
		fmt.Fprintf(s.Out, "The storage of tasks failed %s ago, so that new tasks may be refused: %s\n", ago(failure.At), safetext.Line(failure.Error, MaxError))
	}
}

// lastEvent says which event a webhook has got or lost last.
func lastEvent(t *admin.Task, w *admin.Webhook) string {
	text := strconv.FormatUint(w.Sent, 10)
	switch works := t.State == task.Submitted.String() || t.State == task.Working.String(); {
	case w.Sent >= t.Event:
		return text + ", the newest"
	case works && w.Sent == 0:
		return "not noted while the task works"
	case works:
		return text + ", later ones not noted while the task works"
	}
	return text
}

// ShowOne writes one task.
func ShowOne(s *cli.Screen, t *admin.Task) {
	at := func(t time.Time) string { return t.Format(time.RFC3339) + " (" + ago(t) + " ago)" }
	kept := "in memory"
	if t.StoredOnly {
		kept = "only in the storage, which does not tell the principal"
	}
	var rows [][]string
	for _, row := range [][]string{
		{"state", t.State},
		{"kept", kept},
		{"since", at(t.Since)},
		{"created", at(t.Created)},
		{"event", strconv.FormatUint(t.Event, 10)},
		{"principal", t.Principal},
		{"context", t.Context},
		{"skill", t.Skill},
		{"skill id", t.SkillID},
		{"source", t.Namespace},
		{"run", t.ExecutionID},
	} {
		if row[1] != "" {
			rows = append(rows, row)
		}
	}
	s.Table("", []string{"task", t.ID}, rows)
	if len(t.Webhooks) == 0 {
		return
	}
	rows = nil
	for _, w := range t.Webhooks {
		rows = append(rows, []string{w.ID, w.Host, w.Version, w.State, lastEvent(t, &w), strconv.Itoa(w.Lost)})
	}
	fmt.Fprintln(s.Out)
	s.Table("", []string{"WEBHOOK", "HOST", "A2A", "STATE", "LAST EVENT", "LOST IN A ROW"}, rows)
}
