package runtoken

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/crypto/chacha20poly1305"
)

// KeyID tells keys apart. It is public: every token has one.
type KeyID [4]byte

// String implements [fmt.Stringer].
func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// Secret is what tokens are encrypted with.
type Secret [chacha20poly1305.KeySize]byte

// Key is one secret, and what may be known about it.
type Key struct {
	ID   KeyID
	Made time.Time
	// A function, so that no printer that finds a key deep in a struct, where it can't
	// call methods, prints the secret either.
	secret func() Secret
}

// NewKey returns a key with a random secret. Whoever keeps several sees to it that
// their ids differ.
func NewKey(made time.Time) Key {
	var id KeyID
	var secret Secret
	_, _ = rand.Read(id[:]) // it never fails
	_, _ = rand.Read(secret[:])
	return RestoreKey(id, secret, made)
}

// RestoreKey returns a key that was stored.
func RestoreKey(id KeyID, secret Secret, made time.Time) Key {
	return Key{ID: id, Made: made, secret: func() Secret { return secret }}
}

// Secret returns what is to be stored of a key, and to be shown to nobody.
func (k Key) Secret() Secret {
	if k.secret == nil {
		return Secret{}
	}
	return k.secret()
}

// aead is the cipher of a key. One without a secret has none: a secret of zeros would
// be known to everybody.
func (k Key) aead() (cipher.AEAD, error) {
	if k.secret == nil {
		return nil, errors.New("runtoken: a key without a secret")
	}
	secret := k.secret()
	return chacha20poly1305.NewX(secret[:])
}

// String implements [fmt.Stringer] without the secret.
func (k Key) String() string { return "run token key " + k.ID.String() }

// GoString implements [fmt.GoStringer] without the secret.
func (k Key) GoString() string { return k.String() }

// LogValue implements [slog.LogValuer] without the secret.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// String implements [fmt.Stringer] without the secret.
func (Secret) String() string { return redacted }

// GoString implements [fmt.GoStringer] without the secret.
func (Secret) GoString() string { return redacted }

// LogValue implements [slog.LogValuer] without the secret.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements [encoding.TextMarshaler] without the secret. What stores it
// has to convert it before.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

const redacted = "[redacted]"

// Keys are what tokens are made with and opened with. They are safe for concurrent
// use.
type Keys interface {
	// Current returns the key that new tokens are made with.
	Current(ctx context.Context) (Key, error)
	// Find returns a key by its id; ok is false if there is none. An error means that
	// this can't be known now.
	Find(ctx context.Context, id KeyID) (key Key, ok bool, err error)
}
