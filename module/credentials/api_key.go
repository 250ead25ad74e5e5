package credentials

import (
	"cmp"
	"context"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func init() { caddy.RegisterModule(APIKey{}) }

// defaultKeyHeader is the header if neither the configuration nor the descriptor names one. It is
// the header of the examples in the Skill Sharing Protocol.
const defaultKeyHeader = "X-API-Key"

// maxHeaderName bounds a descriptor's header name in an error, in bytes.
const maxHeaderName = 128

// APIKey sends a key in a header of every request (Skill Sharing Protocol,
// section 7.2.1). It supports skills whose `auth.type` is `api_key`, and requests
// for indexes and descriptors.
type APIKey struct {
	// The key. Placeholders such as `{env.NAME}` and `{file./path}` are
	// replaced when the configuration loads, and a file is read again after the
	// provider has answered 401; a key without a placeholder causes a warning.
	Key string `json:"key" option:"-"`

	// The header that carries the key. By default it is the one that the
	// skill's descriptor names, or else `X-API-Key`.
	Header string `json:"header,omitempty"`

	// Text put before the key, for example `Bearer ` (with the space).
	Prefix string `json:"prefix,omitempty"`

	fixed[string] `json:"-"`
}

// CaddyModule returns the Caddy module information.
func (APIKey) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.skill_bridge.credentials.api_key", New: func() caddy.Module { return new(APIKey) }}
}

// Provision resolves the key.
func (k *APIKey) Provision(ctx caddy.Context) error {
	return k.provision(ctx, k, func(r *resolver) (string, error) { return r.headerSecret("key", k.Key) })
}

// check checks the options before placeholders are replaced.
func (k *APIKey) check(c *options.Checker) {
	c.Check("key", cmp.Or(CheckSecret(k.Key), checkHeaderText(k.Key)))
	c.Check("header", checkHeaderName(k.Header))
	c.Check("prefix", checkHeaderText(k.Prefix))
}

// Supports implements [credential.Credentials].
func (*APIKey) Supports(auth *document.Auth) bool {
	return auth == nil || auth.Type == document.AuthAPIKey
}

// Authenticate sets the header. It fails with AUTH_REQUIRED if the descriptor names a header that
// must not carry a credential.
func (k *APIKey) Authenticate(_ context.Context, a *credential.Authentication) error {
	header := k.Header
	if header == "" && a.Auth != nil {
		header = a.Auth.Header
	}
	header = cmp.Or(header, defaultKeyHeader)
	if document.ForbiddenHeader(header) {
		e := run.NeedsCredential(&run.Demand{
			By: run.Bridge, Type: string(document.AuthAPIKey), Header: header[:min(len(header), maxHeaderName)], Reason: "forbidden_header", FromProvider: true,
		}, "the descriptor asks for the API key in a header that must not carry one; the operator can configure another header")
		e.Refused = run.RuleCredential
		return e
	}
	a.Request.Header.Set(header, k.Prefix+k.get())
	return nil
}

// Advice implements [credential.Advisor].
func (*APIKey) Advice() string { return "check key, header and prefix of api_key" }
