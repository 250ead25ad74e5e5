package card

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// Signer signs cards of A2A 1.0 (section 8.4): JWS with ES256 over the canonical JSON (RFC 8785) of the card without its
// signatures. It is safe for concurrent use. Its signatures are deterministic (RFC 6979), so that all instances make the same bytes for the same card.
type Signer struct {
	kid       string
	protected string // the header of the signatures (RFC 7515, section 4)
	key       *ecdsa.PrivateKey
}

// NewSigner returns a Signer for a private key on the curve P-256 in PEM: PRIVATE KEY (PKCS #8) or EC PRIVATE KEY. kid is the
// id of the key in signatures; empty: the thumbprint of the public key (RFC 7638).
func NewSigner(text []byte, kid string) (*Signer, error) {
	key, err := parseKey(text)
	if err != nil {
		return nil, err
	}
	if kid == "" {
		point, err := key.PublicKey.Bytes() // 4, and both coordinates
		if err != nil {
			return nil, fmt.Errorf("the thumbprint of the key: %w", err)
		}
		x, y := encode(point[1:33]), encode(point[33:])
		sum := sha256.Sum256([]byte(`{"crv":"P-256","kty":"EC","x":"` + x + `","y":"` + y + `"}`))
		kid = encode(sum[:])
	}
	header := front.Object(func(w *front.Writer) {
		w.Text("alg", "ES256")
		w.Text("kid", kid)
		w.Text("typ", "JOSE")
	})
	return &Signer{kid, encode(header), key}, nil
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

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
	value := jsontext.Value(filled)
	if err = errors.Join(err, value.Canonicalize()); err != nil {
		panic(err) // it was decoded from JSON
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

// signature returns the signature of a payload, as an element of the member signatures of a card: r and s, of 32 bytes each (RFC 7518, section 3.4).
func (s *Signer) signature(payload []byte) []byte {
	digest := sha256.Sum256([]byte(s.protected + "." + encode(payload)))
	der, err := s.key.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		panic(err) // the key is valid
	}
	var pair struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &pair); err != nil {
		panic(err) // package ecdsa has made it
	}
	signed := make([]byte, 64)
	pair.R.FillBytes(signed[:32])
	pair.S.FillBytes(signed[32:])
	return front.Object(func(w *front.Writer) {
		w.Text("protected", s.protected)
		w.Text("signature", encode(signed))
	})
}
