package command

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/stdio"
)

// mcpFlags are the flags of the command that serves a client of MCP over standard input and output.
type mcpFlags struct {
	connection
	allowHTTP bool
}

func mcpCommand() *cobra.Command {
	var m mcpFlags
	cmd := &cobra.Command{
		Use:   "mcp --connect <url>",
		Short: "Lets an MCP client that starts programs use a bridge over HTTP",
		Long: `Connects a client of MCP (Model Context Protocol) that starts programs and talks to
their standard input and output with the MCP endpoint of a bridge: each line of standard
input is one message, which is sent to the endpoint, and each answer is one line of
standard output. Everything else goes to standard error.

At most 64 requests are sent at the same time. If the endpoint can't be reached, refuses a
request or answers with something else than MCP, the client gets an error with the id of
its request. A request is never sent twice, since it may have been executed.

--bearer-env names the environment variable with the token for the endpoint. The token is
sent to that URL only: redirects are not followed.

Exit status: 0 standard input ended, the client has closed standard output, or the command
was interrupted; requests that are in progress have 2 seconds to end. 1 wrong usage, 5
reading or writing failed.`,
		Example: `  caddy skill-bridge mcp --connect https://bridge.example.com/mcp
  BRIDGE_TOKEN=... caddy skill-bridge mcp --connect https://bridge.example.com/mcp --bearer-env BRIDGE_TOKEN`,
		Args:              arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&m.url, "connect", "", "URL of the MCP endpoint of a bridge")
	f.StringVar(&m.tokenEnv, "bearer-env", "", "Environment variable that contains the bearer token for --connect")
	f.BoolVar(&m.allowHTTP, "allow-http", false, "Allow connections without TLS, also to other machines")
	cmd.RunE = exits(func(cmd *cobra.Command, screen *cli.Screen, _ []string) (int, error) {
		if m.url == "" {
			return 0, errors.New("--connect is required")
		}
		do, o, err := m.open(m.allowHTTP)
		if err != nil {
			return 0, err
		}
		return serveClient(cmd.Context(), screen, do, o), nil
	})
	return cmd
}

// serveClient serves the client at standard input and output until it leaves, and returns the exit status.
func serveClient(ctx context.Context, screen *cli.Screen, do stdio.Do, o stdio.Options) int {
	out := os.Stdout
	os.Stdout = os.Stderr          // so that nothing else can write to the client
	signal.Ignore(syscall.SIGPIPE) // a client that leaves is no reason to be killed
	ctx, stop := interruptible(ctx)
	defer stop()
	logger := caddy.Log().Named("skill_bridge.mcp")
	o.Warn = func(text string) { logger.Warn(text) }
	if err := stdio.Serve(ctx, os.Stdin, out, do, o); err != nil {
		screen.Complain("%v", err)
		return cli.ProtocolError
	}
	return cli.OK
}
