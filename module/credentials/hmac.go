package credentials

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
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

// The values of [HMAC.Signed].
const (
	signedRequest = "method,path,body"
	signedBody    = "body"
)

// HMAC signs every request with HMAC-SHA256 (RFC 2104). It supports skills whose
// `auth.type` is `custom`, as in the example of the Skill Sharing Protocol, section
// 7.2.3, and requests for indexes and descriptors.
//
// The signed text is the method, a line feed (0x0A), the path with the query as in
// the request line (origin form, RFC 9112, section 3.2.1), a line feed, and the bytes
// of the body. Requests for documents, states and results have no body:
//
//	POST\n/skills/run?tenant=7\n{"caller":…}
//	GET\n/skills/status/run-17\n
type HMAC struct {
	// The secret, whose bytes are the signing key. Placeholders such as
	// `{env.NAME}` and `{file./path}` are replaced when the configuration
	// loads, and a file is read again after the provider has answered 401; a
	// secret without a placeholder causes a warning.
	Secret string `json:"secret"`

	// The header that carries the signature. Default: `X-Signature`.
	Header string `json:"header,omitempty"`

	// How the signature is written: `hex` (lower case, the default) or
	// `base64` (standard alphabet, padded).
	Encoding string `json:"encoding,omitempty"`

	// Text put before the signature, for example `sha256=`.
	Prefix string `json:"prefix,omitempty"`

	// What is signed: `method,path,body` (the default), or only the `body`, as in the
	// protocol's example. With `body`, all requests without a body have the same
	// signature, so that anyone who has seen one can send any other such request.
	Signed string `json:"signed,omitempty"`

	fixed[string] `json:"-"`
	sent          *tokens.Sent
}

// CaddyModule returns the Caddy module information.
func (HMAC) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.skill_bridge.credentials.hmac", New: func() caddy.Module { return new(HMAC) }}
}

// Provision resolves the secret.
func (h *HMAC) Provision(ctx caddy.Context) error {
	h.sent = new(tokens.Sent)
	return h.provision(ctx, h, func(r *resolver) (string, error) { return r.secret("secret", h.Secret) })
}

// check checks the options before placeholders are replaced.
func (h *HMAC) check(c *options.Checker) {
	c.Check("header", checkHeaderName(h.Header))
	c.Check("encoding", checkOneOf(h.Encoding, "hex", "base64"))
	c.Check("prefix", checkHeaderText(h.Prefix))
	c.Check("signed", checkOneOf(h.Signed, signedRequest, signedBody))
	c.Check("secret", CheckSecret(h.Secret))
}

// Supports implements [credential.Credentials].
func (*HMAC) Supports(auth *document.Auth) bool {
	return auth == nil || auth.Type == document.AuthCustom
}

// Authenticate sets the header to the signature of a request.
func (h *HMAC) Authenticate(_ context.Context, a *credential.Authentication) error {
	mac := hmac.New(sha256.New, []byte(h.get()))
	if h.Signed != signedBody {
		mac.Write([]byte(a.Request.Method + "\n" + a.Request.URL.RequestURI() + "\n"))
	}
	mac.Write(a.Body)
	signature := encodings[cmp.Or(h.Encoding, "hex")](mac.Sum(nil))
	h.sent.Add(strings.TrimRight(signature, "=")) // a provider may repeat it without padding
	a.Request.Header.Set(cmp.Or(h.Header, defaultSignatureHeader), h.Prefix+signature)
	return nil
}

// Sent implements [credential.Signer].
func (h *HMAC) Sent(text []byte) []string { return h.sent.Find(text) }

// Advice implements [credential.Advisor].
func (*HMAC) Advice() string { return "check secret, signed and encoding of hmac" }
