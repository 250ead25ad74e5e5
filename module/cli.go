package skillbridge

import (
	"context"
	"encoding/json" // Caddy's raw modules are made for encoding/json
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "skill-bridge",
		Usage: "--provider <url> [--listen <address>] [--path <path>] [--api-key-env <name>] [--allow-http] [--allow-networks <cidr,...>]",
		Short: "Runs a skill bridge without a config file, and asks providers of skills",
		Long:  strings.TrimSpace(serveHelp),
		CobraFunc: func(cmd *cobra.Command) {
			serveCommand(cmd)
			cmd.SetFlagErrorFunc(wrongUsage)
			for _, subcommand := range subcommands {
				cmd.AddCommand(subcommand())
			}
			for _, c := range append(cmd.Commands(), cmd) {
				completeFlags(c)
			}
		},
	})
}

// subcommands make the commands below `caddy skill-bridge`.
var subcommands = []func() *cobra.Command{
	validateCommand, listCommand, describeCommand, callCommand, followCommand, statusCommand, purgeCommand, helpCommand,
}

// helpCommand is what cobra gives to the first of all commands only.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		ValidArgsFunction: cobra.NoFileCompletions,
		Use:               "help [<command>]",
		Short:             "Shows the help of a command, as its --help does",
		Args:              arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, further, err := cmd.Parent().Find(args)
			if err != nil || len(further) > 0 {
				return wrongUsage(cmd.Parent(), fmt.Errorf("there is no command %q", args[0]))
			}
			return wanted.Help()
		},
	}
}

// completeFlags keeps shells from offering files where a flag takes none.
func completeFlags(cmd *cobra.Command) {
	for _, name := range []string{
		"allow-networks", "allow-ports", "api-key-env", "api-key-header", "trust", "namespace", "timeout",
		"provider", "listen", "path", "address", "adapter",
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions) // the error is that the command has no such flag
	}
}

// wrongUsage is an error of usage. Cobra tells it, and the status is 1.
func wrongUsage(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w\nNext:  see %s --help", err, cmd.CommandPath())
}

// exits makes of a command that returns an exit status what cobra runs. An error is
// one of usage. What else is to be told has been told.
func exits(run func(cmd *cobra.Command, screen *cli.Screen, args []string) (int, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		screen := cli.NewScreen(os.Stdout, os.Stderr)
		status, err := run(cmd, screen, args)
		if err != nil {
			return wrongUsage(cmd, err)
		}
		if status = screen.End(status); status == cli.OK {
			return nil
		}
		cmd.SilenceErrors = true
		if status == 1 { // which WrapCommandFuncForCobra takes for 0 where there is no error
			return errors.New("exiting with status 1")
		}
		return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return status, nil })(cmd, args)
	}
}

// reach is how a provider may be reached: the flags that all commands have.
type reach struct {
	allowHTTP     bool
	allowNetworks []string
	allowPorts    []int
	trust         []string
	keyEnv        string
	keyHeader     string
	private       bool
	debug         bool
	namespace     string
}

func (r *reach) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&r.allowHTTP, "allow-http", false, "Let the provider be reached without TLS")
	f.StringSliceVar(&r.allowNetworks, "allow-networks", nil, "Addresses or CIDR ranges that are not public but may be called, such as 127.0.0.1, or private_ranges")
	f.IntSliceVar(&r.allowPorts, "allow-ports", nil, "Ports that may be called beside 80, 443 and the provider's")
	f.StringSliceVar(&r.trust, "trust", nil, "Further hosts that may receive the API key; *.example.com names the subdomains of example.com")
	f.StringVar(&r.keyEnv, "api-key-env", "", "Environment variable that has the API key")
	f.StringVar(&r.keyHeader, "api-key-header", "", "Header that carries the key (default: the descriptor's, else X-API-Key)")
	f.BoolVar(&r.private, "private", false, "Send the key when reading the index and descriptors, too, to see private skills")
	f.BoolVar(&r.debug, "debug", false, "Log everything to standard error")
}

// addNamespace adds the flag that commands have which know skills by name.
func (r *reach) addNamespace(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.namespace, "namespace", "", "Namespace that names of skills start with (default: the provider's host name)")
}

