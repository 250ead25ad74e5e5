package command

import (
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
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// maxShownError bounds the text of an error, in characters.
const maxShownError = 500

// taskStates are the names of the states of tasks.
var taskStates = func() (names []string) {
	for s := task.Submitted; s <= task.Rejected; s++ {
		names = append(names, s.String())
	}
	return names
}()

func tasksCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tasks [<id>]",
		Short: "Shows the A2A tasks of the running bridge",
		Long: `Lists the A2A tasks of the running bridge, or shows one: those in memory, with the newest state first (at
most 1000), and the newest that are only in the storage, as after a restart (--stored, at most 100). The
storage has no principals. The events of a task have numbers: "event" is its newest, LAST EVENT the last one
that a webhook has got or lost, which is noted when the task ends or waits, and LOST IN A ROW how many the
webhook did not take; after five, it gets no more. With --json, writes what the admin API returns: {"total",
"states", "failing_webhooks", "storage_failure", "tasks"}, of one task its element of "tasks", or {"error":
{"message"}}; an element with "stored_only" is only in the storage.` + adminHelp,
		Example: `  caddy skill-bridge tasks
  caddy skill-bridge tasks --state working --json
  caddy skill-bridge tasks 01982e7c-5a3c-7c1e-9d43-0b9b7a52c4f1`,
		Args:              arguments(0, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := addAdminFlags(cmd)
	addJSON(cmd, "Write JSON")
	state := cmd.Flags().String("state", "", "Only tasks in this state: "+strings.Join(taskStates, ", "))
	stored := cmd.Flags().Int("stored", 20, "How many of the newest tasks that are only in the storage are read, up to 100")
	cmd.RunE = exits(func(cmd *cobra.Command, screen *cli.Screen, args []string) (int, error) {
		if *stored < 0 || *stored > 100 {
			return 0, errors.New("--stored is a number from 0 to 100")
		}
		if *state != "" && !slices.Contains(taskStates, *state) {
			return 0, fmt.Errorf("--state %q is none of %s", *state, strings.Join(taskStates, ", "))
		}
		query := url.Values{"stored": {strconv.Itoa(*stored)}}
		if *state != "" {
			query.Set("state", *state)
		}
		if len(args) > 0 {
			query.Set("id", args[0])
		}
		api, err := f.client()
		if err != nil {
			return 0, err
		}
		var answer jsontext.Value
		if e := api.ask(cmd.Context(), http.MethodGet, "/skill_bridge/tasks?"+query.Encode(), nil, &answer); e != nil {
			return screen.Fail(e, e.next), nil
		}
		var tasks admin.Tasks
		if json.Unmarshal(answer, &tasks) != nil {
			e := api.notAdmin("its answer is not about tasks")
			return screen.Fail(e, e.next), nil
		}
		switch {
		case len(args) > 0 && len(tasks.Tasks) == 0:
			e := &adminError{fmt.Sprintf("there is no task %q in memory or in the storage", args[0]), "see which there are: " + api.command("tasks")}
			if failure := tasks.StorageFailure; failure != nil {
				e.message = fmt.Sprintf("there is no task %q in memory, and the storage failed: %s", args[0], safetext.Line(failure.Error, maxShownError))
			}
			return screen.Fail(e, e.next), nil
		case len(args) > 0 && screen.AsJSON:
			screen.JSON(tasks.Tasks[0])
		case len(args) > 0:
			showTask(screen, &tasks.Tasks[0])
		case screen.AsJSON:
			screen.JSON(answer)
		default:
			showTasks(screen, &tasks)
		}
		return cli.OK, nil
	})
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(taskStates, cobra.ShellCompDirectiveNoFileComp)) // it fails only for unknown flags
	return cmd
}

// ago returns how long ago a time was.
func ago(at time.Time) string { return time.Since(at).Round(time.Second).String() }

func showTasks(s *cli.Screen, tasks *admin.Tasks) {
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
	summarizeTasks(s, tasks)
	if len(stored) > 0 {
		fmt.Fprintf(s.Out, "A2A tasks only in the storage, the newest: %d\n", len(stored))
	}
}

// summarizeTasks writes how many tasks there are, and what is wrong.
func summarizeTasks(s *cli.Screen, tasks *admin.Tasks) {
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
		fmt.Fprintf(s.Out, "The storage of tasks failed %s ago, so that new tasks may be refused: %s\n", ago(failure.At), safetext.Line(failure.Error, maxShownError))
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

func showTask(s *cli.Screen, t *admin.Task) {
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
