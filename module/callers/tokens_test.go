package callers

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
)

const (
	issuerURL = "https://login.example.com/realms/main"
	audience  = "https://agents.example.com/mcp"

	// How long reading the keys may take, and the pauses after one that has failed and between two because of unknown keys.
	readTimeout, failurePause, unknownPause = 10 * time.Second, 10 * time.Second, time.Minute
)

// The keys of issuers, which are made once.
var (
	rsaKey     = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	otherKey2  = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	ecdsaKey   = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
	ed25519Key = sync.OnceValue(func() ed25519.PrivateKey {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return must(key, err)
	})
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// object is a JSON object.
type object map[string]any

// with returns an object with other members; those that are nil are left out.
func (o object) with(other object) object {
	all := maps.Clone(o)
	maps.Copy(all, other)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

// site answers requests for documents of issuers. It is a transport.
type site struct {
	mu        sync.Mutex
	documents map[string]string
	status    int           // of all answers; 0: 200, or 404 for a document that there is not
	err       error         // of all requests
	delay     time.Duration // of all answers
	requests  []string
}

func (s *site) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.requests = append(s.requests, r.URL.String())
	text, found := s.documents[r.URL.String()]
	status, err, delay := s.status, s.err, s.delay
	s.mu.Unlock()
	if delay > 0 { // the race detector can't stand a channel of time.After(0) in a bubble
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if err != nil {
		return nil, err
	}
	if !found && status == 0 {
		status = http.StatusNotFound
	}
	return &http.Response{
		StatusCode: max(status, http.StatusOK), Header: http.Header{"Location": {"https://elsewhere.example.com/"}}, Body: io.NopCloser(strings.NewReader(text)), Request: r,
	}, nil
}

// taken returns the URLs of the requests since the last call.
func (s *site) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.requests = nil }()
	return s.requests
}

func (s *site) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// publish publishes the metadata and the keys of an issuer.
func (s *site) publish(keys ...jose.JSONWebKey) {
	s.set(func() {
		s.documents[issuerURL+"/.well-known/openid-configuration"] = `{"issuer":"` + issuerURL + `","jwks_uri":"https://keys.example.com/jwks"}`
		s.documents["https://keys.example.com/jwks"] = string(must(json.Marshal(map[string]any{"keys": keys})))
	})
}

// webKey returns the public part of a key.
func webKey(id string, key crypto.Signer) jose.JSONWebKey {
	return jose.JSONWebKey{Key: key.Public(), KeyID: id, Use: "sig"}
}

// newSite returns the site of an issuer with a key, and the tokens of it.
func newSite(t *testing.T, change ...func(*Issuer)) (*site, *Tokens, *observer.ObservedLogs) {
	t.Helper()
	s := &site{documents: make(map[string]string)}
	s.publish(webKey("k1", rsaKey()))
	i := Issuer{URL: issuerURL, Audience: []string{audience, "second"}}
	for _, change := range change {
		change(&i)
	}
	tokens, logs := openTokens(t, s, i)
	return s, tokens, logs
}

func openTokens(t *testing.T, s *site, issuers ...Issuer) (*Tokens, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	tokens, releases := OpenTokens(issuers, s, rand.Text(), zap.New(core)) // other settings: the keys are of this test
	t.Cleanup(func() {
		for _, release := range releases {
			release()
		}
	})
	return tokens, logs
}

// standard are the claims of an access token that is valid now.
func standard() object {
	now := time.Now().Unix()
	return object{"iss": issuerURL, "sub": "alice", "aud": audience, "exp": now + 300, "iat": now, "client_id": "app", "jti": "1"}
}

var atJWT = object{"alg": "RS256", "kid": "k1", "typ": "at+jwt"}

// assemble returns a token whose signature a function makes.
func assemble(header, claims any, sign func(input []byte) []byte) string {
	encode := func(v any) string {
		if text, ok := v.(string); ok {
			return base64.RawURLEncoding.EncodeToString([]byte(text))
		}
		return base64.RawURLEncoding.EncodeToString(must(json.Marshal(v)))
	}
	input := encode(header) + "." + encode(claims)
	return input + "." + base64.RawURLEncoding.EncodeToString(sign([]byte(input)))
}

// signed returns a token that is signed with RS256, whatever its header says.
func signed(header, claims any, key *rsa.PrivateKey) string {
	return assemble(header, claims, func(input []byte) []byte {
		sum := sha256.Sum256(input)
		return must(rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:]))
	})
}

// expect requires that a token is that of a principal, or refused with a status and for a reason.
func expect(t *testing.T, about string, tokens *Tokens, token, principal string, status int, reason string) {
	t.Helper()
	got, refused := tokens.Authenticate(t.Context(), token)
	switch {
	case status == 0 && (refused != nil || got != principal):
		t.Errorf("%s: %q, %+v; want %q", about, got, refused, principal)
	case status != 0 && (refused == nil || got != "" || refused.Status != status || !strings.Contains(refused.Reason, reason)):
		t.Errorf("%s: %q, %+v; want %d, %s", about, got, refused, status, reason)
	}
	if refused != nil && len(token) > 20 && strings.Contains(refused.Reason, token[len(token)-20:]) {
		t.Errorf("%s: the reason shows the token: %s", about, refused.Reason)
	}
}

