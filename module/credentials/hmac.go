package credentials

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

func init() { caddy.RegisterModule(HMAC{}) }

// defaultSignatureHeader is the header of the example in the Skill Sharing
// Protocol, section 7.2.3.
const defaultSignatureHeader = "X-Signature"

// encodings are the values of [HMAC.Encoding].
var encodings = map[string]func([]byte) string{
	"hex":    hex.EncodeToString,
	"base64": base64.StdEncoding.EncodeToString,
}

// HMAC signs the body of every request: HMAC-SHA256 (RFC 2104) over exactly its
// bytes, none for requests without a body. It suits skills whose `auth.type` is
// `custom`, as in the example of the Skill Sharing Protocol, section 7.2.3, and
// the reading of indexes and descriptors.
type HMAC struct {
	// The secret, whose bytes are the signing key. Placeholders such as
	// `{env.NAME}` and `{file./path}` are replaced when the configuration
	// loads; a secret without any works, with a warning.
	Secret string `json:"secret"`

	// The header that carries the signature. Default: `X-Signature`.
	Header string `json:"header,omitempty"`

	// How the signature is written: `hex` (lower case, the default) or
	// `base64` (standard alphabet, padded).
	Encoding string `json:"encoding,omitempty"`

	// Text put before the signature, for example `sha256=`.
	Prefix string `json:"prefix,omitempty"`

	resolved sealed[string]
}

// CaddyModule returns the Caddy module information.
func (HMAC) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.skill_bridge.credentials.hmac",
		New: func() caddy.Module { return new(HMAC) },
	}
}

// Provision resolves the secret.
func (h *HMAC) Provision(ctx caddy.Context) error {
	r := newResolver()
	secret, err := r.secret("secret", h.Secret)
	if err != nil {
		return err
	}
	if secret == "" {
		return errors.New("secret: is missing")
	}
	h.resolved = seal(secret)
	r.warn(logger(ctx))
	return nil
}

// Validate checks the header's name, the encoding and the prefix.
func (h *HMAC) Validate() error {
	if err := checkHeaderName(h.Header); err != nil {
		return err
	}
	if err := checkEncoding(h.Encoding); err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	return checkHeaderValue("prefix", h.Prefix)
}

func checkEncoding(name string) error {
	if name != "" && encodings[name] == nil {
		return errors.New("must be hex or base64")
	}
	return nil
}

// Suits implements [skillsharing.Credentials].
func (*HMAC) Suits(auth *skillsharing.Auth) bool {
	return auth == nil || auth.Type == skillsharing.AuthCustom
}

// Authenticate sets the header to the signature of a.Body.
func (h *HMAC) Authenticate(_ context.Context, a *skillsharing.Authentication) error {
	mac := hmac.New(sha256.New, []byte(h.resolved()))
	mac.Write(a.Body)
	encode := encodings[cmp.Or(h.Encoding, "hex")]
	a.Request.Header.Set(cmp.Or(h.Header, defaultSignatureHeader), h.Prefix+encode(mac.Sum(nil)))
	return nil
}

// Secrets returns the secret.
func (h *HMAC) Secrets() []string { return []string{h.resolved()} }

// UnmarshalCaddyfile reads
//
//	hmac {
//		secret   <secret>
//		header   <name>
//		encoding hex|base64
//		prefix   <text>
//	}
func (h *HMAC) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if err := head(d); err != nil {
		return err
	}
	err := block(d, among(map[string]option{
		"secret":   single(&h.Secret, nil),
		"header":   single(&h.Header, checkHeaderName),
		"encoding": single(&h.Encoding, checkEncoding),
		"prefix":   single(&h.Prefix, checkHeaderText),
	}))
	if err != nil {
		return err
	}
	if h.Secret == "" {
		return d.Err("hmac: secret is missing")
	}
	return nil
}

// Interface guards
var (
	_ skillsharing.Credentials = (*HMAC)(nil)
	_ caddy.Provisioner        = (*HMAC)(nil)
	_ caddy.Validator          = (*HMAC)(nil)
	_ caddyfile.Unmarshaler    = (*HMAC)(nil)
)
