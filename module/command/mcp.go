package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/skill-bridge/caddy-skill-bridge/module/bridge"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/command/remote"
	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/stdio"
)

// mcpFlags are the flags of the command that serves a client of MCP over standard input and output.
type mcpFlags struct {
	providerFlags
	remote.Connection
	file    string
	adapter string
}

func mcpCommand() *cobra.Command {
	var m mcpFlags
	cmd := &cobra.Command{
		Use:   "mcp (<provider-url>... | --config <file> | --connect <url>)",
		Short: "Serves an MCP client that starts programs: each skill is a tool",
		Long: `Serves a client of MCP (Model Context Protocol) that starts programs and talks to their standard input and output, such as a desktop application: each
line of standard input is one message, and each line of standard output is one. Each skill is a tool. Everything else, such as warnings, goes to standard
error.

The skills are those of the given providers, or of the first bridge (skill_bridge) in a Caddy configuration (--config), which need not have the option mcp.
Both run in this process, without listening; the caller is the principal «local». Or they are those of a bridge elsewhere, at the URL of its MCP endpoint
(--connect).

At most 64 requests are served at the same time; others wait. With --connect, a request that can't be sent, is refused or gets no answer of MCP is answered
with an error. It is never sent twice, since it may have been executed. --bearer-env names the environment variable with a token for the bridge, --basic-env
one with user:password. They are sent to that URL only: redirects are not followed.` + providerHelp + `

Exit status: 0 standard input ended, the client has closed standard output, or the command was interrupted; requests that are in progress have 2 seconds to
end. 1 wrong usage, 5 reading or writing failed.`,
		Example: `  caddy skill-bridge mcp https://skills.example.com
  ACME_KEY=... caddy skill-bridge mcp --api-key-env ACME_KEY https://skills.example.com
  caddy skill-bridge mcp --config /etc/caddy/Caddyfile
  caddy skill-bridge mcp --connect https://bridge.example.com/mcp
  BRIDGE_TOKEN=... caddy skill-bridge mcp --connect https://bridge.example.com/mcp --bearer-env BRIDGE_TOKEN
  BRIDGE_LOGIN=user:password caddy skill-bridge mcp --connect https://bridge.example.com/mcp --basic-env BRIDGE_LOGIN`,
		Args: arguments(0, -1),
	}
	m.providerFlags.addFlags(cmd, true)
	f := cmd.Flags()
	f.StringVarP(&m.file, "config", "c", "", "Configuration file of Caddy with a bridge")
	f.StringVarP(&m.adapter, "adapter", "a", "", "Adapter of the configuration file")
	m.Flag, m.Example = "--connect", "the URL of an MCP endpoint, such as https://bridge.example.com/mcp"
	m.Connection.AddFlags(cmd, "URL of the MCP endpoint of a bridge elsewhere")
	cmd.RunE = exits(func(cmd *cobra.Command, screen *cli.Screen, origins []string) (int, error) {
		if err := m.check(origins); err != nil {
			return 0, err
		}
		do, o, release, err := m.open(origins)
		if err != nil {
			return 0, err
		}
		defer release()
		return serveClient(cmd.Context(), screen, do, o), nil
	})
	return cmd
}

// check checks that there is one bridge, and only flags that concern it.
func (m *mcpFlags) check(origins []string) error {
	forms := 0
	for _, given := range []bool{len(origins) > 0, m.file != "", m.URL != ""} {
		if given {
			forms++
		}
	}
	further := slices.DeleteFunc(given(m.flags), func(word string) bool { return m.URL != "" && word == "--allow-http" })
	switch {
	case forms != 1:
		return errors.New("name the URLs of providers, or a configuration with --config, or a bridge elsewhere with --connect")
	case len(origins) == 0 && len(further) > 0:
		return fmt.Errorf("%s needs the URL of a provider", further[0])
	case m.adapter != "" && m.file == "":
		return errors.New("--adapter needs --config")
	}
	return m.Connection.Check()
}

// open returns a function that sends requests to the bridge, the options for them, and a function that releases what the bridge
// holds. Errors are usage errors.
func (m *mcpFlags) open(origins []string) (stdio.Do, stdio.Options, func(), error) {
	logging := loggingAt(zapcore.WarnLevel, m.debug)
	if _, err := caddy.ProvisionContext(&caddy.Config{Logging: logging}); err != nil { // reading a configuration logs, too
		return nil, stdio.Options{}, nil, err
	}
	if m.URL != "" {
		do, err := m.Connection.Open(m.allowHTTP)
		return do, stdio.Options{URL: m.URL, MaxMessage: remote.MaxRelayed, Refused: m.Refused()}, func() {}, err
	}
	o := stdio.Options{URL: "http://localhost" + localPath, LimitName: "max_request_size"}
	var local *localBridge
	var err error
	if m.file != "" {
		local, o.MaxMessage, err = ofFile(m.file, m.adapter, logging)
	} else {
		limitMemory()
		local, err = m.ofProviders(origins, logging)
	}
	if err != nil {
		return nil, o, nil, err
	}
	return stdio.InProcess(local), o, local.release, nil
}

// localMemory is the memory limit (GOMEMLIMIT) of a bridge that a desktop application starts, in bytes. A quarter of it is for answers that
// the client has not read.
const localMemory = 1 << 30

// limitMemory sets the memory limit, unless there is one.
func limitMemory() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(localMemory)
	}
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

const handlerName = "skill_bridge"

