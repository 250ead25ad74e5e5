package credentials

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func init() { caddy.RegisterModule(Headers{}) }

// Headers sends fixed headers with every request. It supports skills whose
// `auth.type` is `custom` (Skill Sharing Protocol, section 7.2.3), and requests
// for indexes and descriptors.
type Headers struct {
	// Header names and their values. Placeholders such as `{env.NAME}` and
	// `{file./path}` in values are replaced when the configuration loads, and
	// files are read again after the provider has answered 401; values without a
	// placeholder cause a warning.
	Headers map[string]string `json:"headers"`

	fixed[map[string]string] `json:"-"` // by canonical name
}

// CaddyModule returns the Caddy module information.
func (Headers) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.skill_bridge.credentials.headers", New: func() caddy.Module { return new(Headers) }}
}

// Provision resolves the values.
func (h *Headers) Provision(ctx caddy.Context) error {
	return h.provision(ctx, h, h.resolve)
}

// resolve replaces the placeholders of the values.
func (h *Headers) resolve(r *resolver) (map[string]string, error) {
	resolved := make(map[string]string, len(h.Headers))
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		value, err := r.headerSecret(name, h.Headers[name])
		if err != nil {
			return nil, err
		}
		resolved[http.CanonicalHeaderKey(name)] = value
	}
	if _, credentials, ok := strings.Cut(resolved["Authorization"], " "); ok { // even if shorter than minPart
		r.keep(credentials)
	}
	return resolved, nil
}

// check checks the headers before placeholders are replaced.
func (h *Headers) check(c *options.Checker) {
	if len(h.Headers) == 0 {
		c.Check("headers", errors.New("at least one is needed"))
	}
	seen := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		var err error
		canonical := http.CanonicalHeaderKey(name)
		switch value := h.Headers[name]; {
		case name == "":
			err = errors.New("a header's name is missing")
		case seen[canonical]:
			err = fmt.Errorf("header %s is written twice", canonical)
		case value == "":
			err = errors.New("the value is missing")
		default:
			err = cmp.Or(checkHeaderName(name), checkHeaderText(value), checkShell(value))
		}
		c.Check("headers."+name, err)
		seen[canonical] = true
	}
}

// Supports implements [credential.Credentials].
func (*Headers) Supports(auth *document.Auth) bool {
	return auth == nil || auth.Type == document.AuthCustom
}

// Authenticate sets the headers.
func (h *Headers) Authenticate(_ context.Context, a *credential.Authentication) error {
	for name, value := range h.get() {
		a.Request.Header.Set(name, value)
	}
	return nil
}

// Advice implements [credential.Advisor].
func (*Headers) Advice() string { return "check the values of headers" }
