package command

import (
	"context"
	"encoding/json" // as Caddy's admin API
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/admin"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

func runsCommand() *cobra.Command {
	var limit int
	known := map[string][]string{"state": admin.RunStates(), "front": {skillsprotocol.Name, a2a.Name}} // the values of flags; these fronts keep runs
	cmd := adminCommand(&cobra.Command{
		Use:   "runs [<id>]",
		Short: "Shows the runs that the running bridge keeps",
		Long: `Lists the runs in the database of the running bridge, or shows one: those that outlive their requests, and of all instances that share the database;
those that were made last come first. Tasks of MCP are sealed tokens, which are in no database. A run is "submitting" until its provider has answered,
"unknown" if the instance that submitted it has ended before, "waiting" if it waits for the client or for you, "accepted" or "working" while it goes on, and
has ended as "completed", "failed", "timed_out" or "canceled"; "lost" means that its end can't be learned. No outputs are shown. With --json, writes what the
admin API returns: {"kept", "open", "runs", "next", "unread"}, of one run its element of "runs", or {"error": {"message"}}.` + adminHelp,
		Example: `  caddy skill-bridge runs --state open
  caddy skill-bridge runs --principal alice --front skills_protocol --json
  caddy skill-bridge runs 01982e7c-5a3c-7c1e-9d43-0b9b7a52c4f1`,
		Args: arguments(0, 1),
	}, func(cmd *cobra.Command, screen *cli.Screen, api *adminClient, args []string) (int, error) {
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
		if len(runs.Unread) > 0 {
			return cli.ProtocolError, nil
		}
		return cli.OK, nil
	})
	addJSON(cmd, "Write JSON")
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
	var before []admin.Run
	for {
		if err := api.ask(ctx, http.MethodGet, "/skill_bridge/runs?"+query.Encode(), nil, &text); err != nil {
			return runs, text, err
		}
		runs = admin.Runs{}
		if json.Unmarshal(text, &runs) != nil {
			return runs, text, api.notAdmin("its answer is not about runs")
		}
		if before != nil {
			runs.Runs = append(before, runs.Runs...)
			text, _ = json.Marshal(runs) // it was JSON
		}
		left := limit - len(runs.Runs)
		if left <= 0 || runs.Next == "" || len(runs.Unread) > 0 {
			return runs, text, nil
		}
		before = runs.Runs
		query.Set("before", runs.Next)
		query.Set("limit", strconv.Itoa(left))
	}
}
