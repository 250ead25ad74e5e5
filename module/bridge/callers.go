package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"unicode"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// Callers say who may call the bridge, and as which principal.
type Callers struct {
	// One placeholder with the identity of the caller; a caller for whom it is empty is
	// anonymous. Every run belongs to the principal that started it, so use nothing that a
	// client can set: with `forward_auth`, a header only if `copy_headers` sets it.
	// Default: `{http.auth.user.id}`, which Caddy's `basic_auth` sets.
	// Example: `{http.request.header.Remote-User}`.
	Principal string `json:"principal,omitempty"`

	// A file with the keys of callers, instead of `principal`. Each line has a principal and
	// the SHA-256 of a key in hexadecimal, separated by spaces; after `#` there may be a
	// comment. A principal may have several keys. A caller with a key, which is sent as
	// `Authorization: Bearer <key>`, is its principal; any other key, and a call without one
	// unless `allow_anonymous` is set, is answered with HTTP status 401. The file is read
	// again when it has changed, at most once a second; if it then has a wrong line, the
	// earlier keys remain valid and an error is logged. Anyone who can read the file can try
	// to guess keys, so keys have to be random; `caddy skill-bridge hash-key` makes them. Global
	// placeholders such as `{env.CREDENTIALS_DIRECTORY}` are resolved. Example: `/etc/caddy/callers`.
	CallersFile string `json:"callers_file,omitempty"`

	// Answer callers without a principal with AUTH_REQUIRED. Either this or
	// `allow_anonymous` is needed if any credentials are configured, except in providers,
	// skills, registries and sites with their own `require_principal`. Default: false.
	RequirePrincipal bool `json:"require_principal,omitempty"`

	// Let all callers use the credentials configured in the handler, except those of
	// providers, skills, registries and sites with `require_principal`. Use it only where something
	// else restricts who can reach the handler. Default: false.
	AllowAnonymous bool `json:"allow_anonymous,omitempty"`

	// Which callers may use which skills. Default: all callers may use all skills that lists
	// show them. Example: `{"rules": [{"effect": "allow", "principal": "alice", "skills": ["acme.*"]}]}`.
	Access *Access `json:"access,omitempty"`

	// How much each caller may use skills. All quotas that apply bind. Default: no bounds.
	// Example: `[{"principal": "*", "rate": {"count": 60, "per": "1m"}, "concurrent": 4}]`.
	Quotas []Quota `json:"quotas,omitempty"`

	keys    *callers.File                                                        // nil: there is no callers_file
	refused func(ctx context.Context, caller run.Caller, reason, message string) // reports a caller without a key of the file
}

const defaultPrincipal = "{http.auth.user.id}"

// check checks the options about callers.
func (c *Callers) check(k *options.Checker) {
	if c.Principal != "" {
		k.Check("principal", checkPrincipal(c.Principal))
	}
	if c.CallersFile != "" && c.Principal != "" {
		k.Check("callers_file", errors.New("principal and callers_file exclude each other: the keys in the file say who the caller is"))
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

// requires reports whether callers without a principal are refused.
func (c *Callers) requires() bool {
	return c.RequirePrincipal || c.CallersFile != "" && !c.AllowAnonymous
}

// placeholder returns what says who the caller is: the placeholder whose value is the principal, or callers_file. The path of the
// file does not belong to it: run tokens remain valid if the file is moved.
func (c *Callers) placeholder() string {
	if c.CallersFile != "" {
		return "callers_file"
	}
	return cmp.Or(c.Principal, defaultPrincipal)
}

// principalOf returns the caller's principal, which an earlier handler has set; it is empty
// for an anonymous caller. For a value that could be mistaken for another principal,
// principalOf returns only the reason.
func (c *Callers) principalOf(r *http.Request) (principal, ambiguous string) {
	return principalBy(r, c.placeholder())
}

// principalBy returns the principal that a text with placeholders says. A caller for whom one of them is empty is anonymous.
func principalBy(r *http.Request, text string) (principal, ambiguous string) {
	replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return "", ""
	}
	if text == defaultPrincipal {
		if principal, _ = replacer.GetString("http.auth.user.id"); !canBePrincipal(principal) { // the same as ReplaceFunc, but faster
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
		case !canBePrincipal(part):
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

// canBePrincipal reports whether a text could not be mistaken for another principal.
func canBePrincipal(text string) bool {
	return strings.TrimFunc(text, isInvisible) == text && !strings.ContainsFunc(text, unicode.IsControl)
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

// bearerChallenge is the WWW-Authenticate field for callers without a key of callers_file (RFC 6750, section 3).
const bearerChallenge = `Bearer realm="skill-bridge"` //nolint:gosec // no credential, but how callers authenticate

// noKey is why a request is refused that has no key of callers_file.
type noKey struct {
	reason    string // for the operator
	message   string // for the caller
	challenge string
}

var (
	keyRequired = &noKey{
		run.KeyRequired,
		"This bridge answers callers with a key only: send it with each request in the header field Authorization: Bearer <key>. Its operator gives you the key.",
		bearerChallenge,
	}
	unknownKey = &noKey{
		run.UnknownKey,
		front.UnknownKey,
		bearerChallenge + `, error="invalid_token"`,
	}
)

// openKeys reads callers_file, if there is one.
func (c *Callers) openKeys(logger *zap.Logger) error {
	if c.CallersFile == "" {
		return nil
	}
	path, err := credentials.Text(c.CallersFile)
	if err == nil {
		c.keys, err = callers.Open(path, logger)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; make it with caddy skill-bridge hash-key", err)
	}
	if err != nil {
		return &options.ConfigError{Path: "callers_file", Err: err}
	}
	return nil
}

// challenge returns the WWW-Authenticate field for callers; empty: something in front of the handler authenticates them.
func (c *Callers) challenge() string {
	if c.CallersFile == "" {
		return ""
	}
	return bearerChallenge
}

// authenticate returns the principal of a request by its key, or why the request is refused. Only POST requests need a key: others are
// for documents that anyone may read, or for the page, which refuses callers itself.
func (c *Callers) authenticate(r *http.Request) (principal string, refused *noKey) {
	principal, sent := c.keys.Authenticate(r.Header)
	switch {
	case principal != "":
		if replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
			replacer.Set("http.auth.user.id", principal) // for the access log, as authentication handlers do
		}
	case sent:
		return "", unknownKey
	case r.Method == http.MethodPost && c.requires():
		return "", keyRequired
	}
	return principal, nil
}

// refuse answers a request without a key of callers_file. Its body is not read, so that its method is not known.
func (h *Handler) refuse(ctx context.Context, w http.ResponseWriter, r *http.Request, caller run.Caller, why *noKey, toAgent, toTools bool) {
	caller.Front = skillsprotocol.Name
	answer := h.server.Refuse
	switch {
	case toTools:
		caller.Front, answer = mcp.Name, h.tools.Refuse
	case toAgent:
		caller.Front, answer = a2a.Name, h.agent.Refuse
	}
	h.refused(ctx, caller, why.reason, why.message)
	answer(ctx, w, r, http.StatusUnauthorized, why.message, "WWW-Authenticate", why.challenge)
}
