package consent

import (
	"cmp"
	"context"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// Handler serves the pages of one bridge.
type Handler struct {
	// Name is the name of the bridge; empty: the pages show the host. It must not be changed while the handler serves.
	Name string
	// Failed is called when a user can't connect or disconnect an account at a source, with what the operator can do. It must not be changed while the
	// handler serves.
	Failed func(ctx context.Context, namespace, why string)
	// Given is called when a principal has connected an account at a source. It must not be changed while the handler serves.
	Given func(principal, namespace string, scopes []string)

	bridge  *translate.Bridge
	sealer  *runtoken.Sealer // of flows; nil: no source has accounts
	realm   string           // of the principals
	path    string
	url     *url.URL // of the path, as browsers see it
	origin  credential.Authority
	refused func(ctx context.Context, principal, reason string)
}

// Handler returns the handler of the pages of a bridge. The sealer is only for its flows, and the realm is that of the bridge's
// principals. c must be checked.
func (c *Config) Handler(bridge *translate.Bridge, sealer *runtoken.Sealer, realm string, refused func(ctx context.Context, principal, reason string)) (*Handler, error) {
	u, _ := url.Parse(c.Base()) // checked before
	origin, err := credential.AuthorityOf(u)
	return &Handler{bridge: bridge, sealer: sealer, realm: realm, path: c.At(), url: u, origin: origin, refused: refused}, err
}

// Serves reports whether a request is for the pages.
func (h *Handler) Serves(r *http.Request) bool {
	return h != nil && (r.URL.Path == h.path || strings.HasPrefix(r.URL.Path, h.path+"/"))
}

// link returns the URL of the page of a source; empty: of the page with all.
func (h *Handler) link(namespace string) string {
	return strings.TrimSuffix(h.url.String()+"/"+url.PathEscape(namespace), "/")
}

// Redirect returns the redirect URI of a source, which is registered at its authorization server.
func (h *Handler) Redirect(namespace string) string { return h.link(namespace) + "/" + callback }

// sources returns the sources of which a principal may have an account: all, or only the one with a namespace. Those that the access rules deny it are
// among them as long as an account is connected, which it can disconnect.
func (h *Handler) sources(ctx context.Context, principal, namespace string) (found []*source) {
	known := h.bridge.Namespaces(principal)
	for _, s := range h.bridge.Catalog().Sections() {
		oauth, ok := s.Credentials.(*credentials.OAuth2User)
		if !ok || namespace != "" && namespace != s.Namespace {
			continue
		}
		denied := !slices.Contains(known, s.Namespace)
		if denied {
			if grant, _ := oauth.Grant(ctx, principal); grant == nil {
				continue
			}
		}
		request := (&http.Request{Method: http.MethodGet, URL: s.URL, Header: http.Header{}}).WithContext(credential.WithOwner(ctx, principal))
		found = append(found, &source{
			Section: s, Link: h.link(s.Namespace), denied: denied, oauth: oauth, authentication: s.Client.Authentication(request.Context(), nil, request, nil),
		})
	}
	return found
}

// Account returns the link of the page on which a principal connects an account of a source, and whether one is connected. The link is empty if the
// source needs none. It asks the database at most.
func (h *Handler) Account(ctx context.Context, principal, namespace string) (link string, connected bool) {
	found := h.sources(ctx, principal, namespace)
	if principal == "" || len(found) != 1 {
		return "", false
	}
	grant, err := found[0].oauth.Grant(ctx, principal)
	return found[0].Link, err == nil && grant != nil
}

// visit is a request for a page.
type visit struct {
	*Handler
	w                    http.ResponseWriter
	r                    *http.Request
	principal, namespace string // the namespace is of the path, and empty for the page with all sources
	page                 page
}

// callback is the last segment of redirect URIs.
const callback = "callback"

// Serve answers a request that is for the pages. A GET request starts nothing.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, principal, ambiguous string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "same-origin") // with no-referrer, browsers send forms with Origin: null
	// The path is decoded, as Serves has it.
	namespace, last, below := strings.Cut(strings.Trim(strings.TrimPrefix(r.URL.Path, h.path), "/"), "/")
	v := &visit{Handler: h, w: w, r: r, principal: principal, namespace: namespace, page: page{Principal: safetext.TrimmedLine(principal, maxShownName), User: tokens.Digest(principal)}}
	isCallback, posted, allowed := below && last == callback, r.Method == http.MethodPost, "GET, HEAD"
	switch {
	case isCallback:
		allowed = "GET" // it uses the code
	case namespace != "":
		allowed = "GET, HEAD, POST"
	}
	if isCallback { // its URL has a code, which stays out of the access log and of Referer fields
		caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
		w.Header().Set("Referrer-Policy", "no-referrer")
	}
	switch {
	case below && !isCallback:
		v.fail(http.StatusNotFound, "There is no such page.")
	case !slices.Contains(strings.Split(allowed, ", "), r.Method):
		w.Header().Set("Allow", allowed)
		v.fail(http.StatusMethodNotAllowed, "Only the form of a page is posted.")
	case ambiguous != "":
		h.refused(r.Context(), principal, ambiguous)
		v.fail(http.StatusForbidden, "This bridge refuses callers whose identity is ambiguous: "+ambiguous+". Ask its operator.")
	case isCallback:
		v.finish()
	case principal == "":
		h.refused(r.Context(), principal, run.PrincipalRequired)
		v.fail(http.StatusForbidden, "Only users whom this bridge knows can connect an account. Sign in as its operator told you, and load this page again.")
	case posted:
		v.act()
	default:
		v.list()
	}
}

