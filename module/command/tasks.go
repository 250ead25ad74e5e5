package command

import (
	"encoding/json" // as Caddy's admin API
	"errors"
	"fmt"
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
	"github.com/skill-bridge/caddy-skill-bridge/module/command/tasktable"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

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
				e.message = fmt.Sprintf("there is no task %q in memory, and the storage failed: %s", args[0], safetext.Line(failure.Error, tasktable.MaxError))
			}
			return screen.Fail(e, e.next), nil
		case len(args) > 0 && screen.AsJSON:
			screen.JSON(tasks.Tasks[0])
		case len(args) > 0:
			tasktable.ShowOne(screen, &tasks.Tasks[0])
		case screen.AsJSON:
			screen.JSON(answer)
		default:
			tasktable.Show(screen, &tasks)
		}
		return cli.OK, nil
	})
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(taskStates, cobra.ShellCompDirectiveNoFileComp)) // it fails only for unknown flags
	return cmd
}

// ago returns how long ago a time was.
func ago(at time.Time) string { return time.Since(at).Round(time.Second).String() }
