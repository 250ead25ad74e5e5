package command

import (
	"bytes"
	"context"
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

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// localPath is the path of the MCP endpoint of a bridge in this process.
	localPath   = "/mcp"
	handlerName = "skill_bridge"
)

// localBridge is a bridge in this process, without a server.
type localBridge struct {
	localHandler
	*observe.Bridge
	release func()
}

// localHandler is http.handlers.skill_bridge.
type localHandler interface {
	caddyhttp.MiddlewareHandler
	// Token returns the run token of a run of a principal.
	Token(ctx context.Context, ref run.Ref, principal string) (string, error)
}

// openBridge opens the bridge of a configuration of the handler. The storage may be nil: the default. Errors are usage errors.
func openBridge(config, storage json.RawMessage, logging *caddy.Logging) (*localBridge, error) {
	if err := checkHandler(config); err != nil {
		return nil, err
	}
	ctx, err := caddy.ProvisionContext(&caddy.Config{Logging: logging, StorageRaw: storage})
	if err != nil {
		return nil, err
	}
	ctx, release := caddy.NewContext(ctx)
	module, err := ctx.LoadModuleByID("http.handlers."+handlerName, config)
	if err != nil {
		release()
		return nil, err
	}
	bridges := observe.Live()
	return &localBridge{module.(localHandler), bridges[len(bridges)-1], release}, nil
}

// ServeHTTP implements [http.Handler].
func (b *localBridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user := caddy.NewReplacer()
	user.Set("http.auth.user.id", cli.Principal)
	err := b.localHandler.ServeHTTP(w, caddyhttp.PrepareRequest(r, user, w, new(caddyhttp.Server)), caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusNotFound)
		return nil
	}))
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// do sends a request to the bridge, and returns when its handler has returned, also if the context of the request ends before.
func (b *localBridge) do(r *http.Request) (*http.Response, error) {
	w := &answer{header: http.Header{}, status: http.StatusOK}
	served := r.Clone(r.Context())
	served.RequestURI, served.RemoteAddr, served.Host = r.URL.RequestURI(), "127.0.0.1:0", r.URL.Host
	b.ServeHTTP(w, served)
	return &http.Response{StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body)}, nil
}

// answer is what a handler in this process has written.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *answer) Header() http.Header            { return w.header }
func (w *answer) WriteHeader(status int)         { w.status = status }
func (w *answer) Write(text []byte) (int, error) { return w.body.Write(text) }

// ofProviders returns a bridge for providers.
func (r *providerFlags) ofProviders(origins []string, logging *caddy.Logging) (*localBridge, error) {
	config, err := r.handler(origins...)
	if err != nil {
		return nil, err
	}
	config.AllowAnonymous = true // the user of the command has the key
	config.MCP = json.RawMessage(`{"path":"` + localPath + `"}`)
	return openBridge(caddyconfig.JSON(config, nil), nil, logging)
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
				Servers map[string]json.RawMessage `json:"servers"`
			} `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, 0, fmt.Errorf("--config %s: %w", file, err)
	}
	var found []map[string]json.RawMessage
	for _, name := range slices.Sorted(maps.Keys(config.Apps.HTTP.Servers)) {
		found = appendBridges(found, config.Apps.HTTP.Servers[name])
	}
	found = slices.CompactFunc(found, func(a, b map[string]json.RawMessage) bool { // one site on several addresses
		return maps.EqualFunc(a, b, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
	})
	if len(found) == 0 {
		return nil, 0, fmt.Errorf("--config %s has no %s", file, handlerName)
	}
	if len(found) > 1 {
		caddy.Log().Named("skill_bridge.mcp").Warn("the configuration has several bridges; the first is used", zap.Int("bridges", len(found)))
	}
	handler, err := mountOnly(found[0])
	if err != nil {
		return nil, 0, fmt.Errorf("--config %s: %w", file, err)
	}
	if size := found[0]["max_request_size"]; size != nil {
		if err := json.Unmarshal(size, &maxRequest); err != nil {
			return nil, 0, fmt.Errorf("--config %s: max_request_size: %w", file, err)
		}
	}
	b, err = openBridge(handler, config.Storage, logging)
	return b, maxRequest, err
}

// appendBridges appends the configurations of all bridges in a part of a configuration. Those in arrays are in order.
func appendBridges(to []map[string]json.RawMessage, part json.RawMessage) []map[string]json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(part, &list) == nil {
		for _, element := range list {
			to = appendBridges(to, element)
		}
		return to
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(part, &object) != nil {
		return to
	}
	var handler string
	if json.Unmarshal(object["handler"], &handler) == nil && handler == handlerName {
		return append(to, object)
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		to = appendBridges(to, object[name])
	}
	return to
}

// mountOnly returns the configuration of a bridge that serves MCP and nothing else, to the client of this process. Of the options of
// MCP it keeps those that concern no HTTP.
func mountOnly(bridge map[string]json.RawMessage) (json.RawMessage, error) {
	mount := map[string]json.RawMessage{}
	if text := bridge["mcp"]; text != nil {
		if err := json.Unmarshal(text, &mount); err != nil {
			return nil, fmt.Errorf("mcp: %w", err)
		}
	}
	mount["path"] = caddyconfig.JSON(localPath, nil)
	for _, name := range []string{"origins", "authorization_server", "scopes"} {
		delete(mount, name)
	}
	if bridge["callers_file"] != nil && string(bridge["allow_anonymous"]) != "true" {
		bridge["require_principal"] = json.RawMessage("true") // which callers_file implies
	}
	for _, name := range []string{"handler", "rpc", "a2a", "browse", "agent_skills", "webhooks", "principal", "callers_file"} {
		delete(bridge, name)
	}
	bridge["mcp"] = caddyconfig.JSON(mount, nil)
	return caddyconfig.JSON(bridge, nil), nil
}
