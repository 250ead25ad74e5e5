package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/command/remote"
)

const (
	providerHelp = `

The provider is an origin, such as https://skills.example.com. Like the bridge, the command connects only over TLS, to public addresses, on ports 80, 443 and
the port of the origin; --allow-http, --allow-networks and --allow-ports allow more.

Names of skills are those of a bridge: the provider's namespace (its host name, or --namespace), a dot, and the skill's id with dots for slashes. You can
leave out the namespace, or use the id. Tool names are accepted, too.`
	bridgeHelp = `

With --bridge, the skills are those of a running bridge: the URL is that of its endpoint for the Skills Protocol. --bearer-env and --basic-env name the
environment variable with a token, or with user:password. They are sent to that URL only: redirects are not followed.`
	statusHelp = `

Exit status: 0 success, 1 wrong usage, no request was sent, 5 there is no result for another reason, or writing it failed, 130 interrupted.`
	runStatusHelp = `

Exit status: 0 success, 1 wrong usage, no request was sent, 4 the provider reported that the run failed, 5 there is no result for another reason, or writing
it failed, 130 interrupted.`
	outcomeHelp = `

With --json, standard output has one object, whether the call succeeds or not: {"status", "skill_id", "execution_id", "elapsed_ms", "output", "error":
{"code", "message", "phase", "source", "http_status", "executed", "next", "details", "retry", "url"}, "follow"}. Members that do not apply are absent.
"status" is the status of the run, or "error" if none was accepted; "follow" is the command with which to continue following the run.`
)

// action is what a command does with skills. It returns the exit status.
type action func(ctx context.Context, from *cli.Endpoint) int

