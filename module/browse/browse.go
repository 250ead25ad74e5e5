package browse

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"html/template"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/idna"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

//go:embed page.html
var pageSource string

// pageTemplate is the template of the page that `browse` serves. It is executed with a [Page].
var pageTemplate = template.Must(Template("page.html", lean(pageSource)))

// head is the template of the head of the bridge's pages.
//
//go:embed head.html
var head string

// The style and the script of the page. Neither contains anything from a provider.
var (
	//go:embed page.css
	styleSource string
	//go:embed page.js
	scriptSource string

	// Style is the style sheet of the bridge's pages.
	Style, browseScript = strings.NewReplacer(": ", ":", "; ", ";", " { ", "{", ", ", ",").Replace(lean(styleSource)), lean(scriptSource)
)

// lean returns a source without indentation and lines of comments, which browsers need not load. No string in it has several lines.
func lean(source string) string {
	var b strings.Builder
	for line := range strings.Lines(source) {
		if line = strings.TrimLeft(line, "\t"); !strings.HasPrefix(line, "//") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Config configures the page that shows the skills to browsers.
type Config struct{}

// Handler returns the handler that serves the page of a bridge, or nil if c is nil.
func (c *Config) Handler(bridge *translate.Bridge, requirePrincipal bool, refused func(ctx context.Context, method, reason string)) *Handler {
	if c == nil {
		return nil
	}
	return &Handler{bridge: bridge, requirePrincipal: requirePrincipal, refused: refused, limits: standardPageLimits}
}

// functions make texts of a descriptor such that a template can show them.
var functions = template.FuncMap{
	"name": func(text any) string { return plain(fmt.Sprint(text), maxShownName) }, // types and JSON, too
	"text": func(text string) string { return plain(text, maxShownText) },
	"link": link, "scopes": scopesOf,
}

// Template returns the template of a page. It may begin with the template "head", for which the page has the fields Name, Nonce and Style, and a template "title".
func Template(name, text string) (*template.Template, error) {
	return template.Must(template.New("head").Funcs(functions).Parse(head)).New(name).Parse(text)
}

// Handler answers the requests to the endpoint that are not POST requests.
type Handler struct {
	// Name is the name of the bridge; empty: the page shows the host. It must not be changed while the handler serves.
	Name string
	// URL returns the URL of a request as its client sees it, without the query. It is required, and must not be changed while the handler serves.
	URL func(r *http.Request) string
	// Tools is the endpoint of MCP, which the page names; nil: there is none. It must not be changed while the handler serves.
	Tools Tools
	// Agent is the endpoint of A2A, which the page names; nil: there is none. It must not be changed while the handler serves.
	Agent Agent
	// Challenge is the WWW-Authenticate field for callers that have to authenticate to the handler itself; empty: something in front of
	// it authenticates them. It must not be changed while the handler serves.
	Challenge string
	// Account returns the link of the page on which a principal connects an account of its own at a source, and whether one is connected; an empty
	// link: the source needs none. nil: none does. It must not be changed while the handler serves.
	Account func(ctx context.Context, principal, namespace string) (link string, connected bool)

	bridge           *translate.Bridge
	requirePrincipal bool
	refused          func(ctx context.Context, method, reason string)
	limits           pageLimits
}

// Serve answers GET and HEAD requests with the page if their Accept header prefers HTML to
// JSON. All other requests get status 405, as without the page.
func (h *Handler) Serve(ctx context.Context, w http.ResponseWriter, r *http.Request, principal, ambiguous string) error {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Add("Vary", "Accept")
	if r.Method != http.MethodGet && r.Method != http.MethodHead || !prefersHTML(r.Header["Accept"]) {
		header.Set("Allow", "GET, POST")
		http.Error(w, "JSON-RPC needs a POST request; a GET request that prefers text/html gets the page.", http.StatusMethodNotAllowed)
		return nil
	}
	page, status := h.page(ctx, r, principal, ambiguous)
	header.Set("Referrer-Policy", "no-referrer")
	if status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", h.Challenge)
	}
	if server, ok := ctx.Value(http.ServerContextKey).(*http.Server); !ok || server.WriteTimeout <= 0 { // otherwise it has a deadline
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(2 * time.Minute)) // not supported: a handler in front buffers
	}
	return Send(w, status, pageTemplate, page, page.Nonce, "script-src 'nonce-"+page.Nonce+"'; connect-src 'self'; img-src blob:; form-action 'none'; "+
		"require-trusted-types-for 'script'; trusted-types 'none'")
}

