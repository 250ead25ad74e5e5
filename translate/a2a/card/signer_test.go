package card_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/card"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func newKey(t *testing.T) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	parameters := pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}})
	return key, append(parameters, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})...)
}

// verify reports whether a signature of a card is valid for a payload, without the code that has made it, and returns the
// header of that signature.
func verify(t *testing.T, key *ecdsa.PublicKey, text, payload jsontext.Value) (header map[string]any, ok bool) {
	t.Helper()
	var signed struct {
		Signatures []struct{ Protected, Signature string }
	}
	if err := json.Unmarshal(text, &signed, json.MatchCaseInsensitiveNames(true)); err != nil || len(signed.Signatures) == 0 {
		t.Fatalf("%v, %d signatures", err, len(signed.Signatures))
	}
	for _, s := range signed.Signatures {
		protected, err := base64.RawURLEncoding.DecodeString(s.Protected)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := base64.RawURLEncoding.DecodeString(s.Signature)
		if err != nil || len(signature) != 64 {
			t.Fatalf("%v, %d bytes", err, len(signature))
		}
		digest := sha256.Sum256([]byte(s.Protected + "." + base64.RawURLEncoding.EncodeToString(payload)))
		if ecdsa.Verify(key, digest[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])) {
			return decode(t, protected), true
		}
	}
	return nil, false
}

// canonical returns the canonical JSON of a card without its signatures.
func canonical(t *testing.T, text jsontext.Value, change func(any) any) jsontext.Value {
	t.Helper()
	members := decode(t, text)
	delete(members, "signatures")
	payload, err := json.Marshal(change(members))
	if err != nil {
		t.Fatal(err)
	}
	value := jsontext.Value(payload)
	if err := value.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	return value
}

// withoutEmpty is what a2a-js and a2a-python do to a card before they verify it: members and elements that are null or
// empty are removed.
func withoutEmpty(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, member := range v {
			if member = withoutEmpty(member); member != nil {
				kept[name] = member
			}
		}
		if len(kept) > 0 {
			return kept
		}
		return nil
	case []any:
		var kept []any
		for _, element := range v {
			if element = withoutEmpty(element); element != nil {
				kept = append(kept, element)
			}
		}
		if kept != nil {
			return kept
		}
		return nil
	case string:
		if v == "" {
			return nil
		}
	}
	return value
}

func asItIs(value any) any { return value }

// TestSignature: pure cards of 1.0 have a signature that the specification's rules verify, and one for the SDKs that remove
// empty values. There is only one signature if the card has no such values.
func TestSignature(t *testing.T) {
	key, text := newKey(t)
	signer, err := card.NewSigner(text, "")
	if err != nil {
		t.Fatal(err)
	}
	b := &bridge{}
	b.set(
		entry("acme.a", nil), entry("acme.nothing", func(d *document.Descriptor) { d.Inputs, d.Tags = nil, nil }),
		entry("acme.empty", func(d *document.Descriptor) {
			d.Output.Schema = jsontext.Value(`{"enum":["",null,[],{}]}`)
			d.Inputs[0].Schema, d.Name, d.Description = jsontext.Value(`{"items":{}}`), " ", ""
		}),
		entry("acme.odd", func(d *document.Descriptor) {
			d.Output.Schema = jsontext.Value(`{"maximum":12345678901234567890,"multipleOf":1e-7,"title":"<a> & \u2028 \ud83d\ude00"}`)
		}),
	)
	config := full()
	config.Signer, config.Push = signer, false
	plain := config
	plain.Security = nil
	single := cardOf(t, newBuilder(t, b, plain), request(func(r *card.Request) { r.Version, r.Skill = "1.0", "acme.a" })).JSON()
	if n := len(decode(t, single)["signatures"].([]any)); n != 1 {
		t.Errorf("a card without empty values has %d signatures", n)
	}
	for _, c := range []card.Config{config, plain} {
		builder := newBuilder(t, b, c)
		for _, change := range []func(*card.Request){
			func(r *card.Request) { r.Version = "1.0" },
			func(r *card.Request) { r.Version, r.Skill = "1.0", "acme.a" },
			func(r *card.Request) { r.Version, r.Extended, r.Caller.Principal = "1.0", true, "alice" },
		} {
			made := cardOf(t, builder, request(change))
			text := made.JSON()
			validate(t, text)
			header, ok := verify(t, &key.PublicKey, text, canonical(t, text, asItIs))
			if !ok || header["alg"] != "ES256" || header["typ"] != "JOSE" || len(header["kid"].(string)) != 43 || len(header) != 3 {
				t.Errorf("verified: %t, header %v", ok, header)
			}
			if _, ok := verify(t, &key.PublicKey, text, canonical(t, text, withoutEmpty)); !ok {
				t.Error("clients that remove empty values can't verify the signature")
			}
			changed := jsontext.Value(strings.Replace(string(text), "acme.a", "acme.b", 1))
			if _, ok := verify(t, &key.PublicKey, changed, canonical(t, changed, asItIs)); ok {
				t.Error("the signature of a changed card is valid")
			}
			if again := cardOf(t, newBuilder(t, b, c), request(change)); again.ETag != made.ETag || string(again.JSON()) != string(text) {
				t.Error("another builder signs the same card otherwise")
			}
		}
		for _, version := range []string{"", "0.3"} {
			if _, ok := decode(t, cardOf(t, builder, request(func(r *card.Request) { r.Version = version })).JSON())["signatures"]; ok {
				t.Errorf("the card for version %q is signed", version)
			}
		}
	}
	named, err := card.NewSigner(text, "key-1")
	if err != nil {
		t.Fatal(err)
	}
	config.Signer = named
	made := cardOf(t, newBuilder(t, b, config), request(func(r *card.Request) { r.Version = "1.0" })).JSON()
	if header, ok := verify(t, &key.PublicKey, made, canonical(t, made, asItIs)); !ok || header["kid"] != "key-1" {
		t.Errorf("with a key id: %t %v", ok, header)
	}
}

// TestKeys: which keys are refused, without a word of them in the error.
func TestKeys(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p256, _ := newKey(t)
	encode := func(key any) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	for _, c := range []struct {
		text []byte
		want string
	}{
		{encode(p256), ""},
		{encode(p384), "P-256"},
		{encode(rsaKey), "P-256"},
		{nil, "no private key"},
		{[]byte("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"), "can't be parsed"},
	} {
		if _, err := card.NewSigner(c.text, ""); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
