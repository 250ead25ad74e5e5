package command

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
)

const (
	providerHelp = `

The provider is an origin, such as https://skills.example.com. Like the bridge, the
command connects only over TLS, to public addresses, on ports 80, 443 and the port of
the origin; --allow-http, --allow-networks and --allow-ports allow more.

Names of skills are those of a bridge: the provider's namespace (its host name, or
--namespace), a dot, and the skill's id with dots for slashes. You can leave out the
namespace, or use the id.`
	statusHelp = `

Exit status: 0 success, 1 wrong usage, no request was sent, 5 there is no result for
another reason, or writing it failed, 130 interrupted.`
	runStatusHelp = `

Exit status: 0 success, 1 wrong usage, no request was sent, 4 the provider reported
that the run failed, 5 there is no result for another reason, or writing it failed,
130 interrupted.`
	outcomeHelp = `

With --json, standard output has one object, whether the call succeeds or not:
{"status", "skill_id", "execution_id", "elapsed_ms", "output", "error": {"code",
"message", "phase", "source", "http_status", "executed", "next", "details",
"retry", "url"}, "follow"}. Members that do not apply are absent. "status" is the
status of the run, or "error" if none was accepted; "follow" is the command with which
to continue following the run.`
)

// action is what a command does with a provider. It returns the exit status.
type action func(ctx context.Context, p *cli.Provider) int

// withProvider completes a command whose first argument is the URL of a provider. parse makes
// the action from flags and arguments; it fails if they are invalid.
func withProvider(cmd *cobra.Command, jsonUsage string, parse func(cmd *cobra.Command, args []string) (action, error)) *cobra.Command {
	var r providerFlags
	r.addFlags(cmd, true)
	addJSON(cmd, jsonUsage)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = exits(func(cmd *cobra.Command, screen *cli.Screen, args []string) (int, error) {
		act, err := parse(cmd, args)
		if err != nil {
			screen.InvalidArguments(err)
			return 0, err
		}
		h, err := r.handler(args[0])
		if err != nil {
			return 0, err
		}
		config, release, err := r.load(h)
		if err != nil {
			return 0, err
		}
		defer release()
		denied := &cli.Denied{Observer: config.Observer}
		config.Observer = denied
		bridge, err := translate.New(*config)
		if err != nil {
			return 0, err
		}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		p := r.provider(cmd, screen, args[0])
		p.Bridge, p.Denied = bridge, denied
		return act(ctx, p), nil
	})
	return cmd
}

func listCommand() *cobra.Command {
	return withProvider(&cobra.Command{
		Use:   "list <provider-url>",
		Short: "Lists the skills of a provider",
		Long: `Lists the skills of a provider, under the names that describe, call and a bridge's
execute_skill accept. With --json, writes {"skills": [{"name", "version", "access",
"capability_type", "description"}]}, or {"error": {"code", "message", …}}.` + providerHelp + statusHelp,
		Example: `  caddy skill-bridge list https://skills.example.com
  caddy skill-bridge list --json https://skills.example.com
  ACME_KEY=... caddy skill-bridge list --api-key-env ACME_KEY --private https://skills.example.com
  caddy skill-bridge list --allow-http --allow-networks 127.0.0.1 http://127.0.0.1:8081`,
		Args: arguments(1, 1),
	}, "Write JSON", func(*cobra.Command, []string) (action, error) {
		return func(ctx context.Context, p *cli.Provider) int { return p.List(ctx) }, nil
	})
}

func describeCommand() *cobra.Command {
	return withProvider(&cobra.Command{
		Use:   "describe <provider-url> <skill>",
		Short: "Describes a skill: its inputs, output and authentication",
		Long: `Describes a skill: its inputs, its output, and the authentication that it needs.
With --json, writes {"descriptor", "input_schema"}: the unchanged descriptor and a
JSON Schema of the inputs; or {"error": {"code", "message", …}}.` + providerHelp + statusHelp,
		Example: `  caddy skill-bridge describe https://skills.example.com acme.weather
  caddy skill-bridge describe --json https://skills.example.com acme.weather`,
		Args: arguments(2, 2),
	}, "Write the descriptor and the input schema as JSON", func(_ *cobra.Command, args []string) (action, error) {
		return func(ctx context.Context, p *cli.Provider) int { return p.Describe(ctx, args[1]) }, nil
	})
}