// Send answers with a page, with headers that make texts from providers harmless (Content Security Policy Level 3): the browser applies only styles that have
// the nonce of this answer, shows the page in no frame, and loads and does no more than the policy says. That of browse applies scripts with the nonce, too,
// loads no other resources except images that the script makes of outputs, and connects only to the page's own origin. Trusted types prevent even the page's
// own script from turning text into HTML.
func Send(w http.ResponseWriter, status int, t *template.Template, page any, nonce, policy string) error {
	var body bytes.Buffer
	if err := t.Execute(&body, page); err != nil {
		return fmt.Errorf("executing the template of a page: %w", err)
	}
	header := w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+nonce+"'; "+policy+"; frame-ancestors 'none'; base-uri 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	_, _ = body.WriteTo(w) // the client may be gone
	return nil
}

// SourceOf returns the origin of a page for the policy of [Send] (Content Security Policy Level 3, section 2.3.1). Its grammar has neither IPv6 addresses nor
// names that are not ASCII: browsers ignore such a source. For what it can't name, it is the scheme.
func SourceOf(u *url.URL) string {
	host, err := idna.Lookup.ToASCII(u.Hostname())
	if err != nil {
		return u.Scheme + ":"
	}
	return strings.TrimSuffix(u.Scheme+"://"+net.JoinHostPort(host, u.Port()), ":")
}

// page returns the page for a request and its status. Callers whom the bridge refuses get a page that says why.
func (h *Handler) page(ctx context.Context, r *http.Request, principal, ambiguous string) (*Page, int) {
	page := &Page{Principal: plain(principal, maxShownName), Nonce: rand.Text(), Style: template.CSS(Style), Script: template.JS(browseScript)} //nolint:gosec // the module's own files
	page.Endpoint, page.Name = h.endpoint(r)
	if h.Agent != nil {
		if agent := h.Agent.URL(r); plain(agent, maxShownLink) == agent {
			page.Agent = agent
		}
	}
	var clients []Client
	if h.Tools != nil {
		_, _, hasPassword := r.BasicAuth()
		page.MCP = clientsOf(h.Tools.URL(r), h.Tools.NeedsToken(), hasPassword)
		page.MCP.Clients, clients = nil, page.MCP.Clients // only for callers who see skills
	}
	switch {
	case ambiguous != "":
		h.refused(ctx, "browse", ambiguous)
		page.Problem = "This bridge refuses callers whose identity is ambiguous: " + ambiguous + ". Ask its operator."
		return page, http.StatusForbidden
	case h.requirePrincipal && principal == "":
		h.refused(ctx, "browse", run.PrincipalRequired)
		page.Problem = "This bridge shows its skills only to authenticated callers. Authenticate as its operator told you, and load this page again."
		if h.Challenge != "" {
			return page, http.StatusUnauthorized
		}
		return page, http.StatusForbidden
	}
	page.MCP.Clients = clients
	m := &pageMaker{account: h.Account, bridge: h.bridge, limits: h.limits, principal: principal, page: page, now: time.Now(), needsPrincipal: h.requirePrincipal}
	if h.Agent != nil {
		m.agent, m.agentVersion, m.curlOptions = h.Agent.URL(r), h.Agent.Version(), h.Agent.CurlOptions()
	}
	query := r.URL.Query()
	if query.Get(queryPart) != "" {
		page.Style, page.Script = "", ""
	}
	if name := query.Get(querySkill); name != "" {
		return page, m.one(ctx, name)
	}
	page.Filter = filterOf(query)
	return page, m.all(ctx)
}

// endpoint returns the URL to which agents POST, and the name of the bridge for people. The URL is empty if the page can't show it.
func (h *Handler) endpoint(r *http.Request) (endpoint, name string) {
	endpoint = h.URL(r)
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || plain(endpoint, maxShownLink) != endpoint {
		return "", cmp.Or(plain(h.Name, maxShownName), "Skills")
	}
	return endpoint, plain(cmp.Or(h.Name, u.Host), maxShownName)
}

// prefersHTML reports whether text/html has a higher quality than JSON (RFC 9110,
// section 12.5.1). Every browser sends such a header; clients that accept */* do not.
func prefersHTML(accept []string) bool {
	listed := map[string]float64{}
	for mediaRange := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		name, params, err := mime.ParseMediaType(mediaRange)
		q, wrong := strconv.ParseFloat(cmp.Or(params["q"], "1"), 64)
		if _, again := listed[name]; !again && err == nil && wrong == nil && q >= 0 && q <= 1 {
			listed[name] = q
		}
	}
	quality := func(ranges ...string) float64 { // by the most specific range that is listed
		i := slices.IndexFunc(ranges, func(name string) bool { _, ok := listed[name]; return ok })
		return listed[ranges[max(i, 0)]]
	}
	return quality("text/html", "text/*", "*/*") > quality("application/json", "application/*", "*/*")
}
