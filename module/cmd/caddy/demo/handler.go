package demo

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

const (
	defaultRunTime = 3 * time.Second
	maxRunTime     = 10 * time.Minute
)

// Handler is the demo provider. Origin, api_key and one client are required.
type Handler struct {
	// The scheme, host and port under which clients reach this handler, for
	// example `http://127.0.0.1:8081`. Every URL in the index and in the
	// descriptors is built from it. Required; without path or trailing slash.
	Origin string `json:"origin,omitempty"`

	// The key that the skills behind an API key expect in `X-API-Key`, and
	// that shows the private skill to whoever sends it with a request for
	// the index. Required. Placeholders such as `{env.X}` are resolved when
	// the configuration loads.
	APIKey string `json:"api_key,omitempty"`

	// The OAuth 2.0 clients that the token endpoint knows. One or more.
	Clients []Client `json:"clients,omitempty"`

	// How long the asynchronous summary takes; the fast asynchronous skills
	// take a tenth of it. Default: `3s`. At most `10m`.
	RunTime caddy.Duration `json:"run_time,omitempty"`

	// The URL of a bridge to this provider. If it is set, standard output says
	// when Caddy has started that the bridge is there.
	Announce string `json:"announce,omitempty"`

	catalog  *catalog
	apiKey   digest
	clients  map[string]digest
	state    *state
	stateKey string
}

// Client is one OAuth 2.0 client of the demo provider's token endpoint.
type Client struct {
	// The client identifier. Required, unique.
	ID string `json:"id,omitempty"`

	// The client secret. Required. Placeholders such as `{env.X}` are
	// resolved when the configuration loads.
	Secret string `json:"secret,omitempty"`
}

func init() {
	caddy.RegisterModule(new(Handler))
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.skill_bridge_demo",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision resolves the secrets and builds the documents. It starts nothing.
func (h *Handler) Provision(ctx caddy.Context) error {
	if h.RunTime == 0 {
		h.RunTime = caddy.Duration(defaultRunTime)
	}

	repl := caddy.NewReplacer()
	key, err := repl.ReplaceOrErr(h.APIKey, true, true)
	if err != nil {
		return fmt.Errorf("api_key: %w", err)
	}
	h.apiKey = digestOf(key)

	h.clients = make(map[string]digest, len(h.Clients))
	for i, client := range h.Clients {
		secret, err := repl.ReplaceOrErr(client.Secret, true, true)
		if err != nil {
			return fmt.Errorf("clients[%d]: secret: %w", i, err)
		}
		h.clients[client.ID] = digestOf(secret)
	}

	h.stateKey = fmt.Sprint(h.Origin, h.apiKey, h.clients)
	pooled, _, err := states.LoadOrNew(h.stateKey, func() (caddy.Destructor, error) { return newState(), nil })
	if err != nil {
		return err
	}
	h.state = pooled.(*state)
	if h.catalog, err = newCatalog(h.Origin, h.skills()); err != nil {
		return err
	}
	return h.announceWhenStarted(ctx)
}

// Validate checks that the required options are there and make sense.
func (h *Handler) Validate() error {
	if err := checkOrigin(h.Origin); err != nil {
		return err
	}
	if h.APIKey == "" {
		return errors.New("api_key is required: it is what the skills behind an API key ask for")
	}
	if len(h.Clients) == 0 {
		return errors.New("a client (id and secret) is required: it is what the token endpoint asks for")
	}
	for i, client := range h.Clients {
		if client.ID == "" || client.Secret == "" {
			return fmt.Errorf("clients[%d]: both id and secret are required", i)
		}
	}
	if len(h.clients) != len(h.Clients) {
		return errors.New("clients: two clients have the same id")
	}
	if h.RunTime < 0 || time.Duration(h.RunTime) > maxRunTime {
		return fmt.Errorf("run_time %s is out of range: it must be positive and at most %s", time.Duration(h.RunTime), maxRunTime)
	}
	return nil
}

func checkOrigin(origin string) error {
	if origin == "" {
		return errors.New("origin is required: the URLs in the documents are built from it (for example http://127.0.0.1:8081)")
	}
	u, err := url.Parse(origin)
	if err != nil {
		return fmt.Errorf("origin: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("origin %q: the scheme must be http or https", origin)
	}
	if u.Hostname() == "" || origin != u.Scheme+"://"+u.Host {
		return fmt.Errorf("origin %q: it must be scheme, host and port only (for example http://127.0.0.1:8081)", origin)
	}
	return nil
}

// Cleanup gives up the runs and tokens. Unless another configuration has the same
// provider, every run ends, and their goroutines with it.
func (h *Handler) Cleanup() error {
	if h.state == nil {
		return nil
	}
	_, err := states.Delete(h.stateKey)
	return err
}

// ServeHTTP answers the paths of the protocol and hands every other path to
// the next handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	serve, methods := h.route(r.URL.Path)
	if serve == nil {
		return next.ServeHTTP(w, r)
	}
	if methods != nil && !slices.Contains(methods, r.Method) {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		return problem{
			status:  http.StatusMethodNotAllowed,
			code:    codeValidation,
			message: "Method " + r.Method + " is not allowed here",
			details: []fault{{Message: "wrong method", Expected: methods, Actual: r.Method}},
		}.write(w)
	}
	return serve(w, r)
}

// An endpoint answers a request; its error is one of writing the answer.
type endpoint func(http.ResponseWriter, *http.Request) error

// route returns the endpoint of a path and the methods it takes: nil, if the
// endpoint judges the method itself. Without endpoint the path is none of the
// provider's.
func (h *Handler) route(path string) (endpoint, []string) {
	read, submit := []string{http.MethodGet, http.MethodHead}, []string{http.MethodPost}

	switch path {
	case "/.well-known/skill-sharing":
		return h.serveIndex, read
	case "/token":
		return h.serveToken, nil
	case "/authorize":
		return serveAuthorize, nil
	}
	if rest, ok := strings.CutPrefix(path, "/skills/"); ok {
		if slug, ok := strings.CutSuffix(rest, ".json"); ok && isSegment(slug) {
			return func(w http.ResponseWriter, r *http.Request) error { return h.serveDescriptor(w, r, slug) }, read
		}
		if slug, ok := strings.CutSuffix(rest, "/executions"); ok && isSegment(slug) {
			return func(w http.ResponseWriter, r *http.Request) error { return h.serveInvocation(w, r, slug) }, submit
		}
		return nil, nil
	}
	if rest, ok := strings.CutPrefix(path, "/executions/"); ok {
		id, result := strings.CutSuffix(rest, "/result")
		if isSegment(id) {
			return func(w http.ResponseWriter, r *http.Request) error { return h.serveRun(w, r, id, result) }, read
		}
	}
	return nil, nil
}

func isSegment(s string) bool { return s != "" && !strings.Contains(s, "/") }

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
