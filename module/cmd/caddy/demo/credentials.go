package demo

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	scopeRun      = "diff:run"
	tokenLifetime = 10 * time.Minute
)

// A protection is the authentication type of a skill (section 7.2).
type protection string

const (
	byAPIKey protection = "api_key"
	byOAuth  protection = "oauth2"
)

// A secret is an API key or a client secret.
type secret string

func (s secret) matches(sent string) bool {
	return subtle.ConstantTimeCompare([]byte(s), []byte(sent)) == 1
}

// token returns an access token: its expiry time, signed with the client's secret. So the provider
// stores no tokens.
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

// admit reports whether a request is authenticated for a skill. If not, it sends an error.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request, s *skill) bool {
	const realm = ` realm="skill-bridge-demo"`
	details := object{"required_auth_type": s.descriptor.Auth.Type}
	var challenge, message string
	switch s.descriptor.Auth.Type {
	case byAPIKey:
		header := s.descriptor.Auth.Header
		if h.apiKey.matches(r.Header.Get(header)) {
			return true
		}
		challenge, message = "ApiKey"+realm, "A valid API key is required in the "+header+" header"
		details["header"] = header
	case byOAuth:
		scheme, token, sent := strings.Cut(r.Header.Get("Authorization"), " ")
		if strings.EqualFold(scheme, "Bearer") && h.client.accepts(strings.TrimSpace(token), time.Now()) {
			return true
		}
		challenge, message = "Bearer"+realm, "Authentication is required to invoke this skill"
		if sent {
			challenge, message = challenge+`, error="invalid_token"`, "The access token is unknown or has expired"
		}
		details["authorization_url"], details["token_url"] = h.Origin+"/authorize", h.Origin+"/token"
		details["scopes"] = []string{scopeRun}
	default:
		return true
	}
	w.Header().Set("WWW-Authenticate", challenge) // required for 401 (RFC 9110, section 15.5.2)
	refuse(w, http.StatusUnauthorized, runError{Code: codeAuth, Message: message, Details: details, Retry: &retry{MaxAttempts: 1}})
	return false
}
