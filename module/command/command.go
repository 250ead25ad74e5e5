// Package command adds `caddy skill-bridge` to Caddy's command line: the commands, their
// flags, and the bridge that they use. Package cli does what they do.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "skill-bridge",
		Usage: "--provider <url> [--listen <address>] [--path <path>] [--api-key-env <name>] [--allow-http] [--allow-networks <cidr,...>]",
		Short: "Runs a bridge without a config file; subcommands list and call skills",
		Long:  serveHelp,
		CobraFunc: func(cmd *cobra.Command) {
			serveCommand(cmd)
			cmd.Flags().Bool("version", false, "Show the versions of the bridge and of Caddy")
			cmd.Version = "Skill Bridge " + fronts.ModuleVersion() + ", Caddy " + fronts.CaddyVersion()
			cmd.SetVersionTemplate("{{.Version}}\n")
			cmd.SetFlagErrorFunc(wrongUsage)
			cmd.AddCommand(
				initCommand(), addClientCommand(), schemaCommand(), validateCommand(), checkCommand(), listCommand(), describeCommand(), callCommand(), followCommand(),
				mcpCommand(), statusCommand(), readyCommand(), runsCommand(), grantsCommand(), usageCommand(), publishCommand(), purgeCommand(), approveCommand(), hashKeyCommand(),
			)
			for _, c := range append(cmd.Commands(), cmd) {
				c.Long, c.PreRunE = cli.Wrap(c.Long), filled
				complete(c)
			}
		},
	})
}

// complete keeps shells from offering files as arguments, and as values of flags, that take none.
func complete(cmd *cobra.Command) {
	if cmd.Name() != "validate" && cmd.ValidArgs == nil && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains([]string{"config", "args", "state", "file", "key", "output"}, f.Name) {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions) // it fails only for unknown flags
		}
	})
}

// wrongUsage returns a usage error, which cobra prints. The exit status is 1.
func wrongUsage(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w\nNext:  see %s --help", err, cmd.CommandPath())
}

// exits adapts a function that returns an exit status to cobra. The function writes its errors
// itself, except usage errors and errors of the admin API, which it returns.
func exits(run func(cmd *cobra.Command, screen *cli.Screen, args []string) (int, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		asJSON, _ := cmd.Flags().GetBool("json") // false if there is no such flag
		screen := cli.NewScreen(os.Stdout, os.Stderr, asJSON)
		status, err := run(cmd, screen, args)
		if e, ok := errors.AsType[*adminError](err); ok {
			status = screen.Fail(e, e.next)
		} else if err != nil {
			return wrongUsage(cmd, err)
		}
		if status = screen.End(status); status == cli.OK {
			return nil
		}
		cmd.SilenceErrors = true
		if status == 1 { // without an error, WrapCommandFuncForCobra makes it 0
			return errors.New("exiting with status 1")
		}
		return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return status, nil })(cmd, args)
	}
}

// addJSON adds the flag that [exits] reads.
func addJSON(cmd *cobra.Command, usage string) { cmd.Flags().Bool("json", false, usage) }

// interruptible ends a context with the first SIGINT or SIGTERM. The second ends the process.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// arguments checks the number of arguments; most is -1 for any number. It refuses empty
// arguments: a shell passes one for a quoted variable that is not set.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least, most >= 0 && len(args) > most:
			return wrongUsage(cmd, fmt.Errorf("usage: %s", cmd.UseLine()))
		case slices.Contains(args, ""):
			return wrongUsage(cmd, fmt.Errorf("an argument is empty; usage: %s", cmd.UseLine()))
		}
		return nil
	}
}

// filled refuses flags without a value, which would count as not given: a shell passes one for a variable that is not set. An empty principal is that of anonymous callers.
func filled(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"usage principal", "runs principal", "call args"}, cmd.Name()+" "+f.Name) && strings.Trim(f.Value.String(), `[]"`) == "" {
			err = wrongUsage(cmd, fmt.Errorf("--%s has no value", f.Name))
		}
	})
	return err
}
