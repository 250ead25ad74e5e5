package callers

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
)

// Bounds of what is read of an issuer, and how often.
const (
	maxKeys    = 64
	minRSASize = 2048 / 8       // in bytes; the library reads no key of more than 4,096 bits
	keysFresh  = time.Hour      // then they are read again
	keysUsable = 24 * time.Hour // if they can't be read again
	logPause   = time.Minute    // between two lines in the log
)

// keySet are the keys of an issuer. The zero value has to be read.
type keySet struct {
	tokens.Kept[[]jose.JSONWebKey]

	logged time.Time // when it was logged last that they can't be read; for the one who reads them
}

// find returns the keys that a signature with a key id and an algorithm may be of, and when they were read. If the set is old or does not have the key, it is read first. The keys of
// an issuer that does not answer remain valid for a day.
func (i *issuer) find(ctx context.Context, id, algorithm string) (found []jose.JSONWebKey, read time.Time, refused *Refusal) {
	hasKey := func(keys []jose.JSONWebKey, age time.Duration) bool {
		return age < keysUsable && len(fitting(keys, id, algorithm)) > 0
	}
	keys, read, err := i.keys.Get(ctx, keysFresh, hasKey, func(ctx context.Context) ([]jose.JSONWebKey, error) {
		keys, err := i.read(ctx)
		if err != nil && time.Since(i.keys.logged) >= logPause {
			i.keys.logged = time.Now()
			i.logger.Error("the keys of an issuer of callers_jwt can't be read; those that were read before are used for 24 hours",
				zap.Time("read", i.keys.At()), zap.Error(err))
		}
		return keys, err
	})
	switch found = fitting(keys, id, algorithm); {
	case err != nil && time.Since(read) >= keysUsable:
		return nil, read, &Refusal{Status: http.StatusServiceUnavailable, Reason: "issuer_unavailable: the keys of the issuer can't be read: " + err.Error()}
	case len(found) == 0:
		return nil, read, invalid("the issuer has no key with the key id and the algorithm of the token; without a key id, it has to have exactly one")
	default:
		return found, read, nil
	}
}

// fitting returns the keys that a signature with a key id and an algorithm may be of. Without an id, there is at most one.
func fitting(keys []jose.JSONWebKey, id, algorithm string) (fit []jose.JSONWebKey) {
	for _, k := range keys {
		if (id == "" || k.KeyID == id) && slices.Contains(algorithmsOf(&k), algorithm) && (k.Algorithm == "" || k.Algorithm == algorithm) {
			fit = append(fit, k)
		}
	}
	if id == "" && len(fit) > 1 {
		return nil
	}
	return fit
}

// algorithmsOf returns the algorithms of a key (RFC 7518, section 3.1); nil: it can't check signatures of tokens.
func algorithmsOf(k *jose.JSONWebKey) []string {
	switch public := k.Key.(type) {
	case *rsa.PublicKey:
		if public.Size() >= minRSASize {
			return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
		}
	case *ecdsa.PublicKey:
		return []string{map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[public.Params().BitSize]}
	case ed25519.PublicKey:
		return []string{"EdDSA"}
	}
	return nil
}

// read reads the metadata of the issuer and the keys that it names.
func (i *issuer) read(ctx context.Context) ([]jose.JSONWebKey, error) {
	m, err := tokens.ReadMetadata(ctx, i.transport, i.URL)
	switch {
	case err != nil:
		return nil, err
	case m.Keys == "":
		return nil, errors.New("the metadata of the issuer has no jwks_uri that is an https URL")
	}
	return i.readKeys(ctx, m.Keys)
}

// readKeys reads a JWK set (RFC 7517, section 5). Keys that can't check signatures of tokens are left out.
func (i *issuer) readKeys(ctx context.Context, address string) (keys []jose.JSONWebKey, err error) {
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := tokens.ReadDocument(ctx, i.transport, address, &set); err != nil {
		return nil, err
	}
	if set.Keys == nil || len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("%s is no JWK set, or has more than %d keys", address, maxKeys)
	}
	for _, text := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(text) == nil && (k.Use == "" || k.Use == "sig") && algorithmsOf(&k) != nil {
			keys = append(keys, k)
		}
	}
	return keys, nil
}
