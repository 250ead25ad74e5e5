package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

const (
	defaultRunTime = 3 * time.Second
	maxRunTime     = 15 * time.Second // half of the timeout_ms of the descriptors
)

// Handler is the demo provider. It answers all requests and calls no next handler.
type Handler struct {
	// The scheme, host and port under which clients reach this handler, for
	// example `http://127.0.0.1:8081`. Every URL in the index and in the
	// descriptors is built from it. Required; without path or trailing slash.
	Origin string `json:"origin,omitempty"`

	// The key that the skill behind an API key expects in `X-API-Key`. Required.
	// Placeholders such as `{env.X}` are resolved when the configuration loads.
	APIKey string `json:"api_key,omitempty"`

	// The OAuth 2.0 client that the token endpoint knows. Required.
	Client Client `json:"client,omitzero"`

	// How long the asynchronous summary takes; the fast asynchronous skills
	// take a tenth of it. Default: `3s`. At most `15s`.
	RunTime caddy.Duration `json:"run_time,omitempty"`

	// The URL of a bridge to this provider. If it is set, Caddy prints it on
	// standard output when it has started.
	Announce string `json:"announce,omitempty"`

	mux      *http.ServeMux
	apiKey   secret
	client   secret // of the OAuth 2.0 client
	runs     *runs
	stateKey string
}

// Client is the OAuth 2.0 client of the demo provider's token endpoint.
type Client struct {
	// The client identifier. Required.
	ID string `json:"id,omitempty"`

	// The client secret. Required. Placeholders such as `{env.X}` are
	// resolved when the configuration loads.
	Secret string `json:"secret,omitempty"`
}

// states keeps the runs across reloads.
var states = caddy.NewUsagePool()

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

// Provision resolves the secrets and reads the documents.
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
	h.stateKey = fmt.Sprintf("%q", []string{h.Origin, key, h.Client.ID, clientSecret})
	pooled, _, err := states.LoadOrNew(h.stateKey, func() (caddy.Destructor, error) { return newRuns(), nil })
	if err != nil {
		return err
	}
	h.runs = pooled.(*runs)
	if err := h.publish(); err != nil {
		return err
	}
	app, err := ctx.App("events")
	if err != nil {
		return err
	}
	events := app.(*caddyevents.App)
	if err := events.On("stopping", drain{h.runs}); err != nil || h.Announce == "" {
		return err
	}
	return events.On("started", announcement(h.Announce))
}

// A drain delays the stop of Caddy's servers until the runs in progress have ended. Without it, a bridge in the same process could not poll
// the runs of its calls, which go on during the grace period.
type drain struct{ runs *runs }

// Handle waits if the process exits, not at a reload.
func (d drain) Handle(context.Context, caddy.Event) error {
	if caddy.Exiting() {
		d.runs.drain()
	}
	return nil
}

// An announcement is the URL of the bridge.
type announcement string

// Handle prints the URL.
func (a announcement) Handle(context.Context, caddy.Event) error {
	fmt.Fprintf(os.Stdout, "Skill Bridge listens on %s: open it in a browser, or POST JSON-RPC 2.0 to it.\n", a)
	return nil
}

// Validate checks the options.
func (h *Handler) Validate() error {
	if u, err := url.Parse(h.Origin); err != nil || u.Hostname() == "" || h.Origin != u.Scheme+"://"+u.Host {
		return fmt.Errorf("origin %q: it must be a scheme, host and port (for example http://127.0.0.1:8081)", h.Origin)
	}
	if h.APIKey == "" {
		return errors.New("api_key is required: the skill behind an API key asks for it")
	}
	if h.Client.ID == "" || h.Client.Secret == "" {
		return errors.New("client is required, with its id and secret: the token endpoint asks for them")
	}
	return h.checkRunTime()
}

func (h *Handler) checkRunTime() error {
	if h.RunTime < 0 || time.Duration(h.RunTime) > maxRunTime {
		return fmt.Errorf("run_time %s is out of range: it must be positive and at most %s", time.Duration(h.RunTime), maxRunTime)
	}
	return nil
}

// Cleanup ends all runs, unless another configuration has the same provider.
func (h *Handler) Cleanup() error {
	if h.runs == nil {
		return nil
	}
	_, err := states.Delete(h.stateKey)
	return err
}

// publish reads the documents and registers the routes.
func (h *Handler) publish() error {
	index, bySlug, err := readDocuments(h.Origin)
	if err != nil {
		return err
	}
	h.mux = http.NewServeMux()
	h.mux.HandleFunc("GET /.well-known/skill-sharing", index.ServeHTTP)
	for slug, s := range bySlug {
		h.mux.HandleFunc("GET /skills/"+slug+".json", s.document.ServeHTTP)
		h.mux.HandleFunc("POST /skills/"+slug+"/executions", func(w http.ResponseWriter, r *http.Request) { h.serveInvocation(w, r, s) })
	}
	h.mux.HandleFunc("GET /executions/{id}", func(w http.ResponseWriter, r *http.Request) { h.serveRun(w, r, false) })
	h.mux.HandleFunc("GET /executions/{id}/result", func(w http.ResponseWriter, r *http.Request) { h.serveRun(w, r, true) })
	h.mux.HandleFunc("POST /token", h.serveToken)
	h.mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "This provider grants OAuth 2.0 client credentials only: POST to /token instead.", http.StatusBadRequest)
	})
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
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
