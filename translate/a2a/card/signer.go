package card

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// Signer signs cards of A2A 1.0 (section 8.4): JWS with ES256 over the canonical JSON (RFC 8785) of the card without its
// signatures. It is safe for concurrent use.
type Signer struct {
	kid string
	jws jose.Signer
}

// NewSigner returns a Signer for a private key on the curve P-256 in PEM: PRIVATE KEY (PKCS #8) or EC PRIVATE KEY. kid is the
// id of the key in signatures; empty: the thumbprint of the public key (RFC 7638).
func NewSigner(text []byte, kid string) (*Signer, error) {
	key, err := parseKey(text)
	if err != nil {
		return nil, err
	}
	if kid == "" {
		sum, err := (&jose.JSONWebKey{Key: key.Public()}).Thumbprint(crypto.SHA256)
		if err != nil {
			return nil, fmt.Errorf("the thumbprint of the key: %w", err)
		}
		kid = base64.RawURLEncoding.EncodeToString(sum)
	}
	opaque := &signingKey{key: key, public: jose.JSONWebKey{Key: key.Public(), KeyID: kid, Algorithm: string(jose.ES256), Use: "sig"}}
	jws, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: opaque}, (&jose.SignerOptions{}).WithType("JOSE"))
	if err != nil {
		return nil, fmt.Errorf("the key can't sign: %w", err)
	}
	return &Signer{kid: kid, jws: jws}, nil
}

// parseKey returns the first private key of a PEM file.
func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, errors.New("there is no private key in PEM")
		}
		var key any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		default:
			continue // such as EC PARAMETERS, which openssl writes before the key
		}
		if err != nil {
			return nil, errors.New("the private key can't be parsed") // err could quote the key
		}
		if ec, ok := key.(*ecdsa.PrivateKey); ok && ec.Curve == elliptic.P256() {
			return ec, nil
		}
		return nil, errors.New("the private key is not one of the curve P-256, which ES256 needs")
	}
}

// sign returns the signatures of a card, as elements of an array. It changes the memory of the card.
//
// The first one follows the specification. Before a2a-js and a2a-python verify a signature, they remove null and empty values
// from the card, also inside schemas and security requirements without scopes. If the card has such values, there
// is a second signature, for the card without them: clients accept a card if one of its signatures is valid.
func (s *Signer) sign(card jsontext.Value) []byte {
	if err := card.Canonicalize(); err != nil {
		panic(err) // this package has written the card
	}
	signatures := s.signature(card)
	if filled := withoutEmpty(card); !bytes.Equal(filled, card) {
		signatures = append(append(signatures, ','), s.signature(filled)...)
	}
	return signatures
}

// withoutEmpty returns the canonical JSON of a card without members and elements that are null, or empty texts, arrays or
// objects.
func withoutEmpty(card jsontext.Value) jsontext.Value {
	var members any
	if err := json.Unmarshal(card, &members); err != nil {
		panic(err) // this package has written the card
	}
	filled, err := json.Marshal(fill(members))
	if err != nil {
		panic(err) // members was decoded from JSON
	}
	value := jsontext.Value(filled)
	if err := value.Canonicalize(); err != nil {
		panic(err) // filled was encoded by json
	}
	return value
}

// fill returns a value without its null and empty parts; nil: nothing is left.
func fill(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if v[name] = fill(member); v[name] == nil {
				delete(v, name)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = fill(v[i])
		}
		if v = slices.DeleteFunc(v, func(element any) bool { return element == nil }); len(v) == 0 {
			return nil
		}
		return v
	case string:
		if v == "" {
			return nil
		}
	}
	return value
}

// signature returns the signature of a payload, as an element of the member signatures of a card.
func (s *Signer) signature(payload []byte) []byte {
	signed, err := s.jws.Sign(payload)
	if err != nil {
		panic(err) // the key is valid
	}
	text, err := signed.DetachedCompactSerialize()
	if err != nil {
		panic(err) // it has one signature
	}
	protected, rest, _ := strings.Cut(text, ".")
	var w front.Writer
	w.Open()
	w.Text("protected", protected)
	w.Text("signature", strings.TrimPrefix(rest, "."))
	w.Close()
	return w.Buf
}

// signingKey implements [jose.OpaqueSigner]. Its signatures are deterministic (RFC 6979), so that all instances make the same
// bytes for the same card.
type signingKey struct {
	key    *ecdsa.PrivateKey
	public jose.JSONWebKey
}

// Public implements [jose.OpaqueSigner].
func (k *signingKey) Public() *jose.JSONWebKey { return &k.public }

// Algs implements [jose.OpaqueSigner].
func (*signingKey) Algs() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.ES256}
}

// SignPayload implements [jose.OpaqueSigner]. The signature is r and s, of 32 bytes each (RFC 7518, section 3.4).
func (k *signingKey) SignPayload(payload []byte, _ jose.SignatureAlgorithm) ([]byte, error) {
	digest := sha256.Sum256(payload)
	der, err := k.key.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	var r, s, inner cryptobyte.String
	input := cryptobyte.String(der)
	if !input.ReadASN1(&inner, asn1.SEQUENCE) || !inner.ReadASN1(&r, asn1.INTEGER) || !inner.ReadASN1(&s, asn1.INTEGER) {
		return nil, errors.New("the signature is malformed")
	}
	signature := make([]byte, 64)
	setInteger(signature[:32], r)
	setInteger(signature[32:], s)
	return signature, nil
}

// setInteger writes a positive integer of ASN.1 into a field of fixed length.
func setInteger(field, integer []byte) {
	for len(integer) > len(field) { // a zero byte precedes an integer whose first bit is 1
		integer = integer[1:]
	}
	copy(field[len(field)-len(integer):], integer)
}
