package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

const (
	defaultRunTime = 3 * time.Second
	maxRunTime     = 15 * time.Second
)

// Handler is the demo API. It answers all requests and calls no next handler.
type Handler struct {
	// The key that an operation expects in `X-API-Key`. Required. Placeholders
	// such as `{env.X}` are resolved when the configuration loads.
	APIKey string `json:"api_key,omitempty"`

	// The OAuth 2.0 client that the token endpoint knows. Required.
	Client Client `json:"client,omitzero"`

	// How long a summary takes. Default: `3s`. At most `15s`.
	RunTime caddy.Duration `json:"run_time,omitempty"`

	mux    http.Handler
	apiKey secret
	client secret // of the OAuth 2.0 client
}

// Client is the OAuth 2.0 client of the demo API's token endpoint.
type Client struct {
	// The client identifier. Required.
	ID string `json:"id,omitempty"`

	// The client secret. Required. Placeholders such as `{env.X}` are
	// resolved when the configuration loads.
	Secret string `json:"secret,omitempty"`
}

// defaultSecrets are the secrets of the quickstart, by the environment variables that its Caddyfile names. Users may set others.
var defaultSecrets = map[string]string{"DEMO_API_KEY": "demo-key", "DEMO_CLIENT_SECRET": "demo-secret", "DEMO_SEAL_KEY": "ZGVtbyBvbmx5OiAwMTIzNDU2Nzg5IGFiY2RlZmdoaWprbG1ubw=="}

func init() {
	caddy.RegisterModule(new(Handler))
	for name, value := range defaultSecrets {
		if _, set := os.LookupEnv(name); !set {
			_ = os.Setenv(name, value) // if that fails, the configuration does not load, and names the variable
		}
	}
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.skill_bridge_demo",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision resolves the secrets.
func (h *Handler) Provision(ctx caddy.Context) error {
	if h.RunTime == 0 {
		h.RunTime = caddy.Duration(defaultRunTime)
	}
	repl := caddy.NewReplacer()
	key, err := repl.ReplaceOrErr(h.APIKey, true, true)
	if err != nil {
		return fmt.Errorf("api_key: %w", err)
	}
	clientSecret, err := repl.ReplaceOrErr(h.Client.Secret, true, true)
	if err != nil {
		return fmt.Errorf("client: secret: %w", err)
	}
	h.apiKey, h.client = secret(key), secret(clientSecret)
	h.mux = h.routes()
	app, err := ctx.App("events")
	if err != nil {
		return err
	}
	return app.(*caddyevents.App).On("stopping", inProgress)
}

// inProgress are the slow operations of this process.
var inProgress = new(progress)

// A progress delays the stop of Caddy's servers until slow operations have ended, and their callers have learnt that. Without it, a bridge
// in the same process could not poll the runs of its calls, which go on during the grace period.
type progress struct {
	operations atomic.Int64
	ended      atomic.Int64 // when the last one did, in nanoseconds
}

const (
	unread     = 2 * time.Second // how long callers may take to poll the end of an operation; Retry-After is a second
	lookUnread = 20 * time.Millisecond
)

// begin counts an operation until its end.
func (p *progress) begin() (end func()) {
	p.operations.Add(1)
	return func() {
		p.ended.Store(time.Now().UnixNano())
		p.operations.Add(-1)
	}
}

// Handle waits if the process exits, not at a reload.
func (p *progress) Handle(context.Context, caddy.Event) error {
	for caddy.Exiting() && (p.operations.Load() > 0 || time.Since(time.Unix(0, p.ended.Load())) < unread) {
		time.Sleep(lookUnread)
	}
	return nil
}

// Validate checks the options.
func (h *Handler) Validate() error {
	if h.APIKey == "" || h.Client.ID == "" || h.Client.Secret == "" {
		return errors.New("api_key, and client with its id and secret, are required: operations ask for them")
	}
	return h.checkRunTime()
}

func (h *Handler) checkRunTime() error {
	if h.RunTime < 0 || time.Duration(h.RunTime) > maxRunTime {
		return fmt.Errorf("run_time %s is out of range: it must be positive and at most %s", time.Duration(h.RunTime), maxRunTime)
	}
	return nil
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	h.mux.ServeHTTP(w, r)
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
