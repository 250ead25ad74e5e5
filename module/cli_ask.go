package skillbridge

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
)

const (
	providerHelp = `
The provider is given by its origin, such as https://skills.example.com. It is
reached as by the bridge: only over TLS, only at public addresses, only on ports
80, 443 and its own; --allow-http, --allow-networks and --allow-ports widen this.

Names of skills are those of a bridge: the provider's namespace, which is its host
name unless --namespace says otherwise, and the skill's id with dots. A name without
the namespace, or the id as it is, means the same here.`
	statusHelp = `
Exit status: 0 done, 1 wrong usage, no request was made, 5 there is no result for
another reason, or it could not be written, 130 interrupted.`
	runStatusHelp = `
Exit status: 0 done, 1 wrong usage, no request was made, 4 the provider reported that
the run failed, 5 there is no result for another reason, or it could not be written,
130 interrupted.`
	outcomeHelp = `
With --json, standard output has one object, whatever becomes of the call:
{"status", "skill_id", "execution_id", "elapsed_ms", "output", "error": {"code",
"message", "phase", "source", "http_status", "executed", "next", "details",
"retry", "url"}, "follow"}. What does not apply is left out; "status" is the run's, or
"error" where none was accepted, "follow" the command that goes on.`
)

func listCommand() *cobra.Command {
	var r reach
	var asJSON bool
	cmd := &cobra.Command{
		ValidArgsFunction: cobra.NoFileCompletions,
		Use:               "list <provider-url>",
		Short:             "Lists the skills of a provider",
		Long:              "Lists the skills of a provider, by the names that describe, call and a bridge's\nexecute_skill accept. With --json, writes {\"skills\": [{\"name\", \"version\", \"access\",\n\"capability_type\", \"description\"}]}, or {\"error\": {\"code\", \"message\", …}}.\n" + providerHelp + "\n" + statusHelp,
		Example: `  caddy skill-bridge list https://skills.example.com
  caddy skill-bridge list --json https://skills.example.com
  ACME_KEY=... caddy skill-bridge list --api-key-env ACME_KEY --private https://skills.example.com
  caddy skill-bridge list --allow-http --allow-networks 127.0.0.1 http://127.0.0.1:8081`,
		Args: arguments(1, 1),
		RunE: r.asks(func(ctx context.Context, p *cli.Provider, _ []string) int { return p.List(ctx, asJSON) }),
	}
	r.addFlags(cmd)
	r.addNamespace(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write JSON")
	return cmd
}

func describeCommand() *cobra.Command {
	var r reach
	var asJSON bool
	cmd := &cobra.Command{
		ValidArgsFunction: cobra.NoFileCompletions,
		Use:               "describe <provider-url> <skill>",
		Short:             "Describes a skill: its inputs, output and authentication",
		Long:              "Describes a skill: its inputs, its output, and the authentication that it needs.\nWith --json, writes {\"descriptor\", \"input_schema\"}: the descriptor as it is, and a\nJSON Schema of the inputs; or {\"error\": {\"code\", \"message\", …}}.\n" + providerHelp + "\n" + statusHelp,
		Example: `  caddy skill-bridge describe https://skills.example.com acme.weather
  caddy skill-bridge describe --json https://skills.example.com acme.weather`,
		Args: arguments(2, 2),
		RunE: r.asks(func(ctx context.Context, p *cli.Provider, args []string) int { return p.Describe(ctx, args[0], asJSON) }),
	}
	r.addFlags(cmd)
	r.addNamespace(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the descriptor and the input schema as JSON")
	return cmd
}

func addRunFlags(cmd *cobra.Command, o *cli.Options, standard string) {
	cmd.Flags().DurationVar(&o.Timeout, "timeout", 0, "How long to wait at most, such as 90s (default: "+standard+")")
	cmd.Flags().BoolVar(&o.JSON, "json", false, "Write the whole outcome, not only the output, whatever it is")
}

var errTimeout = errors.New("--timeout is too short: the least is 1ms")

func badTimeout(cmd *cobra.Command, o *cli.Options) bool {
	return cmd.Flags().Changed("timeout") && o.Timeout < time.Millisecond
}

func callCommand() *cobra.Command {
	var r reach
	var o cli.Options
	var whole string
	var given cli.Arguments
	cmd := &cobra.Command{
		ValidArgsFunction: cobra.NoFileCompletions,
		Use:               "call <provider-url> <skill> [<key>=<value> | <key>:=<json>]... [--args @<file>|-|<json>]",
		Short:             "Runs a skill and shows its output",
		Long: `Runs a skill, follows the run to its end, and writes the output as JSON to standard
output: indented on a terminal, else as it is. How it goes is told on standard error.

The arguments are key=value: a text where the skill wants a string, JSON (numbers,
true, objects) elsewhere. key:=json is JSON in any case. --args gives all arguments
in one JSON object: as such, from @file, or from - for standard input.

Interrupting (Ctrl-C) does not end the run, for which the protocol has no way, but
shows the command that follows it on. So does a --timeout that has passed.
` + outcomeHelp + "\n" + providerHelp + "\n" + runStatusHelp,
		Example: `  caddy skill-bridge call https://skills.example.com demo.summarize text="A long text." sentences=2
  caddy skill-bridge call https://skills.example.com demo.summarize --args @arguments.json
  jq '{text: .body}' letter.json | caddy skill-bridge call https://skills.example.com demo.summarize --args -
  ACME_KEY=... caddy skill-bridge call --api-key-env ACME_KEY https://skills.example.com acme.weather place=Oslo`,
		Args: arguments(2, -1),
		PreRunE: func(cmd *cobra.Command, args []string) (err error) {
			switch wanted := cmd.Flags().Changed("args"); {
			case badTimeout(cmd, &o):
				err = errTimeout
			case !wanted:
				given, err = cli.ParseArguments(args[2:])
			case len(args) > 2:
				err = errors.New("--args and key=value exclude each other")
			default:
				given, err = cli.ReadArguments(whole, os.Stdin)
			}
			if err == nil {
				return nil
			}
			if o.JSON {
				cli.NewScreen(os.Stdout, os.Stderr).Unusable(err)
			}
			return wrongUsage(cmd, err)
		},
		RunE: r.asks(func(ctx context.Context, p *cli.Provider, args []string) int { return p.Call(ctx, args[0], given, o) }),
	}
	r.addFlags(cmd)
	r.addNamespace(cmd)
	addRunFlags(cmd, &o, "for the start what the skill says, or 25s, and for the run without end")
	cmd.Flags().StringVar(&whole, "args", "", "All arguments: a JSON object, @file, or - for standard input")
	return cmd
}

func followCommand() *cobra.Command {
	var r reach
	var o cli.Options
	cmd := &cobra.Command{
		ValidArgsFunction: cobra.NoFileCompletions,
		Use:               "follow <provider-url> <skill> <execution-id>",
		Short:             "Follows a run that was started before to its end",
		Long:              "Follows a run that was started before, by whomever, to its end, and shows the same as\ncall does. `call` tells the execution id when the run is accepted.\n" + outcomeHelp + "\n" + providerHelp + "\n" + runStatusHelp,
		Example: `  caddy skill-bridge follow https://skills.example.com demo.summarize exec-qglhzn4mds74xetbofusrkds4r
  caddy skill-bridge follow --timeout 5m https://skills.example.com demo.summarize exec-qglhzn4mds74xetbofusrkds4r`,
		Args: arguments(3, 3),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if badTimeout(cmd, &o) {
				return wrongUsage(cmd, errTimeout)
			}
			return nil
		},
		RunE: r.asks(func(ctx context.Context, p *cli.Provider, args []string) int {
			return p.Follow(ctx, args[0], args[1], o)
		}),
	}
	r.addFlags(cmd)
	r.addNamespace(cmd)
	addRunFlags(cmd, &o, "until the run ends")
	return cmd
}