// withSkills completes a command about the skills of a provider, whose URL is the first argument, or of a bridge. There are
// further arguments, from least to most; most is -1 for any number. parse makes the action from flags and further arguments; it
// fails if they are invalid.
func withSkills(cmd *cobra.Command, least, most int, jsonUsage string, parse func(cmd *cobra.Command, args []string) (action, error)) *cobra.Command {
	var r providerFlags
	r.addFlags(cmd, true)
	c := remote.Connection{Flag: "--bridge", Example: "the URL of a bridge's endpoint, such as https://bridge.example.com/rpc"}
	c.AddFlags(cmd, "URL of the endpoint of a running bridge, instead of a provider's")
	addJSON(cmd, jsonUsage)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		first := 1
		if c.URL != "" {
			first = 0
		}
		limit := most
		if most >= 0 {
			limit += first
		}
		return arguments(least+first, limit)(cmd, args)
	}
	cmd.RunE = exits(func(cmd *cobra.Command, screen *cli.Screen, args []string) (int, error) {
		further := args
		if c.URL == "" {
			further = args[1:]
		}
		act, err := parse(cmd, further)
		if err != nil {
			screen.InvalidArguments(err)
			return 0, err
		}
		if err := c.Check(); err != nil {
			return 0, err
		}
		return r.act(cmd, screen, &c, args, act)
	})
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) (names []string, _ cobra.ShellCompDirective) {
		isSkill := least > 0 && (c.URL == "" && len(args) == 1 || c.URL != "" && len(args) == 0)
		if isSkill && c.Check() == nil {
			ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
			defer cancel()
			cmd.SetContext(ctx)
			_, _ = r.act(cmd, cli.NewScreen(os.Stderr, os.Stderr, false), &c, args, func(ctx context.Context, from *cli.Endpoint) int { // without an answer, there are no names
				names = from.Names(ctx, begun)
				return cli.OK
			})
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// completionTimeout is how long a shell waits for names of skills.
const completionTimeout = 3 * time.Second

// act executes an action about the skills of a running bridge, or of the provider that the first argument names.
func (r *providerFlags) act(cmd *cobra.Command, screen *cli.Screen, c *remote.Connection, args []string, act action) (int, error) {
	if c.URL != "" {
		return r.actOnBridge(cmd, screen, c, act)
	}
	b, err := r.open(args[0])
	if err != nil {
		return 0, err
	}
	defer b.release()
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	return act(ctx, r.endpoint(cmd, screen, args[0], b)), nil
}

// actOnBridge executes an action about the skills of a running bridge.
func (r *providerFlags) actOnBridge(cmd *cobra.Command, screen *cli.Screen, c *remote.Connection, act action) (int, error) {
	flags := given(r.flags)
	for _, word := range flags {
		if word != "--allow-http" {
			return 0, fmt.Errorf("%s needs the URL of a provider: a bridge has its own settings", word)
		}
	}
	do, err := c.Open(r.allowHTTP)
	if err != nil {
		return 0, err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	return act(ctx, &cli.Endpoint{
		Screen: screen, URL: c.URL, Do: do, Command: cmd.Root().Name(), Flags: append(flags, c.Given()...), Authorized: len(c.Given()) > 0,
	}), nil
}

func listCommand() *cobra.Command {
	var o cli.ListOptions
	cmd := withSkills(&cobra.Command{
		Use:   "list (<provider-url> | --bridge <url>)",
		Short: "Lists the skills of a provider, or of a running bridge",
		Long: `Lists the skills of a provider or of a running bridge, under the names that describe, call and a bridge's execute_skill accept, with their names for
language models. --query finds skills by words, and shows the best first. --usable leaves out the skills that can't be called, as far as is known. The state
of a skill is available, readable, needs_consent, needs_credentials, incompatible, unsupported, invalid, unreachable, or unknown; for a provider, --usable and --states read
the descriptors to know it.

With --json, writes {"skills": [{"name", "tool_name", "version", "access", "capability_type", "description", "state", "state_since"}], "unavailable":
[{"namespace", "code", "message"}]}, the latter for providers that a bridge can't reach; or
{"error": {"code", "message", …}}.` + providerHelp + bridgeHelp + statusHelp,
		Example: `  caddy skill-bridge list https://skills.example.com
  caddy skill-bridge list --query "translate text" https://skills.example.com
  BRIDGE_LOGIN=user:password caddy skill-bridge list --usable --bridge https://bridge.example.com/rpc --basic-env BRIDGE_LOGIN
  caddy skill-bridge list --json https://skills.example.com
  ACME_KEY=... caddy skill-bridge list --api-key-env ACME_KEY --private https://skills.example.com
  caddy skill-bridge list --allow-http --allow-networks 127.0.0.1 http://127.0.0.1:8081`,
	}, 0, 0, "Write JSON", func(*cobra.Command, []string) (action, error) {
		return func(ctx context.Context, from *cli.Endpoint) int { return from.List(ctx, o) }, nil
	})
	cmd.Flags().StringVar(&o.Query, "query", "", "Words of the skills to list, the best first")
	cmd.Flags().BoolVar(&o.Usable, "usable", false, "Only skills that can be called, as far as is known")
	cmd.Flags().BoolVar(&o.States, "states", false, "Read the descriptors of a provider, to show whether its skills can be called")
	return cmd
}

func describeCommand() *cobra.Command {
	return withSkills(&cobra.Command{
		Use:   "describe (<provider-url> | --bridge <url>) <skill>",
		Short: "Describes a skill: its inputs, output and authentication",
		Long: `Describes a skill: its inputs, its output, and the authentication that it needs. With --json, writes {"skill": {"manifest"}}, with "content" if it is
read and not called; or {"error": {"code", "message", …}}.` + providerHelp + bridgeHelp + statusHelp,
		Example: `  caddy skill-bridge describe https://skills.example.com acme.weather
  caddy skill-bridge describe --json https://skills.example.com acme.weather
  caddy skill-bridge describe --bridge https://bridge.example.com/rpc acme.weather`,
	}, 1, 1, "Write the manifest as JSON", func(_ *cobra.Command, args []string) (action, error) {
		return func(ctx context.Context, from *cli.Endpoint) int { return from.Describe(ctx, args[0]) }, nil
	})
}

func callCommand() *cobra.Command {
	var whole string
	cmd := withSkills(&cobra.Command{
		Use:   "call (<provider-url> | --bridge <url>) <skill> [<key>=<value> | <key>:=<json>]... [--args @<file>|-|<json>]",
		Short: "Runs a skill and shows its output",
		Long: `Runs a skill, follows the run to its end, and writes the output as JSON to standard output, indented if that is a terminal. Standard error shows the
progress.

Arguments are key=value: a string if the input is a string, otherwise JSON (numbers, true, objects). key:=json is always JSON. --args takes all arguments as
one JSON object: literally, from @file, or from standard input (-).

Ctrl-C and the end of --timeout stop the command, not the run, which the protocol can't cancel. The command then shows the follow command with which to
continue.` + outcomeHelp + providerHelp + bridgeHelp + runStatusHelp,
		Example: `  caddy skill-bridge call https://skills.example.com demo.summarize text="A long text." sentences=2
  caddy skill-bridge call https://skills.example.com demo.summarize --args @arguments.json
  jq '{text: .body}' letter.json | caddy skill-bridge call https://skills.example.com demo.summarize --args -
  ACME_KEY=... caddy skill-bridge call --api-key-env ACME_KEY https://skills.example.com acme.weather place=Oslo
  BRIDGE_TOKEN=... caddy skill-bridge call --bridge https://bridge.example.com/rpc --bearer-env BRIDGE_TOKEN acme.weather place=Oslo`,
	}, 1, -1, outcomeUsage, func(cmd *cobra.Command, args []string) (action, error) {
		timeout, err := timeoutOf(cmd)
		if err != nil {
			return nil, err
		}
		given, err := callArguments(args[1:], cmd.Flags().Changed("args"), whole)
		return func(ctx context.Context, from *cli.Endpoint) int { return from.Call(ctx, args[0], given, timeout) }, err
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
	return cli.ReadArguments(whole)
}

func followCommand() *cobra.Command {
	cmd := withSkills(&cobra.Command{
		Use:   "follow (<provider-url> <skill> <execution-id> | --bridge <url> <run-token>)",
		Short: "Follows an earlier run to its end",
		Long: `Waits for the end of a run that call or another client has started, and writes the same output as call. call shows the execution id when the run is
accepted. A bridge gives a run token to the caller that started the run; call shows it if the
run goes on.` + outcomeHelp + providerHelp + bridgeHelp + runStatusHelp,
		Example: `  caddy skill-bridge follow https://skills.example.com demo.summarize exec-qglhzn4mds74xetbofusrkds4r
  caddy skill-bridge follow --timeout 5m https://skills.example.com demo.summarize exec-qglhzn4mds74xetbofusrkds4r`,
	}, 1, 2, outcomeUsage, func(cmd *cobra.Command, args []string) (action, error) {
		timeout, err := timeoutOf(cmd)
		skill, id := "", args[0]
		switch bridge := cmd.Flags().Changed("bridge"); {
		case bridge != (len(args) == 1):
			err = fmt.Errorf("usage: %s", cmd.UseLine())
		case !bridge:
			skill, id = args[0], args[1]
		}
		return func(ctx context.Context, from *cli.Endpoint) int { return from.Follow(ctx, skill, id, timeout) }, err
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
