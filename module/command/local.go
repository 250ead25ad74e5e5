package command

import (
	"bytes"
	"encoding/json" // for Caddy's raw modules
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/skill-bridge/caddy-skill-bridge/module/bridge"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
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
