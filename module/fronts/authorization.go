package fronts

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// wellKnownResource is the path of the metadata of a protected resource (RFC 9728, section 3): below the host, and before the path
// of the resource.
const wellKnownResource = "/.well-known/oauth-protected-resource"

// Authorization tells callers where they get access tokens.
type Authorization struct {
	// paths are those of the mounts that take the tokens; the first is told for the host. None: every path takes them.
	paths   []string
	issuers []string // none: nothing is told
	scopes  []string
	// scheme is the challenge of a handler that authenticates its callers itself; empty: it does not.
	scheme string
}

// Authorization returns what tells callers of the mounts where they get access tokens: of the issuers, whose tokens all mounts take, and for MCP of those that
// its options name.
func (m *Mounts) Authorization(issuers []callers.Issuer, scheme string) *Authorization {
	a := &Authorization{scheme: scheme}
	if m.MCP != nil {
		a.paths, a.issuers, a.scopes = []string{m.MCP.path()}, slices.Clone(m.MCP.AuthorizationServer), m.MCP.Scopes
	}
	for _, i := range issuers {
		if !slices.Contains(a.issuers, i.URL) {
			a.issuers = append(a.issuers, i.URL)
		}
		if len(a.scopes) == 0 && len(issuers) == 1 { // else a client would ask one issuer for the scopes of another
			a.scopes = i.Scopes
		}
	}
	for _, path := range []string{m.RPC.path(), m.A2A.path()} {
		if path != "" && len(issuers) > 0 {
			a.paths = append(a.paths, strings.TrimSuffix(path, "/"))
		}
	}
	return a
}

// Serves reports whether a request is for the metadata.
func (a *Authorization) Serves(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, wellKnownResource)
	return ok && len(a.issuers) > 0 && (rest == "" || rest == "/" || strings.HasPrefix(rest, "/") && a.takes(rest))
}

// takes reports whether a path is of a mount that takes the tokens.
func (a *Authorization) takes(path string) bool {
	return len(a.paths) == 0 || slices.ContainsFunc(a.paths, func(mount string) bool { return path == mount || strings.HasPrefix(path, mount+"/") })
}

// resource returns the path of the resource at a path.
func (a *Authorization) resource(path string) string {
	if len(a.paths) > 0 && !a.takes(path) {
		return a.paths[0]
	}
	return strings.TrimSuffix(path, "/")
}

// Serve answers a request for the metadata.
func (a *Authorization) Serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", "*") // clients in browsers read it, too
	if !front.IsRead(w, r, "The metadata is read with GET.") {
		return
	}
	base, ok := quotable(r)
	if !ok {
		header.Set("Cache-Control", "no-store")
		http.Error(w, "The Host of the request can't be part of a URL.", http.StatusBadRequest)
		return
	}
	var text front.Writer
	text.Open()
	text.Text("resource", base.JoinPath(a.resource(strings.TrimPrefix(r.URL.Path, wellKnownResource))).String())
	text.Texts("authorization_servers", a.issuers)
	if len(a.scopes) > 0 {
		text.Texts("scopes_supported", a.scopes)
	}
	text.Texts("bearer_methods_supported", []string{"header"})
	text.Close()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "max-age=300")
	_, _ = w.Write(text.Buf) // an error would mean that the client is gone
}

// challenge returns the WWW-Authenticate field for callers that have to authenticate (RFC 9728, section 5.1); empty: there is none.
func (a *Authorization) challenge(r *http.Request) string {
	if len(a.issuers) == 0 {
		return a.scheme
	}
	return strings.TrimSpace("Bearer " + strings.TrimPrefix(a.Parameters(r, nil), ", "))
}

// Parameters returns the parameters of a challenge that tell the caller of a request where to get a token and with which scopes, each after a comma.
// No scopes: those of the metadata.
func (a *Authorization) Parameters(r *http.Request, scopes []string) (field string) {
	if len(scopes) == 0 {
		scopes = a.scopes
	}
	if base, ok := quotable(r); ok && len(a.issuers) > 0 {
		field = `, resource_metadata="` + base.JoinPath(wellKnownResource, a.resource(r.URL.Path)).String() + `"`
	}
	if len(scopes) > 0 {
		field += `, scope="` + strings.Join(scopes, " ") + `"`
	}
	return field
}

// quotable returns the URL of the handler, unless the host of the request can't be part of a URL or of a quoted text.
func quotable(r *http.Request) (*url.URL, bool) {
	base := baseOf(r)
	parsed, err := url.Parse(base.String())
	return &base, err == nil && parsed.Host == base.Host && base.Host != "" && parsed.RawQuery == "" && !strings.ContainsAny(base.Host, `"\<>`)
}
