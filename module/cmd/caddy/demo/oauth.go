package demo

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	codeAuth        = "AUTH_REQUIRED"
	scopeRun        = "diff:run"
	tokenLifetime   = 10 * time.Minute
	maxTokenRequest = 16 << 10 // bytes
)

// A secret is an API key or a client secret.
type secret string

func (s secret) matches(sent string) bool {
	return subtle.ConstantTimeCompare([]byte(s), []byte(sent)) == 1
}

// token returns an access token: its expiry time, signed with the client's secret. So the API stores no tokens.
func (s secret) token(expires time.Time) string {
	text := strconv.FormatInt(expires.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(s))
	mac.Write([]byte(text))
	return text + "." + hex.EncodeToString(mac.Sum(nil))
}

// accepts reports whether token made a token, which has not expired.
func (s secret) accepts(token string, now time.Time) bool {
	text, _, _ := strings.Cut(token, ".")
	seconds, err := strconv.ParseInt(text, 10, 64)
	expires := time.Unix(seconds, 0)
	return err == nil && now.Before(expires) && secret(s.token(expires)).matches(token)
}

// withKey lets those who send the API key use an operation.
func (h *Handler) withKey(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !h.apiKey.matches(r.Header.Get("X-Api-Key")) {
			unauthorized(w, "ApiKey"+realm, "A valid API key is required in the X-API-Key header")
			return
		}
		next(w, r)
	}
}

// withToken lets those who send an access token use an operation.
func (h *Handler) withToken(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token, sent := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case sent && h.client.accepts(token, time.Now()):
			next(w, r)
		case sent:
			unauthorized(w, "Bearer"+realm+`, error="invalid_token"`, "The access token is unknown or has expired")
		default:
			unauthorized(w, "Bearer"+realm, "Authentication is required to invoke this skill")
		}
	}
}

const realm = ` realm="skill-bridge-demo"`

func unauthorized(w http.ResponseWriter, challenge, message string) {
	w.Header().Set("WWW-Authenticate", challenge)
	refuse(w, http.StatusUnauthorized, failure{Code: codeAuth, Message: message})
}

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
		w.Header().Set("WWW-Authenticate", "Basic"+realm)
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
