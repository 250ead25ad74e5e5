package callers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
)

const (
	// maxTokenSize bounds access tokens, in bytes.
	maxTokenSize = 16 << 10
	// leeway is how much the clocks of an issuer and the bridge may differ, in seconds.
	leeway = 60
)

// algorithms are those that tokens may be signed with: none with a shared secret, which could be the text of a public key.
var algorithms = []jose.SignatureAlgorithm{
	jose.EdDSA, jose.ES256, jose.ES384, jose.ES512, jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
}

// Refusal is why a token is refused. The reason is for the operator, and has nothing of the token.
type Refusal struct {
	Status int // 401, 403 if it lacks scopes, 503 if it can't be checked
	Reason string
	Scopes []string // that it must have, if it lacks one
}

func invalid(why string) *Refusal {
	return &Refusal{Status: http.StatusUnauthorized, Reason: "invalid_token: " + why}
}

// Tokens authenticates callers by the access tokens of issuers.
type Tokens struct {
	issuers []*issuer

	mu       sync.Mutex
	verified tokens.Recent[*verified] // by the SHA-256 of the token
}

// verified is a token whose signature and claims were verified a moment ago, with these settings: most callers send one several times.
type verified struct {
	issuer    *issuer
	read      time.Time // when the keys were: others may lack the key
	until     time.Time
	principal string
}

// verifiedKept is for how long the signature of a token is not verified again, and maxVerified how many tokens are kept at least.
const (
	verifiedKept = 5 * time.Minute
	maxVerified  = 4096
)

// issuer is an issuer with its keys.
type issuer struct {
	Issuer

	prefixes  []string // of the other issuers
	keys      *keySet
	transport http.RoundTripper
	logger    *zap.Logger
}

// keySets keeps the keys of issuers over reloads. Its keys are digests of the settings of the network and the issuer.
var keySets = lifetime.NewPool[*keySet]()

// OpenTokens returns the tokens of issuers, whose keys are read through a transport when a token needs them, and functions that release the keys.
// Settings are those of the network.
func OpenTokens(issuers []Issuer, transport http.RoundTripper, settings string, logger *zap.Logger) (t *Tokens, releases []func()) {
	t = new(Tokens)
	for n, i := range issuers {
		keys, release, _ := keySets.Hold(lifetime.NewDigest(settings, i.URL).String(), func() (*keySet, error) { return new(keySet), nil }) // never fails
		others := slices.Delete(slices.Clone(issuers), n, n+1)
		t.issuers = append(t.issuers, &issuer{i, Prefixes(others), keys, transport, logger.With(zap.String("issuer", i.URL))})
		releases = append(releases, release)
	}
	return t, releases
}

// Try reads the metadata and the keys of each issuer, and reports how many keys there are.
func (t *Tokens) Try(ctx context.Context, report func(issuer string, keys int, err error)) {
	for _, i := range t.issuers {
		keys, err := i.read(ctx)
		report(i.URL, len(keys), err)
	}
}

// Token returns the bearer token of a request (RFC 6750, section 2.1). sent says that it has one; an empty one is not valid.
func Token(header http.Header) (token string, sent bool) {
	fields := header["Authorization"]
	if len(fields) == 0 {
		return "", false
	}
	scheme, token, _ := strings.Cut(fields[0], " ")
	switch {
	case len(fields) > 1:
		return "", true // a handler in front may have read another one
	case !strings.EqualFold(scheme, "Bearer"):
		return "", false
	}
	return strings.Trim(token, " "), true
}

func digestOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return string(sum[:])
}

// Authenticate returns the principal of a token.
func (t *Tokens) Authenticate(ctx context.Context, token string) (principal string, refused *Refusal) {
	if len(token) > maxTokenSize {
		return "", invalid("the token is larger than 16 KiB")
	}
	digest, now := digestOf(token), time.Now()
	t.mu.Lock()
	v, ok := t.verified.Get(digest)
	t.mu.Unlock()
	if ok && now.Before(v.until) && v.issuer.keys.At().Equal(v.read) {
		return v.principal, nil
	}
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if _, other := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); other {
		return "", invalid("the token is signed with an algorithm that is not accepted, or not at all")
	}
	var c claims
	if err != nil || json.Unmarshal(signed.UnsafePayloadWithoutVerification(), &c) != nil {
		return "", invalid("the token is no signed JWT")
	}
	n := slices.IndexFunc(t.issuers, func(i *issuer) bool { return i.URL == c.text("iss") })
	if n < 0 {
		return "", invalid("the issuer of the token is that of no callers_jwt")
	}
	i, header := t.issuers[n], signed.Signatures[0].Header
	keys, read, refused := i.find(ctx, header.KeyID, header.Algorithm)
	if refused != nil {
		return "", refused
	}
	if !slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool {
		_, err := signed.Verify(k.Key)
		return err == nil
	}) {
		return "", invalid("the signature of the token is wrong")
	}
	left, why := c.life(time.Now())
	if why = cmp.Or(typeFault(header, c), why); why != "" {
		return "", invalid(why)
	}
	if principal, refused = i.principal(c); refused == nil {
		t.mu.Lock()
		t.verified.Put(digest, &verified{i, read, now.Add(min(left, time.Until(read.Add(keysFresh)))), principal}, maxVerified)
		t.mu.Unlock()
	}
	return principal, refused
}

