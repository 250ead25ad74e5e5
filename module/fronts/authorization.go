package fronts

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// wellKnownResource is the path of the metadata of a protected resource (RFC 9728, section 3): below the host, and before the path
// of the resource.
const wellKnownResource = "/.well-known/oauth-protected-resource"

// authorization tells clients of MCP where they get access tokens. The zero value tells nothing.
type authorization struct {
	path    string // of the mount
	issuers []string
	scopes  []string
	// scheme is the challenge of a handler that authenticates its callers itself; empty: it does not.
	scheme string
}

// authorization returns what clients are told.
func (m *MCP) authorization() authorization {
	return authorization{path: m.path(), issuers: slices.Clone(m.AuthorizationServer), scopes: slices.Clone(m.Scopes)}
}

// checkAuthorization checks the options for authorization.
func (m *MCP) checkAuthorization(c *options.Checker) {
	for i, text := range m.AuthorizationServer {
		err := checkURL("authorization_server", text)
		if u, _ := url.Parse(text); err == nil && u.RawQuery != "" { // RFC 8414, section 2
			err = fmt.Errorf("authorization_server %q has a query, which issuers have not", text)
		}
		c.Check(options.Element("mcp.authorization_server", i), err)
	}
	if len(m.Scopes) > 0 && len(m.AuthorizationServer) == 0 {
		c.Check("mcp.scopes", errors.New("scopes need an authorization_server that grants them"))
	}
	for i, scope := range m.Scopes {
		if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) { // RFC 6749, section 3.3
			c.Check(options.Element("mcp.scopes", i), fmt.Errorf("scope %q has a character that scopes can't have", scope))
		}
	}
}

// serves reports whether a path is one of the metadata.
func (a *authorization) serves(path string) bool {
	rest, ok := strings.CutPrefix(path, wellKnownResource)
	return ok && len(a.issuers) > 0 && (rest == "" || rest == "/" || strings.TrimSuffix(rest, "/") == a.path)
}

// serve answers a request for the metadata.
func (a *authorization) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", "*") // clients in browsers read it, too
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		header.Set("Access-Control-Allow-Methods", "GET, HEAD")
		header.Set("Access-Control-Allow-Headers", "*")
		w.WriteHeader(http.StatusNoContent)
		return
	default:
		header.Set("Allow", "GET, HEAD, OPTIONS")
		http.Error(w, "The metadata is read with GET.", http.StatusMethodNotAllowed)
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
	text.Text("resource", base.JoinPath(a.path).String())
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
func (a *authorization) challenge(r *http.Request) string {
	if len(a.issuers) == 0 {
		return a.scheme
	}
	base, ok := quotable(r)
	if !ok {
		return "Bearer"
	}
	field := `Bearer resource_metadata="` + base.JoinPath(wellKnownResource, a.path).String() + `"`
	if len(a.scopes) > 0 {
		field += `, scope="` + strings.Join(a.scopes, " ") + `"`
	}
	return field
}

// quotable returns the URL of the handler, unless the host of the request can't be part of a URL or of a quoted text.
func quotable(r *http.Request) (*url.URL, bool) {
	base := baseOf(r)
	parsed, err := url.Parse(base.String())
	return &base, err == nil && parsed.Host == base.Host && base.Host != "" && parsed.RawQuery == "" && !strings.ContainsAny(base.Host, `"\<>`)
}
