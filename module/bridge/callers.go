package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Callers say who may call the bridge, and as which principal.
type Callers struct {
	// One placeholder with the identity of the caller; a caller for whom it is empty is
	// anonymous. Every run belongs to the principal that started it, so use nothing that a
	// client can set: with `forward_auth`, a header only if `copy_headers` sets it.
	// Default: `{http.auth.user.id}`, which Caddy's `basic_auth` sets.
	// Example: `{http.request.header.Remote-User}`.
	Principal string `json:"principal,omitempty"`

	// Answer callers without a principal with AUTH_REQUIRED. Either this or
	// `allow_anonymous` is needed if any credentials are configured, except in providers,
	// skills and registries with their own `require_principal`. Default: false.
	RequirePrincipal bool `json:"require_principal,omitempty"`

	// Let all callers use the credentials configured in the handler, except those of
	// providers, skills and registries with `require_principal`. Use it only where something
	// else restricts who can reach the handler. Default: false.
	AllowAnonymous bool `json:"allow_anonymous,omitempty"`
}

const defaultPrincipal = "{http.auth.user.id}"

// check checks the options about callers.
func (c *Callers) check(k *options.Checker) {
	if c.Principal != "" {
		k.Check("principal", checkPrincipal(c.Principal))
	}
	if c.RequirePrincipal && c.AllowAnonymous {
		k.Check("allow_anonymous", errors.New("require_principal and allow_anonymous exclude each other"))
	}
}

// checkPrincipal checks that a principal is one placeholder and nothing else. With text
// around it, an anonymous caller would have a principal.
func checkPrincipal(text string) error {
	name, isPlaceholder := strings.CutPrefix(text, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !isPlaceholder || !closed || name == "" || strings.ContainsAny(name, "{}") {
		return fmt.Errorf("principal %q has to be one placeholder, such as %s", text, defaultPrincipal)
	}
	return nil
}

// placeholder returns the placeholder whose value is the caller's principal.
func (c *Callers) placeholder() string { return cmp.Or(c.Principal, defaultPrincipal) }

// principalOf returns the caller's principal, which an earlier handler has set; it is empty
// for an anonymous caller. For a value that could be mistaken for another principal,
// principalOf returns only the reason.
func (c *Callers) principalOf(r *http.Request) (principal, ambiguous string) {
	placeholder := c.placeholder()
	replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return "", ""
	}
	if placeholder == defaultPrincipal {
		principal, _ = replacer.GetString("http.auth.user.id") // the same as ReplaceAll, but faster
	} else {
		principal = replacer.ReplaceAll(placeholder, "")
	}
	if name, ok := strings.CutPrefix(placeholder, "{http.request.header."); ok && strings.Contains(principal, ",") {
		switch lines := r.Header[http.CanonicalHeaderKey(strings.TrimSuffix(name, "}"))]; {
		case strings.Trim(principal, ",") == "":
			return "", "" // several lines, all empty
		case len(lines) > 1 || isJoined(principal):
			return "", run.SeveralPrincipals
		}
	}
	if strings.TrimFunc(principal, isInvisible) != principal || strings.ContainsFunc(principal, unicode.IsControl) {
		return "", run.AmbiguousPrincipal
	}
	return principal, ""
}

// isJoined reports whether a header's value looks like several values that Caddy has joined by commas without spaces, as
// forward_auth does. In distinguished names (RFC 4514), such commas separate the parts of one value.
func isJoined(value string) bool {
	first, rest, _ := strings.Cut(value, ",")
	if strings.Contains(first, "=") {
		return false
	}
	for part := range strings.SplitSeq(rest, ",") {
		if !strings.HasPrefix(part, " ") {
			return true
		}
	}
	return false
}

// isInvisible reports whether a character at the beginning or the end of a principal
// can't be seen: any kind of space, or a formatting character.
func isInvisible(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }
