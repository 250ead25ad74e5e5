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
	"slices"

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

// What a signature covers: the values of [HMAC.Signed].
const (
	signedRequest = "method,path,body"
	signedBody    = "body"
)

// HMAC signs every request with HMAC-SHA256 (RFC 2104). It suits skills whose
// `auth.type` is `custom`, as in the example of the Skill Sharing Protocol, section
// 7.2.3, and the reading of indexes and descriptors.
//
// What is signed is the method, a line feed (0x0A), the path with the query as they
// stand in the request (its target in origin form, RFC 9112, section 3.2.1), a line
// feed, and the bytes of the body, of which requests for documents, states and results
// have none:
//
//	POST\n/skills/run?tenant=7\n{"caller":…}
//	GET\n/skills/status/run-17\n
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

	// What is signed: `method,path,body` (the default), or only the `body`, as in the
	// protocol's example. Then the signature of requests without a body is always the
	// same, so that anyone who has seen one can send any other such request.
	Signed string `json:"signed,omitempty"`

	resolved sealed[string]
	secrets  sealed[[]string]
	sent     *signatures
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
	h.resolved, h.secrets = seal(secret), seal(r.secrets)
	h.sent = newSignatures()
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
	if err := checkSigned(h.Signed); err != nil {
		return fmt.Errorf("signed: %w", err)
	}
	return checkHeaderValue("prefix", h.Prefix)
}

func checkEncoding(name string) error {
	if name != "" && encodings[name] == nil {
		return errors.New("must be hex or base64")
	}
	return nil
}

func checkSigned(parts string) error {
	if parts != "" && parts != signedRequest && parts != signedBody {
		return errors.New("must be " + signedRequest + " or " + signedBody)
	}
	return nil
}

// Suits implements [skillsharing.Credentials].
func (*HMAC) Suits(auth *skillsharing.Auth) bool {
	return auth == nil || auth.Type == skillsharing.AuthCustom
}

// Authenticate sets the header to the signature of a request.
func (h *HMAC) Authenticate(_ context.Context, a *skillsharing.Authentication) error {
	mac := hmac.New(sha256.New, []byte(h.resolved()))
	if h.Signed != signedBody {
		mac.Write([]byte(a.Request.Method + "\n" + a.Request.URL.RequestURI() + "\n"))
	}
	mac.Write(a.Body)
	signature := encodings[cmp.Or(h.Encoding, "hex")](mac.Sum(nil))
	h.sent.add(signature)
	a.Request.Header.Set(cmp.Or(h.Header, defaultSignatureHeader), h.Prefix+signature)
	return nil
}

// Sent implements [skillsharing.Signer].
func (h *HMAC) Sent(text []byte) []string { return h.sent.in(text) }

// Secrets returns the secret, and its parts that others may repeat by themselves.
func (h *HMAC) Secrets() []string { return slices.Clone(h.secrets()) }

// UnmarshalCaddyfile reads
//
//	hmac {
//		secret   <secret>
//		header   <name>
//		encoding hex|base64
//		prefix   <text>
//		signed   method,path,body|body
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
		"signed":   single(&h.Signed, checkSigned),
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
	_ skillsharing.Signer      = (*HMAC)(nil)
	_ caddy.Provisioner        = (*HMAC)(nil)
	_ caddy.Validator          = (*HMAC)(nil)
	_ caddyfile.Unmarshaler    = (*HMAC)(nil)
)