// list answers with the page of all sources or of one.
func (v *visit) list() {
	v.page.Sources = v.sources(v.r.Context(), v.principal, v.namespace)
	if v.namespace != "" && len(v.page.Sources) == 0 {
		v.unknown()
		return
	}
	var group panics.Group
	for _, s := range v.page.Sources {
		group.Go(func() { v.look(s, strings.Fields(v.r.URL.Query().Get("scopes"))) })
	}
	group.Wait()
	v.show(http.StatusOK)
}

func (v *visit) unknown() {
	v.fail(http.StatusNotFound, "There is no provider “"+safetext.TrimmedLine(v.namespace, maxShownName)+"” here at which you can connect an account.")
}

// maxForm is the size of the largest form that is read, in bytes.
const maxForm = 32 << 10

// act does what the form of a source's page says.
func (v *visit) act() {
	if sign := v.foreign(); sign != "" {
		v.refused(v.r.Context(), v.principal, "a form of another site ("+sign+")")
		v.fail(http.StatusForbidden, "Nothing was done, since the form does not come from this page ("+sign+").")
		return
	}
	found := v.sources(v.r.Context(), v.principal, v.namespace)
	if len(found) == 0 {
		v.unknown()
		return
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if v.r.ParseForm() != nil {
		v.fail(http.StatusBadRequest, "Nothing was done, since the form can’t be read.")
		return
	}
	if user := v.r.PostForm["user"]; len(user) > 0 && user[0] != v.page.User { // the browser has logged in as another user since it loaded the page
		v.refused(v.r.Context(), v.principal, "a form of the page of another principal")
		v.fail(http.StatusForbidden, "Nothing was done, since you are signed in as another user than the one whose page this was.")
		return
	}
	s := found[0]
	switch v.r.PostForm.Get("do") {
	case "connect":
		v.look(s, strings.Fields(v.r.PostForm.Get("scopes")))
		v.begin(s)
		return
	case "disconnect":
		if err := s.oauth.Disconnect(v.r.Context(), s.authentication, v.principal); err != nil {
			v.fail(http.StatusServiceUnavailable, "The account could not be disconnected. "+v.trouble(s.Namespace, err))
			return
		}
	}
	http.Redirect(v.w, v.r, s.Link, http.StatusSeeOther)
}

// foreign returns what of a posted form may be another site's; empty: it is the page's own.
func (v *visit) foreign() string {
	header := v.r.Header
	origin, _ := url.Parse(header.Get("Origin"))
	origin = cmp.Or(origin, new(url.URL)) // which has no authority
	if from, err := credential.AuthorityOf(origin); err != nil || from != v.origin || origin.Scheme != v.url.Scheme || len(header["Origin"]) != 1 {
		return "Origin"
	}
	if site := header["Sec-Fetch-Site"]; len(site) > 1 || len(site) == 1 && site[0] != "same-origin" {
		return "Sec-Fetch-Site"
	}
	if kind, _, _ := mime.ParseMediaType(header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		return "Content-Type"
	}
	return ""
}
