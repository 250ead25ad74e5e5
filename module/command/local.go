package command

import (
	"bytes"
	"context"
	"encoding/json" // for Caddy's raw modules
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const handlerName = "skill_bridge"

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