// TestClaims: a token is accepted if each of its claims is as it has to be, and refused for the first that is not.
func TestClaims(t *testing.T) {
	_, tokens, _ := newSite(t, func(i *Issuer) { i.Scopes = []string{"run", "read"} })
	now := time.Now().Unix()
	scopes := object{"scope": "read run other"}
	for about, c := range map[string]struct {
		claims object
		reason string
	}{
		"all as it has to be":                {nil, ""},
		"several audiences":                  {object{"aud": []string{"x", "second"}}, ""},
		"fractions of seconds":               {object{"exp": float64(now) + 10.5, "nbf": float64(now) - 0.5}, ""},
		"a clock that differs":               {object{"exp": now - 50, "nbf": now + 50}, ""},
		"no audience":                        {object{"aud": nil}, "audience"},
		"another audience":                   {object{"aud": "https://agents.example.com/"}, "audience"},
		"other audiences":                    {object{"aud": []string{"a", "b"}}, "audience"},
		"an audience that is no text":        {object{"aud": []any{audience, 5}}, "audience"},
		"an audience in an object":           {object{"aud": object{"a": audience}}, "audience"},
		"an empty audience":                  {object{"aud": ""}, "audience"},
		"another issuer":                     {object{"iss": issuerURL + "/"}, "issuer"},
		"no issuer":                          {object{"iss": nil}, "issuer"},
		"an issuer that is a list":           {object{"iss": []string{issuerURL}}, "issuer"},
		"expired":                            {object{"exp": now - 61}, "expired"},
		"no expiry":                          {object{"exp": nil}, "expired"},
		"an expiry that is a text":           {object{"exp": fmt.Sprint(now + 300)}, "expired"},
		"an expiry of null":                  {object{"exp": jsonNull}, "expired"},
		"in the future":                      {object{"nbf": now + 70}, "not valid yet by this machine's clock"},
		"nbf is a text":                      {object{"nbf": fmt.Sprint(now - 70)}, "not valid yet"},
		"no subject":                         {object{"sub": nil}, "principal"},
		"an empty subject":                   {object{"sub": ""}, "principal"},
		"a subject that is a number":         {object{"sub": 7}, "principal"},
		"a subject that is a list":           {object{"sub": []string{"alice"}}, "principal"},
		"a subject with a space":             {object{"sub": "alice "}, "principal"},
		"a subject with a zero-width space":  {object{"sub": "\u200balice"}, "principal"},
		"a subject with a control character": {object{"sub": "al\x00ice"}, "principal"},
		"a long subject":                     {object{"sub": strings.Repeat("a", options.MaxNameSize+1)}, "principal"},
	} {
		status := http.StatusUnauthorized
		if c.reason == "" {
			status = 0
		}
		expect(t, about, tokens, signed(atJWT, standard().with(scopes).with(c.claims), rsaKey()), "alice", status, c.reason)
	}
	for about, c := range map[string]struct {
		claims object
		has    bool
	}{
		"scp as a list":             {object{"scp": []string{"run", "read"}}, true},
		"scp as a text":             {object{"scp": "run read"}, true},
		"one in each":               {object{"scp": []string{"run"}, "scope": "read"}, true},
		"none":                      {nil, false},
		"one":                       {object{"scope": "run"}, false},
		"the beginning of one":      {object{"scope": "run rea"}, false},
		"scope as an object":        {object{"scope": object{"run": 1, "read": 1}}, false},
		"scp with what is no text":  {object{"scp": []any{"run", "read", 1}}, false},
		"other spelling":            {object{"scope": "RUN READ"}, false},
		"scopes in another claim":   {object{"scopes": "run read"}, false},
		"scopes separated by comma": {object{"scope": "run,read"}, false},
	} {
		status := http.StatusForbidden
		if c.has {
			status = 0
		}
		expect(t, about, tokens, signed(atJWT, standard().with(c.claims), rsaKey()), "alice", status, "insufficient_scope")
	}
	if _, refused := tokens.Authenticate(t.Context(), signed(atJWT, standard(), rsaKey())); !slices.Equal(refused.Scopes, []string{"run", "read"}) {
		t.Errorf("%+v", refused)
	}
}

// jsonNull is null in an object whose members of nil are left out.
var jsonNull = (*int)(nil)

