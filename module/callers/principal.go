package callers

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// DefaultPrincipal is the placeholder for the user whom Caddy's authentication handlers have established.
const DefaultPrincipal = "{http.auth.user.id}"

// CheckPlaceholder checks that the text of an option is one placeholder and nothing else. With text around it, an anonymous caller would have a principal.
func CheckPlaceholder(option, text string) error {
	name, isPlaceholder := strings.CutPrefix(text, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !isPlaceholder || !closed || name == "" || strings.ContainsAny(name, "{}") {
		return fmt.Errorf("%s %q has to be one placeholder, such as %s", option, text, DefaultPrincipal)
	}
	return nil
}

// PrincipalBy returns the principal that a text with placeholders says. A caller for whom one of them is empty is anonymous.
func PrincipalBy(r *http.Request, text string) (principal, ambiguous string) {
	replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return "", ""
	}
	if text == DefaultPrincipal {
		if principal, _ = replacer.GetString("http.auth.user.id"); !CanBePrincipal(principal) { // the same as ReplaceFunc, but faster
			return "", run.AmbiguousPrincipal
		}
		return principal, ""
	}
	anonymous := false
	principal, err := replacer.ReplaceFunc(text, func(name string, value any) (any, error) {
		part := caddy.ToString(value)
		header, isHeader := strings.CutPrefix(name, "http.request.header.")
		switch lines := r.Header[http.CanonicalHeaderKey(header)]; {
		case isHeader && strings.Trim(part, ",") == "":
			part = "" // several lines, all empty
		case isHeader && strings.Contains(part, ",") && (len(lines) > 1 || isJoined(part)):
			ambiguous = run.SeveralPrincipals
		case !CanBePrincipal(part):
			ambiguous = run.AmbiguousPrincipal
		}
		anonymous = anonymous || part == ""
		return part, nil
	})
	if anonymous || err != nil || ambiguous != "" {
		return "", ambiguous
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
