package publish

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/keeping"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler publishes the operations of the HTTP API behind it as skills of the Skill Sharing Protocol: it serves an index, a descriptor for each operation,
// and an endpoint for invocations, each of which becomes one plain request to the next handler. All other requests are passed on.
//
// An invocation gets to the API with the credential headers that the security of its operation names, and no others. Handlers in front of this one, such as
// `rewrite` and `request_header`, do not run for that request; those behind it do.
//
// What callers can take: 256 MiB of memory for invocations in progress, or an eighth of GOMEMLIMIT if that is less. Each takes 256 KiB, its request (at most
// 1 MiB), that to the API and its answer (at most 10 MiB, of which up to three times as much is in use while it is translated). Those of one caller (the value of `private_for`,
// or the address of the client; of IPv6 its network of 64 bits) have at most half, and less when others have some. Of runs that were answered at once, the last
// 1,000 are in memory for 10 minutes, 32 MiB at most (one that takes more by itself can't be read later); in the database is what `keep` says, and for one
// address without a caller a tenth of that. What exceeds another bound is answered with HTTP 429 and `RATE_LIMITED`, and nothing is sent to the API.
type Handler struct {
	// The origin under which consumers reach this site. Default: scheme and host of the request, if the address of the site names that host; otherwise it
	// is required. Example: `https://api.example.com`.
	URL string `json:"url,omitempty"`

	// The provider in the index and in the descriptors of operations. Default: its name is the title of the first OpenAPI document, or else the host.
	Provider *Provider `json:"provider,omitempty"`

	// The first part of the ids of operations. Default: the host of `url`, or else the first one that the address of the site names.
	Namespace string `json:"namespace,omitempty"`

	// A folder with descriptors that were written by hand, one in each file `*.json`, `*.yaml` or `*.yml`. They are served as they are, and invoked where
	// they say. The folder is looked at every 5 seconds. Example: `skills`.
	Skills string `json:"skills,omitempty"`

	// OpenAPI documents whose operations become skills.
	OpenAPI []Document `json:"openapi,omitempty"`

	// Who may see and invoke private skills: requests for which this placeholder is not empty. Runs belong to its value, too. Default: `{http.auth.user.id}`.
	PrivateFor string `json:"private_for,omitempty"`

	// An operation that takes longer is answered with HTTP 202, and its run can be followed: a duration, or `off`. Default: `2s`.
	AsyncAfter string `json:"async_after,omitempty"`

	// How long an operation may take, unless its caller wants it to take less. In JSON, 0 means the default. Default: `10m`.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	keeping.Options

	// Read documents by URL without TLS, too. Anyone on the network path can then change which operations are published. Default: false.
	AllowHTTP bool `json:"allow_http,omitempty"`

	// Addresses that are not public and may be connected to for documents by URL: networks in CIDR notation, or single addresses. Default: none.
	AllowNetworks []string `json:"allow_networks,omitempty"`

	// The path under which descriptors, invocations and runs are served. Default: `/skill-sharing`.
	Path string `json:"path,omitempty"`

	logger    *zap.Logger
	use       *lifetime.Usage
	transport *network.Transport
	kept      *keeping.Ledger
	shared    *shared
	site      func() *site  // see locate
	started   chan struct{} // closed when documents is set
	documents atomic.Pointer[documents]
}

// Provider says who offers the skills.
type Provider struct {
	// Default: the title of the first OpenAPI document, or else the host.
	Name string `json:"name,omitempty"`

	// A page about the provider.
	URL string `json:"url,omitempty"`

	// How to reach the provider, such as an email address.
	Contact string `json:"contact,omitempty"`
}

// Document is an OpenAPI document (3.0, 3.1, or Swagger 2.0), and which of its operations are published.
type Document struct {
	// The document: a file, or a URL. It may refer to files in its folder and below, or to documents of its own origin. Files are looked at every 5
	// seconds, URLs as often as their Cache-Control says, or every 5 minutes; a document that can't be read keeps the operations that were read before.
	Location string `json:"location" option:"-"`

	// The operations to publish: operationIds, or methods with paths, such as `GET /pets/{petId}`. `*` stands for any text. Nothing else is published.
	Include []string `json:"include"`

	// Operations that are not published, although `include` names them. If one names no operation, nothing of the document is published, and the log says so.
	Exclude []string `json:"exclude,omitempty"`

	// Who may see and invoke the skills: `public`, `restricted` or `private`. Default: `public` for operations that need no security, else `restricted`.
	Access document.AccessPolicy `json:"access,omitempty"`

	// Whole ids of skills, by the operationIds of their operations, or by their methods and paths.
	Rename map[string]string `json:"rename,omitempty"`

	// Whether descriptors have the schemas of answers: `on`, or `off` for an API whose answers deviate from its document. Default: `on`.
	OutputSchema string `json:"output_schema,omitempty"`
}

const (
	defaultPath    = "/skill-sharing"
	defaultAsync   = 2 * time.Second
	defaultTimeout = 10 * time.Minute
)

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.skill_publish", New: func() caddy.Module { return new(Handler) }}
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)

// Answers reports whether the handler answers a request, and does not pass it on. Warnings about routes ask for it.
func (h *Handler) Answers(r *http.Request) bool {
	return r.URL.Path == document.WellKnownPath || strings.HasPrefix(r.URL.Path, h.Path+"/")
}

// ServeHTTP answers a request for what is published, and passes others on.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if !h.Answers(r) {
		return next.ServeHTTP(w, r)
	}
	h.use.Acquire()
	defer h.use.Done()
	lifetime.BeginRequest()
	defer lifetime.EndRequest()
	published := h.published(r.Context())
	if published == nil { // the client has left
		return nil
	}
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	q := &request{Request: r, w: paced{w, server}, caller: h.callerOf(r), handler: h, next: next}
	q.serve(published)
	lifetime.SendAnswer(w)
	return nil
}

// Cleanup ends the handler's own use of what it holds. Requests and executions in progress keep theirs.
func (h *Handler) Cleanup() error {
	if h.use != nil { // else Provision has failed
		h.use.Leave()
	}
	return nil
}
