package demo

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
)

const keyHeader = "X-API-Key" // as the specification writes it

// The scopes a token can have.
const (
	scopeRun  = "diff:run"
	scopeRead = "diff:read"
)

// A protection says what a skill asks of its callers (section 7.2).
type protection string

const (
	unprotected protection = "none"
	byAPIKey    protection = "api_key"
	byOAuth     protection = "oauth2"
)

// A digest stands for a secret. Digests have one length, so comparing them
// takes the same time however much of the secret was guessed.
type digest [sha256.Size]byte

func digestOf(secret string) digest { return sha256.Sum256([]byte(secret)) }

func (d digest) matches(secret string) bool {
	other := digestOf(secret)
	return subtle.ConstantTimeCompare(d[:], other[:]) == 1
}

// admit says who sends the request, or what its sender lacks. For a skill
// behind OAuth 2.0 the token needs one of the scopes. The owner is empty for
// a public skill, whose runs belong to whoever knows their id.
func (h *Handler) admit(r *http.Request, by protection, scopes ...string) (owner string, lacking *problem) {
	switch by {
	case byAPIKey:
		if !h.hasAPIKey(r) {
			return "", h.keyRequired()
		}
		return "api_key", nil
	case byOAuth:
		return h.admitToken(r, scopes)
	default:
		return "", nil
	}
}

func (h *Handler) hasAPIKey(r *http.Request) bool {
	return h.apiKey.matches(sentKey(r))
}

func sentKey(r *http.Request) string {
	return r.Header.Get(keyHeader) //nolint:canonicalheader // Get makes it canonical
}

func (h *Handler) keyRequired() *problem {
	return &problem{
		status:    http.StatusUnauthorized,
		code:      codeAuth,
		message:   "A valid API key is required in the " + keyHeader + " header",
		details:   map[string]string{"required_auth_type": string(byAPIKey), "header": keyHeader},
		retry:     &retry{MaxAttempts: 1},
		challenge: `ApiKey realm="skill-bridge-demo"`,
	}
}

func (h *Handler) admitToken(r *http.Request, scopes []string) (string, *problem) {
	const realm = `Bearer realm="skill-bridge-demo"`

	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", h.tokenRequired("Authentication is required to invoke this skill", realm)
	}
	granted, ok := h.state.tokens.lookUp(strings.TrimSpace(token))
	if !ok {
		return "", h.tokenRequired("The access token is unknown or has expired", realm+`, error="invalid_token"`)
	}
	if !slices.ContainsFunc(scopes, func(s string) bool { return slices.Contains(granted.scopes, s) }) {
		return "", &problem{
			status:  http.StatusForbidden,
			code:    codePermission,
			message: "Insufficient permissions to invoke this skill",
			details: map[string][]string{"required_scopes": scopes, "granted_scopes": granted.scopes},
			// RFC 6750, section 3.1
			challenge: realm + `, error="insufficient_scope", scope="` + strings.Join(scopes, " ") + `"`,
		}
	}
	return granted.client, nil
}

func (h *Handler) tokenRequired(message, challenge string) *problem {
	return &problem{
		status:  http.StatusUnauthorized,
		code:    codeAuth,
		message: message,
		details: map[string]any{
			"required_auth_type": string(byOAuth),
			"authorization_url":  h.Origin + "/authorize",
			"token_url":          h.Origin + "/token",
			"scopes":             []string{scopeRun},
		},
		retry:     &retry{MaxAttempts: 1},
		challenge: challenge,
	}
}