func callCommand() *cobra.Command {
	var whole string
	cmd := withProvider(&cobra.Command{
		Use:   "call <provider-url> <skill> [<key>=<value> | <key>:=<json>]... [--args @<file>|-|<json>]",
		Short: "Runs a skill and shows its output",
		Long: `Runs a skill, follows the run to its end, and writes the output as JSON to standard
output, indented if that is a terminal. Standard error shows the progress.

Arguments are key=value: a string if the input is a string, otherwise JSON (numbers,
true, objects). key:=json is always JSON. --args takes all arguments as one JSON
object: literally, from @file, or from standard input (-).

Ctrl-C and the end of --timeout stop the command, not the run, which the protocol
can't cancel. The command then shows the follow command with which to continue.` + outcomeHelp + providerHelp + runStatusHelp,
		Example: `  caddy skill-bridge call https://skills.example.com demo.summarize text="A long text." sentences=2
  caddy skill-bridge call https://skills.example.com demo.summarize --args @arguments.json
  jq '{text: .body}' letter.json | caddy skill-bridge call https://skills.example.com demo.summarize --args -
  ACME_KEY=... caddy skill-bridge call --api-key-env ACME_KEY https://skills.example.com acme.weather place=Oslo`,
		Args: arguments(2, -1),
	}, outcomeUsage, func(cmd *cobra.Command, args []string) (action, error) {
		timeout, err := timeoutOf(cmd)
		if err != nil {
			return nil, err
		}
		given, err := callArguments(args[2:], cmd.Flags().Changed("args"), whole)
		return func(ctx context.Context, p *cli.Provider) int { return p.Call(ctx, args[1], given, timeout) }, err
	})
	addTimeout(cmd, "the skill's own timeout or 25s until the run is accepted, then without limit")
	cmd.Flags().StringVar(&whole, "args", "", "All arguments: a JSON object, @file, or - for standard input")
	return cmd
}

// callArguments reads the arguments of a call: words, or the value of --args.
func callArguments(words []string, isWhole bool, whole string) (cli.Arguments, error) {
	switch {
	case !isWhole:
		return cli.ParseArguments(words)
	case len(words) > 0:
		return cli.Arguments{}, errors.New("--args and key=value exclude each other")
	}
	return cli.ReadArguments(whole, os.Stdin)
}

func followCommand() *cobra.Command {
	cmd := withProvider(&cobra.Command{
		Use:   "follow <provider-url> <skill> <execution-id>",
		Short: "Follows an earlier run to its end",
		Long: `Waits for the end of a run that call or another client has started, and writes the same
output as call. call shows the execution id when the run is accepted.` + outcomeHelp + providerHelp + runStatusHelp,
		Example: `  caddy skill-bridge follow https://skills.example.com demo.summarize exec-qglhzn4mds74xetbofusrkds4r
  caddy skill-bridge follow --timeout 5m https://skills.example.com demo.summarize exec-qglhzn4mds74xetbofusrkds4r`,
		Args: arguments(3, 3),
	}, outcomeUsage, func(cmd *cobra.Command, args []string) (action, error) {
		timeout, err := timeoutOf(cmd)
		return func(ctx context.Context, p *cli.Provider) int { return p.Follow(ctx, args[1], args[2], timeout) }, err
	})
	addTimeout(cmd, "until the run ends")
	return cmd
}

const outcomeUsage = "Write the whole result, not only the output, as JSON"

func addTimeout(cmd *cobra.Command, standard string) {
	cmd.Flags().Duration("timeout", 0, "How long to wait at most, such as 90s (default: "+standard+")")
}

// timeoutOf returns the flag --timeout; 0: it is not set.
func timeoutOf(cmd *cobra.Command) (time.Duration, error) {
	timeout, err := cmd.Flags().GetDuration("timeout")
	if err == nil && timeout < time.Millisecond && cmd.Flags().Changed("timeout") {
		err = errors.New("--timeout is too short: the minimum is 1ms")
	}
	return timeout, err
}
