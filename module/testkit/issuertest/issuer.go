// Package issuertest has an authorization server that issues access tokens of any form, for tests of the bridge as a resource server.
package issuertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json" // go-jose's types are made for it
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Audience is the audience of tokens, unless their claims have another.
const Audience = "https://agents.example.com/mcp"

// Issuer is an authorization server. Its tokens are signed with ES256.
type Issuer struct {
	*httptest.Server

	tb       testing.TB
	mu       sync.Mutex
	key      *ecdsa.PrivateKey
	id       string
	answer   http.HandlerFunc // instead of the documents; nil: none
	requests int
}

// New starts an issuer.
func New(tb testing.TB) *Issuer {
	tb.Helper()
	i := &Issuer{tb: tb}
	i.Rotate()
	i.Server = httptest.NewServer(i)
	tb.Cleanup(i.Close)
	return i
}

// Rotate replaces the key.
func (i *Issuer) Rotate() {
	i.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.tb.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key, i.id = key, rand.Text()
}

// Answer makes a handler answer all requests; nil: the documents of the issuer do.
func (i *Issuer) Answer(handler http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = handler
}

// Requests returns how many requests there were.
func (i *Issuer) Requests() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.requests
}

// ServeHTTP implements http.Handler.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.requests++
	answer := i.answer
	i.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	case "/keys":
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.WebKey()}})
	default:
		http.NotFound(w, r)
	}
}

// Option returns the option callers_jwt for the issuer, with further lines in its block.
func (i *Issuer) Option(lines ...string) string {
	return "callers_jwt " + i.URL + " {\naudience " + Audience + "\n" + strings.Join(lines, "\n") + "\n}"
}

// Token returns an access token with claims besides the usual ones, or in their place; nil: without it.
func (i *Issuer) Token(claims map[string]any) string { return i.Signed("at+jwt", claims) }

// Signed is like Token, for another type.
func (i *Issuer) Signed(kind string, claims map[string]any) string {
	return i.SignedWith(map[string]any{"typ": kind}, claims)
}

// SignedWith is like Token, with other fields of the header.
func (i *Issuer) SignedWith(header, claims map[string]any) string {
	i.tb.Helper()
	now := time.Now()
	fields := map[string]any{"alg": "ES256", "typ": "at+jwt", "kid": i.KeyID()}
	maps.Copy(fields, header)
	all := map[string]any{"iss": i.URL, "sub": "alice", "aud": Audience, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "client_id": "app", "jti": rand.Text()}
	maps.Copy(all, claims)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	parts := make([]string, 0, 2)
	for _, part := range []map[string]any{fields, all} {
		text, err := json.Marshal(part)
		if err != nil {
			i.tb.Fatal(err)
		}
		parts = append(parts, base64.RawURLEncoding.EncodeToString(text))
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	input := strings.Join(parts, ".")
	sum := sha256.Sum256([]byte(input))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, sum[:])
	if err != nil {
		i.tb.Fatal(err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// WebKey returns the public key.
func (i *Issuer) WebKey() jose.JSONWebKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return jose.JSONWebKey{Key: i.key.Public(), KeyID: i.id, Use: "sig", Algorithm: "ES256"}
}

// KeyID returns the id of the key.
func (i *Issuer) KeyID() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.id
}
