package credentials

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

func init() { caddy.RegisterModule(APIKey{}) }

// defaultKeyHeader carries a key where neither the operator nor the descriptor
// names a header: the one of every example in the Skill Sharing Protocol.
const defaultKeyHeader = "X-API-Key"

// maxHeaderName bounds the header names of documents that errors repeat, in bytes.
const maxHeaderName = 128

// APIKey sends a key in a header of every request (Skill Sharing Protocol,
// section 7.2.1). It suits skills whose `auth.type` is `api_key`, and the
// reading of indexes and descriptors.
type APIKey struct {
	// The key. Placeholders such as `{env.NAME}` and `{file./path}` are
	// replaced when the configuration loads; a key without any works, with a
	// warning.
	Key string `json:"key"`

	// The header that carries the key. By default it is the one that the
	// skill's descriptor names, or else `X-API-Key`.
	Header string `json:"header,omitempty"`

	// Text put before the key, for example `Bearer ` (with the space).
	Prefix string `json:"prefix,omitempty"`

	resolved sealed[string]
	secrets  sealed[[]string]
}

// CaddyModule returns the Caddy module information.
func (APIKey) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.skill_bridge.credentials.api_key",
		New: func() caddy.Module { return new(APIKey) },
	}
}

// Provision resolves the key.
func (k *APIKey) Provision(ctx caddy.Context) error {
	r := newResolver()
	key, err := r.secret("key", k.Key)
	if err != nil {
		return err
	}
	if key == "" {
		return errors.New("key: is missing")
	}
	if err := checkHeaderValue("key", key); err != nil {
		return err
	}
	k.resolved, k.secrets = seal(key), seal(r.secrets)
	r.warn(logger(ctx))
	return nil
}

// Validate checks the header's name and the prefix.
func (k *APIKey) Validate() error {
	if err := checkHeaderName(k.Header); err != nil {
		return err
	}
	return checkHeaderValue("prefix", k.Prefix)
}

// Suits implements [skillsharing.Credentials].
func (*APIKey) Suits(auth *skillsharing.Auth) bool {
	return auth == nil || auth.Type == skillsharing.AuthAPIKey
}

// Authenticate sets the header. It fails with AUTH_REQUIRED where the
// descriptor names a header that must not carry a credential.
func (k *APIKey) Authenticate(_ context.Context, a *skillsharing.Authentication) error {
	header := k.Header
	if header == "" && a.Auth != nil {
		header = a.Auth.Header
	}
	header = cmp.Or(header, defaultKeyHeader)
	if skillsharing.ForbiddenHeader(header) {
		return &run.Failure{
			Kind:     run.AuthRequired,
			Message:  "the descriptor wants the API key in a header that must not carry one; the operator can configure another",
			Phase:    run.PhaseAuth,
			By:       run.Bridge,
			Executed: run.ExecutedNo,
			Refused:  run.RuleCredential,
			Demand: &run.Demand{
				By: run.Bridge, Type: string(skillsharing.AuthAPIKey), Header: header[:min(len(header), maxHeaderName)],
				Reason: "forbidden_header", Quotes: true,
			},
		}
	}
	a.Request.Header.Set(header, k.Prefix+k.resolved())
	return nil
}

// Secrets returns the key, and its parts that others may repeat by themselves.
func (k *APIKey) Secrets() []string { return slices.Clone(k.secrets()) }

// UnmarshalCaddyfile reads
//
//	api_key <key> {
//		header <name>
//		prefix <text>
//	}
func (k *APIKey) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if err := head(d, &k.Key); err != nil {
		return err
	}
	if err := checkHeaderValue("key", k.Key); err != nil {
		return d.WrapErr(err)
	}
	return block(d, among(map[string]option{
		"header": single(&k.Header, checkHeaderName),
		"prefix": single(&k.Prefix, checkHeaderText),
	}))
}

// Interface guards
var (
	_ skillsharing.Credentials = (*APIKey)(nil)
	_ caddy.Provisioner        = (*APIKey)(nil)
	_ caddy.Validator          = (*APIKey)(nil)
	_ caddyfile.Unmarshaler    = (*APIKey)(nil)
)
