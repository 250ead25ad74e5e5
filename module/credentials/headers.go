package credentials

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

func init() { caddy.RegisterModule(Headers{}) }

// Headers sends fixed headers with every request. It suits skills whose
// `auth.type` is `custom` (Skill Sharing Protocol, section 7.2.3), and the
// reading of indexes and descriptors.
type Headers struct {
	// Header names and their values. Placeholders such as `{env.NAME}` and
	// `{file./path}` in values are replaced when the configuration loads;
	// values without any work, with a warning.
	Headers map[string]string `json:"headers"`

	resolved sealed[map[string]string] // by canonical name
	secrets  sealed[[]string]
}

// CaddyModule returns the Caddy module information.
func (Headers) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.skill_bridge.credentials.headers",
		New: func() caddy.Module { return new(Headers) },
	}
}

// Provision resolves the values.
func (h *Headers) Provision(ctx caddy.Context) error {
	if len(h.Headers) == 0 {
		return errors.New("headers: at least one is needed")
	}
	r := newResolver()
	resolved := make(map[string]string, len(h.Headers))
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		if err := checkCredentialHeader(name); err != nil {
			return err
		}
		canonical := http.CanonicalHeaderKey(name)
		if _, ok := resolved[canonical]; ok {
			return fmt.Errorf("header %s is written twice", canonical)
		}
		value, err := r.secret(name, h.Headers[name])
		if err != nil {
			return err
		}
		if value == "" {
			return fmt.Errorf("%s: the value is missing", name)
		}
		if err := checkHeaderValue(name, value); err != nil {
			return err
		}
		resolved[canonical] = value
	}
	if _, credentials, ok := strings.Cut(resolved["Authorization"], " "); ok { // whatever its length
		r.keep(credentials)
	}
	h.resolved, h.secrets = seal(resolved), seal(r.secrets)
	r.warn(logger(ctx))
	return nil
}

// checkCredentialHeader is [checkHeaderName] for names that have no default.
func checkCredentialHeader(name string) error {
	if name == "" {
		return errors.New("a header's name is missing")
	}
	return checkHeaderName(name)
}

// Suits implements [skillsharing.Credentials].
func (*Headers) Suits(auth *skillsharing.Auth) bool {
	return auth == nil || auth.Type == skillsharing.AuthCustom
}

// Authenticate sets the headers.
func (h *Headers) Authenticate(_ context.Context, a *skillsharing.Authentication) error {
	for name, value := range h.resolved() {
		a.Request.Header.Set(name, value)
	}
	return nil
}

// Secrets returns the values, and their parts that others may repeat by themselves.
func (h *Headers) Secrets() []string { return slices.Clone(h.secrets()) }

// UnmarshalCaddyfile reads
//
//	headers {
//		<name> <value>
//	}
func (h *Headers) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if err := head(d); err != nil {
		return err
	}
	h.Headers = make(map[string]string)
	err := block(d, func(name string) (option, bool) {
		return option{repeatable: true, set: func(args []string) error {
			return h.add(name, args)
		}}, true
	})
	if err != nil {
		return err
	}
	if len(h.Headers) == 0 {
		return d.Err("headers: at least one is needed")
	}
	return nil
}

func (h *Headers) add(name string, args []string) error {
	if len(args) != 1 {
		return errors.New("takes exactly one value")
	}
	if err := checkCredentialHeader(name); err != nil {
		return err
	}
	for other := range h.Headers {
		if strings.EqualFold(other, name) {
			return errors.New("header is written twice")
		}
	}
	if err := checkHeaderText(args[0]); err != nil {
		return err
	}
	h.Headers[name] = args[0]
	return nil
}

// Interface guards
var (
	_ skillsharing.Credentials = (*Headers)(nil)
	_ caddy.Provisioner        = (*Headers)(nil)
	_ caddyfile.Unmarshaler    = (*Headers)(nil)
)