// TestHostileTokens: what is not signed with a key of the issuer, or is not an access token, is refused.
func TestHostileTokens(t *testing.T) {
	s, tokens, logs := newSite(t)
	s.publish(webKey("k1", rsaKey()), webKey("ec", ecdsaKey()), webKey("ed", ed25519Key()))
	good := signed(atJWT, standard(), rsaKey())
	expect(t, "a good token", tokens, good, "alice", 0, "")
	s.taken()

	public := must(x509.MarshalPKIXPublicKey(rsaKey().Public()))
	mac := func(secret []byte) func([]byte) []byte {
		return func(input []byte) []byte {
			h := hmac.New(sha256.New, secret)
			h.Write(input)
			return h.Sum(nil)
		}
	}
	nothing := func([]byte) []byte { return nil }
	parts := strings.Split(good, ".")
	forged := must(json.Marshal(standard().with(object{"sub": "admin"})))
	attacker := string(must(webKey("k1", otherKey2()).MarshalJSON()))
	for about, token := range map[string]string{
		"empty":                             "",
		"a word":                            "x",
		"none":                              assemble(atJWT.with(object{"alg": "none"}), standard(), nothing),
		"None":                              assemble(atJWT.with(object{"alg": "None"}), standard(), nothing),
		"no algorithm":                      assemble(atJWT.with(object{"alg": nil}), standard(), nothing),
		"HS256 with the public key in DER":  assemble(atJWT.with(object{"alg": "HS256"}), standard(), mac(public)),
		"HS256 with the public key in PEM":  assemble(atJWT.with(object{"alg": "HS256"}), standard(), mac(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))),
		"HS256 with nothing":                assemble(atJWT.with(object{"alg": "HS256"}), standard(), mac(nil)),
		"no signature":                      parts[0] + "." + parts[1] + ".",
		"two parts":                         parts[0] + "." + parts[1],
		"four parts":                        good + "." + parts[2],
		"JSON serialization":                `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
		"other claims":                      parts[0] + "." + base64.RawURLEncoding.EncodeToString(forged) + "." + parts[2],
		"padding":                           parts[0] + "." + parts[1] + "=." + parts[2],
		"a space in it":                     parts[0] + ". " + parts[1] + "." + parts[2],
		"another key":                       signed(atJWT, standard(), otherKey2()),
		"the key in jwk":                    signed(`{"alg":"RS256","kid":"k1","typ":"at+jwt","jwk":`+attacker+`}`, standard(), otherKey2()),
		"the key at jku":                    signed(atJWT.with(object{"jku": "https://evil.example.com/jwks"}), standard(), otherKey2()),
		"the key at x5u":                    signed(atJWT.with(object{"x5u": "https://evil.example.com/cert"}), standard(), otherKey2()),
		"RS256 with the id of an ECDSA key": signed(atJWT.with(object{"kid": "ec"}), standard(), rsaKey()),
		"ES256 with the id of an RSA key":   assemble(atJWT.with(object{"alg": "ES256"}), standard(), nothing),
		"PS256 with a signature of RS256":   signed(atJWT.with(object{"alg": "PS256"}), standard(), rsaKey()),
		"ES256 with zeros":                  assemble(object{"alg": "ES256", "kid": "ec", "typ": "at+jwt"}, standard(), func([]byte) []byte { return make([]byte, 64) }),
		"EdDSA with zeros":                  assemble(object{"alg": "EdDSA", "kid": "ed", "typ": "at+jwt"}, standard(), func([]byte) []byte { return make([]byte, 64) }),
		"a critical field":                  signed(atJWT.with(object{"crit": []string{"exp"}, "exp": 1}), standard(), rsaKey()),
		"an empty list of critical fields":  signed(atJWT.with(object{"crit": []string{}}), standard(), rsaKey()),
		"b64":                               signed(atJWT.with(object{"b64": true, "crit": []string{"b64"}}), standard(), rsaKey()),
		"another type":                      signed(atJWT.with(object{"typ": "logout+jwt"}), standard(), rsaKey()),
		"a type that is a number":           signed(atJWT.with(object{"typ": 5}), standard(), rsaKey()),
		"an empty type":                     signed(atJWT.with(object{"typ": ""}), standard(), rsaKey()),
		"claims twice":                      signed(atJWT, strings.Replace(string(must(json.Marshal(standard()))), "{", `{"sub":"admin",`, 1), rsaKey()),
		"a key id twice":                    signed(`{"alg":"RS256","kid":"x","kid":"k1","typ":"at+jwt"}`, standard(), rsaKey()),
		"claims that are a list":            signed(atJWT, []string{"alice"}, rsaKey()),
		"claims that are null":              signed(atJWT, "null", rsaKey()),
		"claims that are no UTF-8":          signed(atJWT, strings.Replace(string(must(json.Marshal(standard()))), "alice", "al\xffice", 1), rsaKey()),
		"deep claims":                       signed(atJWT, `{"x":`+strings.Repeat("[", 6000)+strings.Repeat("]", 6000)+`,`+strings.TrimPrefix(string(must(json.Marshal(standard()))), "{"), rsaKey())[:16000],
		"longer than 16 KiB":                signed(atJWT, standard().with(object{"x": strings.Repeat("x", maxTokenSize)}), rsaKey()),
	} {
		reason := "invalid_token: "
		if strings.HasPrefix(about, "HS256") || strings.EqualFold(about, "none") {
			reason = "algorithm that is not accepted"
		}
		expect(t, about, tokens, token, "", http.StatusUnauthorized, reason)
	}
	if taken := s.taken(); len(taken) > 2 || slices.ContainsFunc(taken, func(u string) bool { return strings.Contains(u, "evil") }) {
		t.Errorf("requests for keys that tokens name: %v", taken)
	}
	for about, header := range map[string]object{
		"an ignored jku":       {"jku": "https://evil.example.com/jwks"},
		"application/at+jwt":   {"typ": "application/AT+JWT"},
		"a type in upper case": {"typ": "AT+JWT"},
		"no key id":            {"kid": nil},
	} {
		expect(t, about, tokens, signed(atJWT.with(header), standard(), rsaKey()), "alice", 0, "")
	}
	s.publish(webKey("k1", rsaKey()), webKey("k2", otherKey2()), webKey("ec", ecdsaKey()), webKey("ed", ed25519Key()))
	twice, _ := openTokens(t, s, Issuer{URL: issuerURL, Audience: []string{audience}})
	expect(t, "no key id, and two keys fit", twice, signed(atJWT.with(object{"kid": nil}), standard(), rsaKey()), "", http.StatusUnauthorized, "no key")
	expect(t, "no key id, and one key fits", twice, sign(t, jose.ES256, "", ecdsaKey()), "alice", 0, "")
	expect(t, "ES256", tokens, sign(t, jose.ES256, "ec", ecdsaKey()), "alice", 0, "")
	expect(t, "EdDSA", tokens, sign(t, jose.EdDSA, "ed", ed25519Key()), "alice", 0, "")
	expect(t, "PS384", tokens, sign(t, jose.PS384, "k1", rsaKey()), "alice", 0, "")
	if logs.Len() > 0 {
		t.Errorf("%v", logs.All())
	}
}

// sign returns a token that the library signs.
func sign(tb testing.TB, algorithm jose.SignatureAlgorithm, id string, key any) string {
	tb.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: id}}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		tb.Fatal(err)
	}
	s, err := signer.Sign(must(json.Marshal(standard())))
	if err != nil {
		tb.Fatal(err)
	}
	return must(s.CompactSerialize())
}

// TestIDTokens: of tokens with the type of ID tokens, those are refused that common servers give clients, and those accepted that they give for APIs.
func TestIDTokens(t *testing.T) {
	_, tokens, _ := newSite(t)
	now := time.Now().Unix()
	base := object{"iss": issuerURL, "sub": "alice", "aud": audience, "exp": now + 300, "iat": now}
	for about, c := range map[string]struct {
		claims object
		ok     bool
	}{
		"an ID token of Keycloak":                  {object{"jti": "1", "typ": "ID", "azp": "app", "sid": "s", "acr": "1", "email_verified": true, "preferred_username": "alice"}, false},
		"an ID token of Auth0":                     {object{"nickname": "alice", "name": "Alice", "updated_at": "2026-11-29T00:00:00Z", "sid": "s"}, false},
		"an ID token of Auth0 for a browser":       {object{"nonce": "n", "jti": "1"}, false},
		"an ID token of Entra":                     {object{"ver": "2.0", "tid": "t", "oid": "o", "preferred_username": "alice", "rh": "r", "uti": "u"}, false},
		"an ID token of Google":                    {object{"azp": "app", "at_hash": "h", "email": "alice@example.com", "email_verified": true, "jti": "1"}, false},
		"an ID token of Google for a service":      {object{"azp": "1", "email": "a@b.iam.gserviceaccount.com"}, false},
		"an ID token of Cognito":                   {object{"token_use": "id", "jti": "1", "cognito:username": "alice", "origin_jti": "o", "event_id": "e"}, false},
		"an ID token of a hybrid flow":             {object{"c_hash": "h", "jti": "1"}, false},
		"an ID token with the time of the login":   {object{"auth_time": now, "jti": "1"}, false},
		"an ID token with an empty nonce":          {object{"nonce": "", "jti": "1"}, false},
		"an ID token with a nonce of null":         {object{"nonce": jsonNull, "jti": "1"}, false},
		"an access token of Keycloak":              {object{"jti": "1", "typ": "Bearer", "azp": "app", "scope": "openid profile"}, true},
		"an access token of Keycloak since 25":     {object{"jti": "1", "typ": "Bearer", "azp": "app", "scope": "openid profile", "auth_time": now, "acr": "1"}, true},
		"an access token of Keycloak with a nonce": {object{"jti": "1", "typ": "Bearer", "azp": "app", "scope": "openid profile", "nonce": "n"}, false},
		"an access token of Cognito after a login": {object{"token_use": "access", "client_id": "app", "scope": "x", "auth_time": now, "origin_jti": "o"}, true},
		"an ID token of Cognito after a login":     {object{"token_use": "id", "typ": "Bearer", "jti": "1", "auth_time": now}, false},
		"an ID token of Keycloak after a login":    {object{"typ": "ID", "token_use": "access", "jti": "1", "auth_time": now}, false},
		"a token that is a refresh token":          {object{"typ": "Refresh", "jti": "1", "auth_time": now}, false},
		"an access token of Auth0":                 {object{"azp": "app", "scope": "read:x"}, true},
		"an access token of Entra":                 {object{"ver": "2.0", "tid": "t", "oid": "o", "azp": "app", "scp": "Skills.Run"}, true},
		"an access token of Okta":                  {object{"ver": 1, "jti": "AT.1", "cid": "app", "uid": "u", "scp": []string{"run"}}, true},
		"an access token of Cognito":               {object{"token_use": "access", "client_id": "app", "scope": "x", "version": 2, "username": "alice"}, true},
		"a token with the client's id, of a robot": {object{"client_id": "app"}, true},
	} {
		for _, header := range []object{{"alg": "RS256", "kid": "k1", "typ": "JWT"}, {"alg": "RS256", "kid": "k1"}} {
			status := http.StatusUnauthorized
			if c.ok {
				status = 0
			}
			expect(t, fmt.Sprint(about, " ", header["typ"]), tokens, signed(header, base.with(c.claims), rsaKey()), "alice", status, "ID token")
		}
		if c.ok || about == "an ID token with the time of the login" {
			expect(t, about+" with a type", tokens, signed(atJWT, base.with(c.claims), rsaKey()), "alice", 0, "")
		}
	}
}

// TestS389BoundTokens: a token that is bound to a key of its client is no bearer token, whatever its type is and however the claim is written: it is worth
// nothing to a thief who lacks the key. A token about a logout is none either.
func TestS389BoundTokens(t *testing.T) {
	_, tokens, _ := newSite(t)
	for about, c := range map[string]struct {
		kind   string
		claims object
		reason string // empty: the token is accepted
	}{
		"DPoP":                          {"at+jwt", object{"cnf": object{"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}}, "claim cnf"},
		"a certificate":                 {"application/at+jwt", object{"cnf": object{"x5t#S256": "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2"}}, "claim cnf"},
		"a key":                         {"JWT", object{"cnf": object{"jwk": webKey("k", ecdsaKey())}}, "claim cnf"},
		"a key that is not named":       {"at+jwt", object{"cnf": object{}}, "claim cnf"},
		"null":                          {"at+jwt", object{"cnf": jsonNull}, "claim cnf"},
		"a text":                        {"at+jwt", object{"cnf": "x"}, "claim cnf"},
		"a logout":                      {"JWT", object{"events": object{"http://schemas.openid.net/event/backchannel-logout": object{}}, "sid": "s"}, "claim events"},
		"a claim with another spelling": {"at+jwt", object{"CNF": "x"}, ""},
		"an access token with events":   {"at+jwt", object{"events": []string{"opening"}}, ""},
	} {
		status := http.StatusUnauthorized
		if c.reason == "" {
			status = 0
		}
		expect(t, about, tokens, signed(atJWT.with(object{"typ": c.kind}), standard().with(c.claims), rsaKey()), "alice", status, c.reason)
	}
}

// TestPrincipals: principals of issuers, and of keys, are never the same, in whatever order the issuers are.
func TestPrincipals(t *testing.T) {
	const second = "https://login.acme.example"
	plain, prefixed := Issuer{URL: issuerURL, Audience: []string{audience}}, Issuer{URL: second, Audience: []string{audience}, Prefix: "acme:", Claim: "oid"}
	s := &site{documents: map[string]string{
		second + "/.well-known/openid-configuration": `{"issuer":"` + second + `","jwks_uri":"https://keys.example.com/jwks"}`,
	}}
	s.publish(webKey("k1", rsaKey()))
	for n, order := range [][]Issuer{{plain, prefixed}, {prefixed, plain}} {
		tokens, _ := openTokens(t, s, order...)
		of := func(issuer, claim, value string) string {
			return signed(atJWT, standard().with(object{"iss": issuer, claim: value}), rsaKey())
		}
		expect(t, "no prefix", tokens, of(issuerURL, "sub", "alice"), "alice", 0, "")
		expect(t, "a prefix", tokens, of(second, "oid", "alice"), "acme:alice", 0, "")
		expect(t, "its own prefix", tokens, of(second, "oid", "acme:alice"), "acme:acme:alice", 0, "")
		expect(t, "no claim", tokens, of(second, "sub", "alice"), "", http.StatusUnauthorized, "principal")
		expect(t, fmt.Sprint("the prefix of the other issuer, order ", n), tokens, of(issuerURL, "sub", "acme:alice"), "", http.StatusUnauthorized, "prefix of another issuer")
		expect(t, "only the prefix", tokens, of(issuerURL, "sub", "acme:"), "", http.StatusUnauthorized, "prefix of another issuer")
	}
	if _, err := parse(line(t, "bob", aliceKey)+line(t, "acme:alice", otherKey), "acme:", "x:"); err == nil || !strings.HasPrefix(err.Error(), "2: the principal begins with the prefix of an issuer") {
		t.Errorf("%v", err)
	}
}

// TestKeysAreRead: at the first token, again each hour, and for an unknown key at most once a minute.
func TestKeysAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, tokens, logs := newSite(t)
		reads := func(about string, want int) {
			t.Helper()
			synctest.Wait()
			if taken := s.taken(); len(taken) != 2*want {
				t.Errorf("%s: %d requests, want %d readings: %v", about, len(taken), want, taken)
			}
		}
		good := func(about string) {
			t.Helper()
			expect(t, about, tokens, signed(atJWT, standard(), rsaKey()), "alice", 0, "")
		}
		next := func() string { return signed(atJWT.with(object{"kid": "k2"}), standard(), otherKey2()) }
		reads("before the first token", 0)
		var all sync.WaitGroup
		s.set(func() { s.delay = time.Second })
		for range 50 {
			all.Go(func() { good("at once") })
		}
		all.Wait()
		reads("many at once", 1)
		good("again")
		reads("the second token", 0)

		for range 100 {
			expect(t, "an unknown key", tokens, signed(atJWT.with(object{"kid": rand.Text()}), standard(), rsaKey()), "", http.StatusUnauthorized, "no key")
		}
		reads("a flood of unknown keys", 1)
		time.Sleep(unknownPause)
		for range 100 {
			all.Go(func() {
				expect(t, "an unknown key", tokens, signed(atJWT.with(object{"kid": rand.Text()}), standard(), rsaKey()), "", http.StatusUnauthorized, "no key")
			})
			all.Go(func() {
				began := time.Now()
				good("during the flood")
				if time.Since(began) > 0 {
					t.Error("a token with a known key waits for unknown ones")
				}
			})
		}
		all.Wait()
		reads("a flood after a minute", 1)

		s.publish(webKey("k2", otherKey2()))
		time.Sleep(unknownPause)
		good("the old key, until the keys are read")
		expect(t, "a new key", tokens, next(), "alice", 0, "")
		reads("a new key", 1)
		expect(t, "the key that the newest set lacks", tokens, signed(atJWT, standard(), rsaKey()), "", http.StatusUnauthorized, "no key")
		reads("the old key", 0)

		s.publish(webKey("k1", rsaKey()))
		time.Sleep(keysFresh)
		expect(t, "a key that was withdrawn an hour ago", tokens, next(), "", http.StatusUnauthorized, "no key")
		reads("after an hour", 1)
		s.publish()
		time.Sleep(keysFresh)
		expect(t, "all keys were withdrawn", tokens, signed(atJWT, standard(), rsaKey()), "", http.StatusUnauthorized, "no key")
		if logs.Len() > 0 {
			t.Errorf("%v", logs.All())
		}
	})
}

// TestIssuerIsAway: the keys of an issuer that can't be reached are valid for a day; then its tokens are refused as not checked. It is asked
// again after 10 seconds, and one line a minute is logged.
func TestIssuerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, tokens, logs := newSite(t)
		good := func(about string) {
			t.Helper()
			expect(t, about, tokens, signed(atJWT, standard(), rsaKey()), "alice", 0, "")
		}
		away := func(about string) {
			t.Helper()
			expect(t, about, tokens, signed(atJWT, standard(), rsaKey()), "", http.StatusServiceUnavailable, "issuer_unavailable: ")
		}
		s.set(func() { s.err = errors.New("refused") })
		away("never read")
		if n := len(s.taken()); n != 2 {
			t.Errorf("%d requests", n)
		}
		time.Sleep(failurePause - time.Second)
		away("before 10 s")
		if n := len(s.taken()); n != 0 {
			t.Errorf("%d requests", n)
		}
		time.Sleep(time.Second)
		s.set(func() { s.err = nil })
		good("after 10 s")
		read := time.Now()
		if logs.Len() != 1 {
			t.Errorf("%v", logs.All())
		}
		logs.TakeAll()

		s.set(func() { s.err, s.delay = errors.New("refused"), time.Second })
		time.Sleep(keysFresh)
		s.taken()
		good("the first token after an hour waits")
		began := time.Now()
		for range 600 {
			time.Sleep(time.Second)
			at := time.Now()
			good("others do not wait")
			if time.Since(at) > 0 {
				t.Fatal("a token waits for an issuer that is away")
			}
		}
		expect(t, "an unknown key meanwhile", tokens, signed(atJWT.with(object{"kid": "x"}), standard(), rsaKey()), "", http.StatusUnauthorized, "no key")
		minutes := int(time.Since(began) / time.Minute)
		if n, most := len(s.taken()), 2*(6*minutes+2); n > most || n < 2*5*minutes {
			t.Errorf("%d requests in %d minutes", n, minutes)
		}
		if n := logs.Len(); n < minutes-1 || n > minutes+1 {
			t.Errorf("%d lines in %d minutes", n, minutes)
		}
		time.Sleep(time.Until(read.Add(23 * time.Hour)))
		good("after 23 hours")
		time.Sleep(time.Until(read.Add(25 * time.Hour)))
		away("after 25 hours")
		s.set(func() { s.err = nil })
		time.Sleep(failurePause)
		good("it is back")

		s.set(func() { s.delay = time.Hour })
		time.Sleep(25 * time.Hour)
		began = time.Now()
		away("it does not answer")
		if took := time.Since(began); took != readTimeout {
			t.Errorf("the caller waited %s", took)
		}
		time.Sleep(failurePause)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if _, refused := tokens.Authenticate(ctx, signed(atJWT, standard(), rsaKey())); refused == nil || refused.Status != http.StatusServiceUnavailable || time.Since(began) != time.Second {
			t.Errorf("a caller that has gone: %+v after %s", refused, time.Since(began))
		}
		synctest.Wait()
		time.Sleep(readTimeout)
	})
}

// TestMetadata: which documents of issuers are read, and which are not believed.
func TestMetadata(t *testing.T) {
	good := string(must(json.Marshal(map[string]any{"keys": []jose.JSONWebKey{webKey("k1", rsaKey())}})))
	small := must(rsa.GenerateKey(rand.Reader, 1024))
	many := make([]jose.JSONWebKey, maxKeys+1)
	for i := range many {
		many[i] = webKey(fmt.Sprint("k", i), rsaKey())
	}
	const oidc, oauth, keys = issuerURL + "/.well-known/openid-configuration", "https://login.example.com/.well-known/oauth-authorization-server/realms/main", "https://keys.example.com/jwks"
	metadata := func(issuer, keys string) string { return `{"issuer":"` + issuer + `","jwks_uri":"` + keys + `"}` }
	for about, c := range map[string]struct {
		documents map[string]string
		why       string // in the log; empty: the token is accepted
	}{
		"OpenID Connect":                 {map[string]string{oidc: metadata(issuerURL, keys), keys: good}, ""},
		"RFC 8414":                       {map[string]string{oauth: metadata(issuerURL, keys), keys: good}, ""},
		"RFC 8414, since OIDC is a page": {map[string]string{oidc: "<html>", oauth: metadata(issuerURL, keys), keys: good}, ""},
		"no metadata":                    {map[string]string{keys: good}, "404"},
		"another issuer":                 {map[string]string{oidc: metadata(issuerURL+"/", keys), keys: good}, `is the metadata of the issuer "` + issuerURL + `/"`},
		"no issuer":                      {map[string]string{oidc: `{"jwks_uri":"` + keys + `"}`, keys: good}, "is the metadata of"},
		"another issuer in RFC 8414":     {map[string]string{oauth: metadata("https://evil.example.com", keys), keys: good}, "is the metadata of"},
		"keys without TLS":               {map[string]string{oidc: metadata(issuerURL, "http://keys.example.com/jwks"), "http://keys.example.com/jwks": good}, "no jwks_uri that is an https URL"},
		"keys in a file":                 {map[string]string{oidc: metadata(issuerURL, "file:///etc/passwd"), "file:///etc/passwd": good}, "no jwks_uri that is an https URL"},
		"no jwks_uri":                    {map[string]string{oidc: metadata(issuerURL, "")}, "no jwks_uri"},
		"keys that are no JSON":          {map[string]string{oidc: metadata(issuerURL, keys), keys: "<html>"}, "is not the JSON"},
		"keys that are no list":          {map[string]string{oidc: metadata(issuerURL, keys), keys: "{}"}, "is no JWK set"},
		"metadata that are too large":    {map[string]string{oidc: metadata(issuerURL, keys) + strings.Repeat(" ", 512<<10), keys: good}, "larger than 512 KiB"},
		"keys that are too large":        {map[string]string{oidc: metadata(issuerURL, keys), keys: good + strings.Repeat(" ", 512<<10)}, "larger than 512 KiB"},
		"too many keys":                  {map[string]string{oidc: metadata(issuerURL, keys), keys: string(must(json.Marshal(map[string]any{"keys": many})))}, "more than 64 keys"},
	} {
		s := &site{documents: c.documents}
		tokens, logs := openTokens(t, s, Issuer{URL: issuerURL, Audience: []string{audience}})
		token := signed(atJWT, standard(), rsaKey())
		if c.why == "" {
			expect(t, about, tokens, token, "alice", 0, "")
		} else {
			expect(t, about, tokens, token, "", http.StatusServiceUnavailable, c.why)
			if lines := logs.All(); len(lines) != 1 || lines[0].ContextMap()["issuer"] != issuerURL || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["error"]), c.why) {
				t.Errorf("%s: %v", about, lines)
			}
		}
		tokens.Try(t.Context(), func(issuer string, n int, err error) {
			if issuer != issuerURL || (n == 1) != (c.why == "") || (err == nil) != (c.why == "") {
				t.Errorf("%s: %s, %d, %v", about, issuer, n, err)
			}
		})
	}
	s := &site{documents: map[string]string{oidc: metadata(issuerURL, keys), keys: good}, status: http.StatusFound}
	tokens, _ := openTokens(t, s, Issuer{URL: issuerURL, Audience: []string{audience}})
	expect(t, "a redirect", tokens, signed(atJWT, standard(), rsaKey()), "", http.StatusServiceUnavailable, "HTTP status 302")
	if taken := s.taken(); slices.ContainsFunc(taken, func(u string) bool { return strings.Contains(u, "elsewhere") }) {
		t.Errorf("%v", taken)
	}

	// Keys that can't be used are left out.
	private := string(must(jose.JSONWebKey{Key: rsaKey(), KeyID: "k1"}.MarshalJSON()))
	for about, key := range map[string]string{
		"1,024 bits":         string(must(webKey("k1", small).MarshalJSON())),
		"for encryption":     strings.Replace(string(must(webKey("k1", rsaKey()).MarshalJSON())), `"use":"sig"`, `"use":"enc"`, 1),
		"for RSA-OAEP":       strings.Replace(string(must(webKey("k1", rsaKey()).MarshalJSON())), `"use":"sig"`, `"alg":"RSA-OAEP"`, 1),
		"for RS512":          strings.Replace(string(must(webKey("k1", rsaKey()).MarshalJSON())), `"use":"sig"`, `"alg":"RS512"`, 1),
		"a private key":      private,
		"a secret":           `{"kty":"oct","kid":"k1","k":"c2VjcmV0"}`,
		"an unknown type":    `{"kty":"AKP","kid":"k1","pub":"x"}`,
		"a number":           `5`,
		"an exponent of one": strings.Replace(string(must(webKey("k1", rsaKey()).MarshalJSON())), `"e":"AQAB"`, `"e":"AQ"`, 1),
	} {
		s := &site{documents: map[string]string{oidc: metadata(issuerURL, keys), keys: `{"keys":[` + key + `,` + string(must(webKey("other", ecdsaKey()).MarshalJSON())) + `]}`}}
		tokens, _ := openTokens(t, s, Issuer{URL: issuerURL, Audience: []string{audience}})
		signer := rsaKey()
		if about == "1,024 bits" {
			signer = small
		}
		expect(t, about, tokens, signed(atJWT, standard(), signer), "", http.StatusUnauthorized, map[bool]string{true: "signature", false: "no key"}[about == "an exponent of one"])
		if token := sign(t, jose.ES256, "other", ecdsaKey()); !strings.Contains(key, "alg") {
			expect(t, about+", the other key", tokens, token, "alice", 0, "")
		}
	}
}

// TestS280VerifiedTokens: that a token was verified before changes nothing but the time that it takes.
func TestS280VerifiedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, tokens, _ := newSite(t)
		refused := func(about, token, reason string) {
			t.Helper()
			expect(t, about, tokens, token, "", http.StatusUnauthorized, reason)
		}
		now := time.Now().Unix()
		ends := signed(atJWT, standard().with(object{"exp": now + 100, "sub": "bob"}), rsaKey())
		begins := signed(atJWT, standard().with(object{"nbf": now + leeway + 60}), rsaKey())
		lasts := signed(atJWT, standard().with(object{"exp": now + 7200}), rsaKey())
		next := signed(atJWT.with(object{"kid": "k2"}), standard().with(object{"exp": now + 172800}), otherKey2())
		for range 2 {
			expect(t, "the token", tokens, ends, "bob", 0, "")
			expect(t, "another token", tokens, lasts, "alice", 0, "")
			refused("a token that begins later", begins, "not valid yet")
			refused("a changed token", ends[:len(ends)-8]+"AAAAAAAA", "signature")
		}
		time.Sleep(time.Minute)
		for range 2 {
			expect(t, "a token that has begun", tokens, begins, "alice", 0, "")
		}
		time.Sleep(time.Until(time.Unix(now+100+leeway, 0)) - time.Millisecond)
		expect(t, "the last moment", tokens, ends, "bob", 0, "")
		time.Sleep(time.Millisecond)
		refused("the end", ends, "expired")

		other, _ := openTokens(t, s, Issuer{URL: issuerURL, Audience: []string{"another"}})
		expect(t, "another audience", other, lasts, "", http.StatusUnauthorized, "audience")

		s.publish(webKey("k2", otherKey2()))
		expect(t, "until the keys are read", tokens, lasts, "alice", 0, "")
		expect(t, "a new key", tokens, next, "alice", 0, "")
		refused("the key that the newest set lacks", lasts, "no key")
		expect(t, "the new key again", tokens, next, "alice", 0, "")
		s.set(func() { s.err = errors.New("away") })
		for range 25 {
			time.Sleep(time.Hour)
		}
		expect(t, "a day without the issuer", tokens, next, "", http.StatusServiceUnavailable, "issuer_unavailable")
	})
}

// BenchmarkTokens measures verifying a token, and the same one again.
func BenchmarkTokens(b *testing.B) {
	s := &site{documents: make(map[string]string)}
	s.publish(webKey("k1", rsaKey()), webKey("ec", ecdsaKey()), webKey("ed", ed25519Key()))
	tokens, releases := OpenTokens([]Issuer{{URL: issuerURL, Audience: []string{audience}}}, s, rand.Text(), zap.NewNop())
	defer func() {
		for _, release := range releases {
			release()
		}
	}()
	for algorithm, token := range map[jose.SignatureAlgorithm]string{
		jose.RS256: sign(b, jose.RS256, "k1", rsaKey()), jose.ES256: sign(b, jose.ES256, "ec", ecdsaKey()), jose.EdDSA: sign(b, jose.EdDSA, "ed", ed25519Key()),
	} {
		for _, again := range []bool{false, true} {
			b.Run(fmt.Sprint(algorithm, "/again=", again), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if !again {
						tokens.verified.Delete(digestOf(token))
					}
					if _, refused := tokens.Authenticate(b.Context(), token); refused != nil {
						b.Fatal(refused)
					}
				}
			})
		}
	}
}
