package command

import (
	"bytes"
	"cmp"
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/bridge"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
)

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
	ctx, err := caddy.ProvisionContext(&caddy.Config{Logging: logging, StorageRaw: storage})
	if err != nil {
		return nil, err
	}
	ctx, release := caddy.NewContext(ctx)
	module, err := ctx.LoadModuleByID("http.handlers."+handlerName, caddyconfig.JSON(config, nil))
	if err != nil {
		release()
		return nil, err
	}
	bridges := observe.Live()
	return &localBridge{module.(*bridge.Handler), bridges[len(bridges)-1], release}, nil
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
	b.RequirePrincipal = b.RequirePrincipal || b.CallersFile != "" && !b.AllowAnonymous // which callers_file implies
	b.Principal, b.CallersFile, b.Browse = "", "", nil
}
