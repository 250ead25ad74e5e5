package bridge

import (
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Callers are who may call, and as whom.
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

// check checks who may call, and as whom.
func (p *Callers) check(c *checker) {
	if p.Principal != "" {
		c.check("principal", checkPrincipal(p.Principal))
	}
	if p.RequirePrincipal && p.AllowAnonymous {
		c.check("allow_anonymous", errors.New("require_principal and allow_anonymous exclude each other"))
	}
}

// checkSecrets checks that it is configured who may use a secret: in the provider, skill
// or registry that has it, or in the handler.
func (p *Callers) checkSecrets(credentials json.RawMessage, requirePrincipal bool) error {
	switch {
	case len(credentials) == 0:
		return nil
	case !jsontext.Value(credentials).IsValid():
		return errors.New("credentials are not valid JSON, or have the same member twice")
	case !requirePrincipal && !p.RequirePrincipal && !p.AllowAnonymous:
		return errors.New("credentials need require_principal, here or for the whole bridge " +
			"(only callers who have proved who they are may use them), or allow_anonymous for the whole bridge (everyone who reaches it may)")
	}
	return nil
}

// checkPrincipal checks that a principal is one placeholder and nothing else. Any
// text around it would make a principal of those who have none.
func checkPrincipal(text string) error {
	name, isPlaceholder := strings.CutPrefix(text, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !isPlaceholder || !closed || name == "" || strings.ContainsAny(name, "{}") {
		return fmt.Errorf("principal %q has to be one placeholder, such as %s", text, defaultPrincipal)
	}
	return nil
}
