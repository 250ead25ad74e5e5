package credentials

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"

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

	resolved *rereadable[string]
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
	if fault := h.check(); fault != nil {
		return fault
	}
	h.sent = newSignatures()
	var err error
	h.resolved, err = newRereadable(logger(ctx), func(r *resolver) (string, error) { return r.secret("secret", h.Secret) })
	return err
}

// check checks the options before placeholders are replaced.
func (h *HMAC) check() *options.ConfigError {
	return cmp.Or(
		fault("header", checkHeaderName(h.Header)),
		fault("encoding", checkOneOf(h.Encoding, "hex", "base64")),
		fault("prefix", checkHeaderText(h.Prefix)),
		fault("signed", checkOneOf(h.Signed, signedRequest, signedBody)),
		fault("secret", checkPresent(h.Secret)),
		fault("secret", checkShell(h.Secret)),
	)
}

// Supports implements [credential.Credentials].
func (*HMAC) Supports(auth *document.Auth) bool {
	return auth == nil || auth.Type == document.AuthCustom
}

// Authenticate sets the header to the signature of a request.
func (h *HMAC) Authenticate(_ context.Context, a *credential.Authentication) error {
	mac := hmac.New(sha256.New, []byte(h.resolved.get()))
	if h.Signed != signedBody {
		mac.Write([]byte(a.Request.Method + "\n" + a.Request.URL.RequestURI() + "\n"))
	}
	mac.Write(a.Body)
	signature := encodings[cmp.Or(h.Encoding, "hex")](mac.Sum(nil))
	h.sent.add(signature)
	a.Request.Header.Set(cmp.Or(h.Header, defaultSignatureHeader), h.Prefix+signature)
	return nil
}

// Sent implements [credential.Signer].
func (h *HMAC) Sent(text []byte) []string { return h.sent.find(text) }

// Renew implements [credential.Renewer].
func (h *HMAC) Renew(ctx context.Context, a *credential.Authentication) (bool, error) {
	return renewed(ctx, h, h.resolved, a)
}

// Secrets returns the secret and the parts of it that are redacted separately, and earlier secrets.
func (h *HMAC) Secrets() []string { return h.resolved.secrets() }

// Advice implements [credential.Advisor].
func (*HMAC) Advice() string { return "check secret, signed and encoding of hmac" }

// Interface guards
var (
	_ credential.Credentials = (*HMAC)(nil)
	_ credential.Renewer     = (*HMAC)(nil)
	_ credential.Signer      = (*HMAC)(nil)
	_ credential.Advisor     = (*HMAC)(nil)
	_ caddy.Provisioner      = (*HMAC)(nil)
)

// maxSignatures is how many signatures are kept.
const maxSignatures = 16 << 10

// signatures are the newest signatures that were sent, without padding. All have the same length.
// Equal requests, such as those for the status of a run, have equal signatures.
type signatures struct {
	mu     sync.RWMutex
	known  map[string]bool
	newest []string // a ring buffer
	next   int      // index of the oldest in a full ring
}

func newSignatures() *signatures { return &signatures{known: make(map[string]bool)} }

// add adds a signature, and removes the oldest if there are too many.
func (s *signatures) add(signature string) {
	signature = strings.TrimRight(signature, "=")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.known[signature]:
		return
	case len(s.newest) < maxSignatures:
		s.newest = append(s.newest, signature)
	default:
		delete(s.known, s.newest[s.next])
		s.newest[s.next] = signature
		s.next = (s.next + 1) % maxSignatures
	}
	s.known[signature] = true
}

// find returns the known signatures that a text contains.
func (s *signatures) find(text []byte) (found []string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.newest) == 0 {
		return nil
	}
	size, run := len(s.newest[0]), 0 // run is the number of consecutive characters that a signature can have
	for i, c := range text {
		if !inSignature[c] {
			run = 0
			continue
		}
		if run++; run < size {
			continue
		}
		if candidate := text[i+1-size : i+1]; s.known[string(candidate)] {
			found = append(found, string(candidate))
			run = 0
		}
	}
	return found
}

// inSignature are the characters of hexadecimal and base64 signatures, without padding.
var inSignature = func() (set [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/" {
		set[c] = true
	}
	return set
}()
