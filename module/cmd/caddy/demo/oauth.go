package demo

import (
	"net/http"
	"net/url"
	"time"
)

const maxTokenRequest = 16 << 10 // bytes

// serveToken is the token endpoint for the client credentials grant (RFC 6749,
// section 4.4).
func (h *Handler) serveToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Pragma", "no-cache")
	r.Body = http.MaxBytesReader(w, r.Body, maxTokenRequest)
	err := r.ParseForm()
	form := r.PostForm
	switch scope := form.Get("scope"); {
	case err != nil || form.Get("grant_type") == "":
		refuseToken(w, http.StatusBadRequest, "invalid_request", "the body is not a form of at most 16 KiB with a grant_type")
	case form.Get("grant_type") != "client_credentials":
		refuseToken(w, http.StatusBadRequest, "unsupported_grant_type", "this server grants client_credentials only")
	case !h.isClient(r):
		w.Header().Set("WWW-Authenticate", `Basic realm="skill-bridge-demo"`)
		refuseToken(w, http.StatusUnauthorized, "invalid_client", "the client is unknown or its secret is wrong")
	case scope != "" && scope != scopeRun:
		refuseToken(w, http.StatusBadRequest, "invalid_scope", "the only scope is "+scopeRun)
	default:
		writeJSON(w, http.StatusOK, object{
			"access_token": h.client.token(time.Now().Add(tokenLifetime)), "token_type": "Bearer",
			"expires_in": int(tokenLifetime.Seconds()), "scope": scopeRun,
		})
	}
}

// refuseToken sends the error answer of RFC 6749, section 5.2.
func refuseToken(w http.ResponseWriter, status int, code, description string) {
	writeJSON(w, status, object{"error": code, "error_description": description})
}

// isClient checks client_secret_basic and client_secret_post (RFC 6749, section 2.3.1).
func (h *Handler) isClient(r *http.Request) bool {
	id, sent := r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	if basicID, basicSecret, ok := r.BasicAuth(); ok {
		// Both are form-encoded. Invalid encoding gives an empty text, which is refused.
		id, _ = url.QueryUnescape(basicID)
		sent, _ = url.QueryUnescape(basicSecret)
	}
	return id == h.Client.ID && h.client.matches(sent)
}
