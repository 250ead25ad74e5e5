package demo

import (
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const maxTokenRequest = 16 << 10 // bytes

// An oauthError is the error answer of RFC 6749, section 5.2.
type oauthError struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
}

// serveToken is the token endpoint for the client credentials grant (RFC 6749,
// section 4.4). A request without a scope is granted all of them.
func (h *Handler) serveToken(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Pragma", "no-cache")
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return writeJSON(w, http.StatusMethodNotAllowed, oauthError{"invalid_request", "the token endpoint takes POST"})
	}
	form, refusal := tokenForm(w, r)
	if refusal != nil {
		return writeJSON(w, http.StatusBadRequest, refusal)
	}
	client, refusal := h.authenticateClient(r, form)
	if refusal != nil && refusal.Code == "invalid_client" {
		w.Header().Set("WWW-Authenticate", `Basic realm="skill-bridge-demo"`)
		return writeJSON(w, http.StatusUnauthorized, refusal)
	}
	if refusal != nil {
		return writeJSON(w, http.StatusBadRequest, refusal)
	}
	scopes, refusal := grantedScopes(form)
	if refusal != nil {
		return writeJSON(w, http.StatusBadRequest, refusal)
	}
	return writeJSON(w, http.StatusOK, struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int    `json:"expires_in"`
		Scope       string `json:"scope"`
	}{h.state.tokens.issue(client, scopes), "Bearer", int(tokenLifetime.Seconds()), strings.Join(scopes, " ")})
}

// tokenForm reads the parameters, which must be in the body and may not be
// repeated (RFC 6749, section 3.2).
func tokenForm(w http.ResponseWriter, r *http.Request) (url.Values, *oauthError) {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/x-www-form-urlencoded" {
		return nil, &oauthError{"invalid_request", "the body must be application/x-www-form-urlencoded"}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxTokenRequest)
	if err := r.ParseForm(); err != nil {
		return nil, &oauthError{"invalid_request", "the body is not a form of at most 16 KiB"}
	}
	for name, values := range r.PostForm {
		if len(values) > 1 {
			return nil, &oauthError{"invalid_request", "a parameter is repeated: " + printable(name)}
		}
	}
	return r.PostForm, nil
}

// authenticateClient takes client_secret_basic or client_secret_post, not
// both (RFC 6749, section 2.3).
func (h *Handler) authenticateClient(r *http.Request, form url.Values) (string, *oauthError) {
	failed := &oauthError{"invalid_client", "the client is unknown or its secret is wrong"}

	id, secret := form.Get("client_id"), form.Get("client_secret")
	if r.Header.Get("Authorization") != "" {
		if form.Has("client_secret") {
			return "", &oauthError{"invalid_request", "the client authenticates in two ways at once"}
		}
		basicID, basicSecret, ok := r.BasicAuth()
		if !ok {
			return "", failed
		}
		// both are form-encoded before they are joined (RFC 6749, section 2.3.1)
		var err error
		if id, err = url.QueryUnescape(basicID); err != nil {
			return "", failed
		}
		if secret, err = url.QueryUnescape(basicSecret); err != nil {
			return "", failed
		}
	}
	want, known := h.clients[id]
	if !want.matches(secret) || !known {
		return "", failed
	}
	return id, nil
}

func grantedScopes(form url.Values) ([]string, *oauthError) {
	switch form.Get("grant_type") {
	case "client_credentials":
	case "":
		return nil, &oauthError{"invalid_request", "grant_type is missing"}
	default:
		return nil, &oauthError{"unsupported_grant_type", "this server grants client_credentials only"}
	}
	offered := []string{scopeRun, scopeRead}
	asked := strings.Fields(form.Get("scope"))
	if len(asked) == 0 {
		return offered, nil
	}
	slices.Sort(asked)
	asked = slices.Compact(asked)
	for _, scope := range asked {
		if !slices.Contains(offered, scope) {
			return nil, &oauthError{"invalid_scope", "unknown scope: " + printable(scope)}
		}
	}
	return asked, nil
}

// printable keeps to the characters that error_description allows.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '?'
		}
		return r
	}, s)
}

// serveAuthorize stands at the authorization_url that a descriptor with
// OAuth 2.0 must name (section 3.5.5). Only client credentials are granted,
// for which nobody has to be sent here.
func serveAuthorize(w http.ResponseWriter, _ *http.Request) error {
	http.Error(w, "This provider grants OAuth 2.0 client credentials only: POST to /token instead.", http.StatusBadRequest)
	return nil
}