// principal returns the principal of a token that the issuer has signed and that is valid now.
func (i *issuer) principal(c claims) (string, *Refusal) {
	claim := c.text(i.claim())
	switch {
	case !slices.ContainsFunc(c.texts("aud"), func(a string) bool { return slices.Contains(i.Audience, a) }):
		return "", invalid("the audience of the token is none of callers_jwt")
	case claim == "" || len(claim) > options.MaxNameSize || !CanBePrincipal(claim):
		return "", invalid("the claim that is the principal is not a text that can be one")
	case slices.ContainsFunc(i.prefixes, func(p string) bool { return strings.HasPrefix(claim, p) }):
		return "", invalid("the claim that is the principal begins with the prefix of another issuer")
	}
	granted := strings.Fields(c.text("scope") + " " + strings.Join(c.texts("scp"), " "))
	if slices.ContainsFunc(i.Scopes, func(s string) bool { return !slices.Contains(granted, s) }) {
		return "", &Refusal{http.StatusForbidden, "insufficient_scope: the token does not have all of the scopes " + strings.Join(i.Scopes, " "), i.Scopes}
	}
	return i.Prefix + claim, nil
}

// CanBePrincipal reports whether a text could not be mistaken for another principal.
func CanBePrincipal(text string) bool {
	return utf8.ValidString(text) && strings.TrimFunc(text, isInvisible) == text && !strings.ContainsFunc(text, unicode.IsControl)
}

// isInvisible reports whether a character at the beginning or the end of a principal
// can't be seen: any kind of space, or a formatting character.
func isInvisible(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }

// claims are the claims of a token (RFC 7519, section 4).
type claims map[string]jsontext.Value

// text returns a claim that is a text; empty: it is none.
func (c claims) text(name string) (text string) {
	if json.Unmarshal(c[name], &text) != nil {
		return ""
	}
	return text
}

// texts returns a claim that is a text, or a list of texts.
func (c claims) texts(name string) (list []string) {
	if json.Unmarshal(c[name], &list) != nil {
		return []string{c.text(name)}
	}
	return list
}

// life returns for how long the token is valid at a time, of [verifiedKept] at most, or why it is not.
func (c claims) life(now time.Time) (left time.Duration, why string) {
	seconds := float64(now.UnixMilli()) / 1000
	expires, err := strconv.ParseFloat(string(c["exp"]), 64)
	if err != nil || expires <= seconds-leeway {
		return 0, "the token has expired by this machine's clock, or has no time at which it does"
	}
	if begins, err := strconv.ParseFloat(string(c["nbf"]), 64); c["nbf"] != nil && (err != nil || begins > seconds+leeway) {
		return 0, "the token is not valid yet by this machine's clock"
	}
	return time.Duration(min(expires+leeway-seconds, verifiedKept.Seconds()) * float64(time.Second)), ""
}

// typeFault returns why a signed text of an issuer is no access token that its bearer may use; empty: it is one. Many issuers sign ID tokens, which are
// for clients, with the same key and the same type.
func typeFault(header jose.Header, c claims) string {
	_, critical := header.ExtraHeaders["crit"]
	_, plain := header.ExtraHeaders["b64"]
	kind, typed := header.ExtraHeaders[jose.HeaderType]
	text, _ := kind.(string)
	isID := func(name string) bool { return c[name] != nil }
	says := func(use, typ string) bool { // Cognito, and Keycloak
		return strings.EqualFold(c.text("token_use"), use) || strings.EqualFold(c.text("typ"), typ)
	}
	switch text = strings.ToLower(text); {
	case critical || plain: // RFC 7515, section 4.1.11, and RFC 7797, section 7
		return "the token has a header field crit or b64"
	case c["cnf"] != nil: // RFC 7800: a thief who lacks the key of the client must not get around it (RFC 9449, section 7.2, and RFC 8705, section 3)
		return "the token is bound to a key of its client by the claim cnf (DPoP, or mutual TLS), which the bridge does not check: let the issuer give this client tokens that are not bound"
	case text == "at+jwt", text == "application/at+jwt": // RFC 9068, section 4
	case typed && text != "jwt":
		return "the type of the token is neither at+jwt nor JWT"
	case isID("events"): // RFC 8417, section 2.2: logout tokens are for clients, too
		return "the token tells of events, such as a logout: its type is not at+jwt, and it has the claim events"
	case slices.ContainsFunc([]string{"nonce", "at_hash", "c_hash"}, isID), isID("auth_time") && !says("access", "Bearer"), says("id", "ID"):
		return "the token is an ID token, or looks like one: its type is not at+jwt, and it says that it is one, or has nonce, at_hash, c_hash, or auth_time without token_use: access or typ: Bearer"
	case c["client_id"] == nil && c["scope"] == nil && c["scp"] == nil && c["jti"] == nil:
		return "the token may be an ID token: its type is not at+jwt, and it has none of the claims client_id, scope, scp and jti"
	}
	return ""
}