// flags are those that a further command needs to reach the same provider.
func (r *reach) flags() []string {
	var flags []string
	add := func(name, value string) {
		if value != "" {
			flags = append(flags, name, value)
		}
	}
	if r.allowHTTP {
		flags = append(flags, "--allow-http")
	}
	ports := make([]string, len(r.allowPorts))
	for i, port := range r.allowPorts {
		ports[i] = strconv.Itoa(port)
	}
	add("--allow-networks", strings.Join(r.allowNetworks, ","))
	add("--allow-ports", strings.Join(ports, ","))
	add("--trust", strings.Join(r.trust, ","))
	add("--api-key-env", r.keyEnv)
	add("--api-key-header", r.keyHeader)
	add("--namespace", r.namespace)
	if r.private {
		flags = append(flags, "--private")
	}
	return flags
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// handler configures a bridge as the flags say. The key is a placeholder there, so
// that no log shows it.
func (r *reach) handler(origins ...string) (*Handler, error) {
	h := &Handler{AllowHTTP: r.allowHTTP, AllowPorts: r.allowPorts}
	for _, network := range r.allowNetworks {
		if network == "private_ranges" {
			h.AllowNetworks = append(h.AllowNetworks, caddyhttp.PrivateRangesCIDR()...)
			continue
		}
		h.AllowNetworks = append(h.AllowNetworks, network)
	}
	var key json.RawMessage
	switch {
	case r.keyEnv == "" && (r.private || r.keyHeader != "" || len(r.trust) > 0):
		return nil, errors.New("--private, --api-key-header and --trust are about a key: --api-key-env is missing")
	case r.keyEnv != "" && !envName.MatchString(r.keyEnv):
		return nil, errors.New("--api-key-env takes the name of an environment variable, not the key itself")
	case r.keyEnv != "" && os.Getenv(r.keyEnv) == "":
		return nil, fmt.Errorf("--api-key-env: the environment variable %s is empty or not set", r.keyEnv)
	case r.keyEnv != "":
		key = caddyconfig.JSON(map[string]string{"type": "api_key", "key": "{env." + r.keyEnv + "}", "header": r.keyHeader}, nil)
	}
	for _, origin := range origins {
		p := &Provider{Namespace: r.namespaceOf(origin), Origin: origin, CredentialsRaw: key, Trust: r.trust, ListPrivate: true}
		if r.private {
			p.DiscoveryCredentialsRaw = key
		}
		if u, err := url.Parse(origin); err == nil && u.Scheme == "http" && u.Host != "" && !r.allowHTTP {
			return nil, fmt.Errorf("%s is not reached over TLS: write https://, or add --allow-http if that is meant", u.Redacted())
		}
		h.Providers = append(h.Providers, p)
	}
	return h, nil
}

// namespaceOf is the namespace of a provider: the default of a configuration, so that
// names mean the same to a command and to a bridge. A host that can't be one, for
// which a configuration has to name one, is made one.
func (r *reach) namespaceOf(origin string) string {
	u, err := url.Parse(origin)
	if r.namespace != "" || err != nil {
		return r.namespace
	}
	return strings.Map(func(c rune) rune {
		if checkNamespaceText(string(c)) != nil {
			return '-'
		}
		return c
	}, defaultNamespace(u))
}

// logging is that of commands which answer and end: without --debug they log
// nothing, since what matters is told. (That the log goes elsewhere would itself be
// a line.)
func (r *reach) logging() *caddy.Logging {
	level := zapcore.PanicLevel
	if r.debug {
		level = zapcore.DebugLevel
	}
	return &caddy.Logging{Logs: map[string]*caddy.CustomLog{
		caddy.DefaultLoggerName: {BaseLog: caddy.BaseLog{Level: level.CapitalString()}},
	}}
}

// begin checks a handler's configuration and makes a context to load modules in, as
// for a configuration of Caddy's, but without a server. The function that it returns
// gives up what they hold.
func (r *reach) begin(h *Handler) (caddy.Context, context.CancelFunc, error) {
	h.AllowAnonymous = true // whoever runs the command has the key
	h.Timeout, h.MaxTimeout = caddy.Duration(cli.Usual), caddy.Duration(cli.Longest)
	if fault := h.check(); fault != nil {
		return caddy.Context{}, nil, usageError(fault)
	}
	ctx, err := caddy.ProvisionContext(&caddy.Config{Logging: r.logging()})
	if err != nil {
		return caddy.Context{}, nil, err
	}
	ctx, release := caddy.NewContext(ctx)
	return ctx, release, nil
}

// load makes the bridge of a handler, and what observes it.
func (r *reach) load(h *Handler) (*translate.Bridge, *cli.Denied, context.CancelFunc, error) {
	ctx, release, err := r.begin(h)
	if err != nil {
		return nil, nil, nil, err
	}
	standardLog.start() // until the process ends
	h.logger = ctx.Logger(h)
	config, idle, err := h.config(ctx)
	if err == nil {
		err = h.hold(ctx, config, idle)
	}
	if err != nil {
		release()
		return nil, nil, nil, usageError(err)
	}
	end := func() {
		h.usage.leave()
		release()
	}
	denied := &cli.Denied{Observer: config.Observer}
	config.Observer = denied
	bridge, err := translate.New(*config)
	if err != nil {
		end()
		return nil, nil, nil, usageError(err)
	}
	return bridge, denied, end, nil
}

// usageError is an error in a configuration of whose members the user knows
// nothing: its last part says what is wrong with what he wrote.
func usageError(err error) error {
	if fault, ok := errors.AsType[*configError](err); ok {
		return fault.err
	}
	return err
}

// interruptible ends a context when the user or the system wants the command to
// end. Whoever insists gets what signals do by default.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// asks makes a command of one that asks a provider, whose URL is its first argument.
func (r *reach) asks(ask func(ctx context.Context, p *cli.Provider, args []string) int) func(*cobra.Command, []string) error {
	return exits(func(cmd *cobra.Command, screen *cli.Screen, args []string) (int, error) {
		h, err := r.handler(args[0])
		if err != nil {
			return 0, err
		}
		bridge, denied, release, err := r.load(h)
		if err != nil {
			return 0, err
		}
		defer release()
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		return ask(ctx, &cli.Provider{
			Bridge: bridge, Screen: screen, URL: args[0],
			Command: cmd.Root().Name(), Flags: r.flags(), Keyed: r.keyEnv != "", Private: r.private, Denied: denied,
		}, args[1:]), nil
	})
}

// arguments are named in errors, since a wrong number of them is the most likely
// mistake. An empty one is what a shell makes of a variable that is not set.
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
