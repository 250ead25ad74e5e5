package runtoken

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// Lifetime is how long a token is valid, unless the operator says otherwise.
	Lifetime = 24 * time.Hour
	// MaxLifetime is the longest time that an operator may say.
	MaxLifetime = 90 * 24 * time.Hour
	// Skew is by how much the clocks of instances may differ. A token that expires later than
	// MaxLifetime plus Skew from now was made by an instance whose clock is wrong. Less would refuse
	// tokens made before the operator shortened the lifetime, and would not be safer, because only
	// holders of a key can make tokens.
	Skew = time.Hour
	// maxToken is the longest token, in characters.
	maxToken = 4096
)

// The layout of a token; see the documentation of the package.
const (
	version    = 3
	headerSize = 8 + 8 + 8 + digestSize
	digestSize = 16 // enough against second preimages; an attacker gains nothing from collisions
	lengthSize = 2
)

// header begins the plaintext. Its fields are written in this order, big-endian.
type header struct {
	Expiry    int64 // Unix seconds
	Accepted  int64 // Unix milliseconds; 0: none
	NotBefore int64 // like Accepted
	Block     [digestSize]byte
}

var (
	// ErrInvalid is the error for every invalid token; it does not say why.
	ErrInvalid = errors.New("runtoken: the token is not valid")
	// errUnsealable is the error for a Ref that lacks a required field or is too long.
	errUnsealable = errors.New("runtoken: no token can stand for this run")
)

// encoding has exactly one text for each sequence of bytes. But its decoder ignores line breaks, so Open refuses them.
var encoding = base64.RawURLEncoding.Strict()

// Block identifies the part of the configuration that a token is bound to: a bridge and one
// of its sources. It is the same at all instances. Empty means that there is no such source.
type Block string

// A Sealer makes tokens and opens them. It is safe for concurrent use.
type Sealer struct {
	keys     Keys
	lifetime time.Duration
	now      func() time.Time
}

// New returns a Sealer whose tokens are valid for a time. Now is [time.Now] if nil.
func New(keys Keys, lifetime time.Duration, now func() time.Time) *Sealer {
	if now == nil {
		now = time.Now
	}
	return &Sealer{keys, lifetime, now}
}

// Lifetime returns how long tokens are valid.
func (s *Sealer) Lifetime() time.Duration { return s.lifetime }

// Seal makes a token for a run. Only this principal (empty: anonymous) can use it, and only
// as long as the block of the run's source does not change.
func (s *Sealer) Seal(ctx context.Context, ref run.Ref, block Block, principal string) (string, error) {
	fields := []string{ref.Source, ref.SkillID, ref.Version, ref.ExecutionID}
	if ref.Kept != "" {
		fields = append(fields, ref.Kept)
	}
	length := headerSize
	for _, field := range fields {
		length += lengthSize + len(field)
	}
	size := sizeOf(length)
	if block == "" || ref.Source == "" || ref.SkillID == "" || ref.ExecutionID == "" || encoding.EncodedLen(size) > maxToken {
		return "", errUnsealable
	}
	e, err := s.newEnvelope(ctx, version, size)
	if err != nil {
		return "", err
	}
	e.data, err = binary.Append(e.data, binary.BigEndian, header{
		Expiry:   s.now().Add(s.lifetime).Unix(),
		Accepted: milliseconds(ref.Accepted), NotBefore: milliseconds(ref.NotBefore),
		Block: digestOf(block),
	})
	if err != nil {
		return "", err
	}
	for _, field := range fields {
		e.data = binary.BigEndian.AppendUint16(e.data, uint16(len(field))) //nolint:gosec // at most maxToken
		e.data = append(e.data, field...)
	}
	return e.seal([]byte(principal)), nil
}

