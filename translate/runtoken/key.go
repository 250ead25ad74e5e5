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

// KeyID identifies a key. It is public: every token has one.
type KeyID [4]byte

// String implements [fmt.Stringer].
func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// Secret is the secret of a key. It formats as [redacted], however it is printed.
type Secret [chacha20poly1305.KeySize]byte

// Key encrypts tokens.
type Key struct {
	ID   KeyID
	Made time.Time
	// secret is a function because package fmt prints unexported fields without calling their
	// String methods.
	secret func() Secret
}

// NewKey returns a key with a random secret and a random id. Another key may have the same id.
func NewKey(made time.Time) Key {
	var id KeyID
	var secret Secret
	_, _ = rand.Read(id[:]) // it never fails
	_, _ = rand.Read(secret[:])
	return RestoreKey(id, secret, made)
}

// RestoreKey returns a stored key.
func RestoreKey(id KeyID, secret Secret, made time.Time) Key {
	return Key{ID: id, Made: made, secret: func() Secret { return secret }}
}

// Secret returns the secret for storing it.
func (k Key) Secret() Secret {
	if k.secret == nil {
		return Secret{}
	}
	return k.secret()
}

// aead returns the cipher of a key. The zero Key has none, because everyone would know its secret.
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

// MarshalText implements [encoding.TextMarshaler] without the secret. To store a Secret,
// convert it to an array of bytes.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

const redacted = "[redacted]"

// Keys has the keys for making and opening tokens. It is safe for concurrent use.
type Keys interface {
	// Current returns the key for new tokens.
	Current(ctx context.Context) (Key, error)
	// Find returns a key by its id; ok is false if there is none. An error means that it
	// is not known whether there is one.
	Find(ctx context.Context, id KeyID) (key Key, ok bool, err error)
}