// localBridge is a bridge in this process, without a server.
type localBridge struct {
	handler *bridge.Handler
	*observe.Bridge
	release func()
}

// openBridge opens the bridge of a configuration of the handler. The storage may be nil: the default. Errors are usage errors.
func openBridge(config *bridge.Handler, storage json.RawMessage, logging *caddy.Logging) (*localBridge, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	handler, release, err := load(handlerName, config, storage, logging)
	if err != nil {
		return nil, err
	}
	bridges := observe.Live()
	return &localBridge{handler.(*bridge.Handler), bridges[len(bridges)-1], release}, nil
}

// load provisions a handler in this process, until release is called.
func load(name string, config any, storage json.RawMessage, logging *caddy.Logging) (handler any, release func(), err error) {
	ctx, err := caddy.ProvisionContext(&caddy.Config{Logging: logging, StorageRaw: storage})
	if err != nil {
		return nil, nil, err
	}
	ctx, release = caddy.NewContext(ctx)
	if handler, err = ctx.LoadModuleByID("http.handlers."+name, caddyconfig.JSON(config, nil)); err != nil {
		release()
	}
	return handler, release, err
}

// ServeHTTP implements [http.Handler].
func (b *localBridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user := caddy.NewReplacer()
	user.Set("http.auth.user.id", cli.Principal)
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusNotFound)
		return nil
	})
	if err := b.handler.ServeHTTP(w, caddyhttp.PrepareRequest(r, user, w, new(caddyhttp.Server)), next); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// do sends a request to the bridge, and returns when its handler has returned, also if the context of the request ends before.
func (b *localBridge) do(r *http.Request) (*http.Response, error) {
	w := &answer{header: http.Header{}, status: http.StatusOK}
	served := r.Clone(r.Context())
	served.RequestURI, served.RemoteAddr, served.Host = r.URL.RequestURI(), "127.0.0.1:0", r.URL.Host
	b.ServeHTTP(w, served)
	return &http.Response{StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.Buffer)}, nil
}

// answer is what a handler in this process has written.
type answer struct {
	bytes.Buffer
	header http.Header
	status int
}

func (w *answer) Header() http.Header    { return w.header }
func (w *answer) WriteHeader(status int) { w.status = status }

// localPath is the path of the MCP endpoint of a bridge in this process.
const localPath = "/mcp"

// ofProviders returns a bridge for providers.
func (r *providerFlags) ofProviders(origins []string, logging *caddy.Logging) (*localBridge, error) {
	config, err := r.handler(origins...)
	if err != nil {
		return nil, err
	}
	config.AllowAnonymous = true // the user of the command has the key
	config.MCP = &fronts.MCP{Path: localPath}
	return openBridge(config, nil, logging)
}

// ofFile returns the first bridge of a configuration file, and its largest request; 0: the default.
func ofFile(file, adapter string, logging *caddy.Logging) (b *localBridge, maxRequest int, err error) {
	if file == "-" {
		return nil, 0, errors.New("--config - is not possible, since standard input has the messages of the client: name a file")
	}
	text, _, _, err := caddycmd.LoadConfig(file, adapter)
	if err != nil {
		return nil, 0, err
	}
	var config struct {
		Storage json.RawMessage `json:"storage"`
		Apps    struct {
			HTTP struct {
				Servers json.RawMessage `json:"servers"`
			} `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, 0, fmt.Errorf("--config %s: %w", file, err)
	}
	found := slices.CompactFunc(appendBridges(nil, config.Apps.HTTP.Servers), func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) // one site may be on several addresses
	if len(found) == 0 {
		return nil, 0, fmt.Errorf("--config %s has no %s", file, handlerName)
	}
	if len(found) > 1 {
		caddy.Log().Named("skill_bridge.mcp").Warn("the configuration has several bridges; the first is used", zap.Int("bridges", len(found)))
	}
	var first struct {
		Name string `json:"handler"`
		bridge.Handler
	}
	if err := caddy.StrictUnmarshalJSON(found[0], &first); err != nil {
		return nil, 0, fmt.Errorf("--config %s: %w", file, err)
	}
	mountOnly(&first.Handler)
	b, err = openBridge(&first.Handler, config.Storage, logging)
	return b, int(first.MaxRequestSize), err
}

// appendBridges appends the configurations of all bridges in a part of a configuration, in the order of arrays and of the names in objects.
func appendBridges(to []json.RawMessage, part json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(part, &list) != nil {
		var object map[string]json.RawMessage
		if json.Unmarshal(part, &object) != nil {
			return to
		}
		if string(object["handler"]) == `"`+handlerName+`"` {
			return append(to, part)
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			list = append(list, object[name])
		}
	}
	for _, element := range list {
		to = appendBridges(to, element)
	}
	return to
}

// mountOnly lets a bridge serve MCP and nothing else, to the client of this process. Of the options of MCP it keeps those that concern no HTTP.
func mountOnly(b *bridge.Handler) {
	tools := cmp.Or(b.MCP, new(fronts.MCP))
	tools.Path, tools.Origins, tools.AuthorizationServer, tools.Scopes = localPath, nil, nil, nil
	b.Mounts = fronts.Mounts{MCP: tools, Wait: b.Wait}
	b.RequirePrincipal = b.RequirePrincipal || (b.CallersFile != "" || len(b.CallersJWT) > 0) && !b.AllowAnonymous // which these imply
	b.Principal, b.CallersFile, b.CallersJWT, b.Browse = "", "", nil, nil
}