// Open returns the run of a token, or [ErrInvalid]. The function block returns the block
// of the source that the token names, empty if there is no such source. Any
// other error means that the key could not be read.
func (s *Sealer) Open(ctx context.Context, token string, block func(source string) Block, principal string) (run.Ref, error) {
	e, err := s.readEnvelope(ctx, token, version, maxToken, sizeOf(headerSize))
	if err != nil {
		return run.Ref{}, err
	}
	plain, err := e.open([]byte(principal))
	if err != nil {
		return run.Ref{}, err
	}

	// The plaintext is authentic, but it may be old or for another bridge.
	var h header
	if _, err := binary.Decode(plain, binary.BigEndian, &h); err != nil {
		return run.Ref{}, ErrInvalid
	}
	ref, ok := parse(plain[headerSize:])
	left := h.Expiry - s.now().Unix()
	if !ok || left <= 0 || left > int64((MaxLifetime+Skew)/time.Second) {
		return run.Ref{}, ErrInvalid
	}
	if now := block(ref.Source); now == "" || !equals(h.Block, now) {
		return run.Ref{}, ErrInvalid
	}
	ref.Accepted, ref.NotBefore = timeOf(h.Accepted), timeOf(h.NotBefore)
	return ref, nil
}

// timeOf is the inverse of milliseconds.
func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// milliseconds is a time in Unix milliseconds, 0 for none.
func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// parse reads the texts that follow the header. It fails if bytes follow the last text.
func parse(plain []byte) (ref run.Ref, ok bool) {
	for _, field := range []*string{&ref.Source, &ref.SkillID, &ref.Version, &ref.ExecutionID, &ref.Kept} {
		if field == &ref.Kept && len(plain) == 0 {
			return ref, true
		}
		if len(plain) < lengthSize {
			return run.Ref{}, false
		}
		length := int(binary.BigEndian.Uint16(plain))
		plain = plain[lengthSize:]
		if len(plain) < length {
			return run.Ref{}, false
		}
		*field, plain = string(plain[:length]), plain[length:]
	}
	return ref, len(plain) == 0 && ref.Kept != ""
}

// equals reports whether a digest is the digest of a block.
func equals(digest [digestSize]byte, block Block) bool {
	want := digestOf(block)
	return subtle.ConstantTimeCompare(digest[:], want[:]) == 1
}

func digestOf(block Block) [digestSize]byte {
	sum := sha256.Sum256([]byte(block))
	return [digestSize]byte(sum[:digestSize])
}

const (
	// textVersion begins each sealed text. Since no token begins with it, a sealed text can't be opened as a token.
	textVersion = 0x81
	// maxText is the longest sealed text, in characters. It has place for the largest tokens of a user.
	maxText = 128 << 10
)

// SealText encrypts a secret that a client has given to the bridge, so that it can be stored. Only [Sealer.OpenText] with the same
// binding, such as an owner and an id, opens it. It can be opened for at least a day after it was made.
func (s *Sealer) SealText(ctx context.Context, text string, binding ...string) (string, error) {
	size := sizeOf(len(text))
	if encoding.EncodedLen(size) > maxText {
		return "", errUnsealable
	}
	e, err := s.newEnvelope(ctx, textVersion, size)
	if err != nil {
		return "", err
	}
	e.data = append(e.data, text...)
	return e.seal(bytesOf(binding)), nil
}

// OpenText returns a sealed text, or [ErrInvalid]. Old means that the text should be sealed again, since there is a newer key. Any
// other error means that the key could not be read.
func (s *Sealer) OpenText(ctx context.Context, sealed string, binding ...string) (text string, old bool, err error) {
	e, err := s.readEnvelope(ctx, sealed, textVersion, maxText, sizeOf(0))
	if err != nil {
		return "", false, err
	}
	plain, err := e.open(bytesOf(binding))
	if err != nil {
		return "", false, err
	}
	newest, err := s.keys.Current(ctx)
	return string(plain), err == nil && newest.ID != e.keyID(), nil
}

// bytesOf encodes a binding. Each text follows its length, so that different bindings have different bytes.
func bytesOf(binding []string) (b []byte) {
	for _, text := range binding {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(text))), text...)
	}
	return b
}

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
