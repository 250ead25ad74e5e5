package runtoken

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// Lifetime is how long a token is valid.
	Lifetime = 24 * time.Hour
	// Skew is by how much the clocks of instances may differ. A token that would be
	// valid for longer than Lifetime and Skew was made by a clock that is wrong, and is
	// refused until it would not. A shorter Skew would gain nothing: only holders of a
	// key make tokens.
	Skew = time.Hour
	// MaxToken is the longest token, in characters.
	MaxToken = 4096
)

// The layout of a token; see the documentation of the package.
const (
	version    = 2
	idEnd      = 1 + len(KeyID{})
	nonceEnd   = idEnd + chacha20poly1305.NonceSizeX
	expiryEnd  = 8
	acceptEnd  = expiryEnd + 8
	beforeEnd  = acceptEnd + 8
	digestSize = 16 // nobody has two blocks to choose from: a second preimage would have to be found
	bridgeEnd  = beforeEnd + digestSize
	alikeEnd   = bridgeEnd + 1
	siteEnd    = alikeEnd + digestSize
	lengthSize = 2
)

var (
	// ErrInvalid refuses every token that is not valid, for whatever reason.
	ErrInvalid = errors.New("runtoken: the token is not valid")
	// ErrUnsealable is about a run that no token can stand for, since what identifies
	// it is missing or too long.
	ErrUnsealable = errors.New("runtoken: no token can stand for this run")
)

// encoding has one text for each sequence of bytes. It still skips line breaks.
var encoding = base64.RawURLEncoding.Strict()

// Block is what a token is bound to: the bridge that gives it out, as far as it
// concerns the source of the run. The zero Block stands for a source that is not
// there.
type Block struct {
	// Bridge identifies the bridge at all instances of it. Every token is bound to it.
	Bridge string
	// Site tells bridges apart that have the same Bridge, though not at all instances. A token is bound to it if such
	// bridges are Alike where it is made or where it is used.
	Site  string
	Alike bool
}

// A Sealer makes tokens and opens them. It is safe for concurrent use.
type Sealer struct {
	keys Keys
	now  func() time.Time
}

// New returns a Sealer. Now is [time.Now] if nil.
func New(keys Keys, now func() time.Time) *Sealer {
	if now == nil {
		now = time.Now
	}
	return &Sealer{keys, now}
}

// Seal makes a token that this principal (empty: anonymous) may use while the block of
// the run's source is what it is now.
func (s *Sealer) Seal(ctx context.Context, ref run.Ref, block Block, principal string) (string, error) {
	fields := [...]string{ref.Source, ref.SkillID, ref.Version, ref.ExecutionID}
	length := nonceEnd + siteEnd + chacha20poly1305.Overhead
	for _, field := range fields {
		length += lengthSize + len(field)
	}
	if block.Bridge == "" || ref.Source == "" || ref.SkillID == "" || ref.ExecutionID == "" || encoding.EncodedLen(length) > MaxToken {
		return "", ErrUnsealable
	}
	key, err := s.keys.Current(ctx)
	if err != nil {
		return "", err
	}
	aead, err := key.aead()
	if err != nil {
		return "", err
	}

	data := append(make([]byte, 0, length), version)
	data = append(data, key.ID[:]...)
	data = data[:nonceEnd]
	_, _ = rand.Read(data[idEnd:]) // it never fails
	bridge, site, alike := digestOf(block.Bridge), digestOf(block.Site), byte(0)
	if block.Alike {
		alike = 1
	}
	data = binary.BigEndian.AppendUint64(data, uint64(s.now().Add(Lifetime).Unix())) //nolint:gosec // after 1970
	data = binary.BigEndian.AppendUint64(data, uint64(milliseconds(ref.Accepted)))   //nolint:gosec // only read back
	data = binary.BigEndian.AppendUint64(data, uint64(milliseconds(ref.NotBefore)))  //nolint:gosec // only read back
	data = append(data, bridge[:]...)
	data = append(data, alike)
	data = append(data, site[:]...)
	for _, field := range fields {
		data = binary.BigEndian.AppendUint16(data, uint16(len(field))) //nolint:gosec // at most MaxToken
		data = append(data, field...)
	}
	// Encrypted in place: nothing of the plaintext stays.
	data = aead.Seal(data[:nonceEnd], data[idEnd:nonceEnd], data[nonceEnd:], additional(data, principal))
	return encoding.EncodeToString(data), nil
}

// Open returns the run that a token stands for, or [ErrInvalid]. Block returns the
// block of a source, the zero Block if there is none (any more). It is only asked
// about sources that a Sealer once put into a token. Any other error comes from the
// keys, and says nothing about the token.
func (s *Sealer) Open(ctx context.Context, token string, block func(source string) Block, principal string) (run.Ref, error) {
	if len(token) > MaxToken || strings.ContainsAny(token, "\r\n") {
		return run.Ref{}, ErrInvalid
	}
	data, err := encoding.DecodeString(token)
	if err != nil || len(data) < nonceEnd+siteEnd+chacha20poly1305.Overhead || data[0] != version {
		return run.Ref{}, ErrInvalid
	}
	key, ok, err := s.keys.Find(ctx, KeyID(data[1:idEnd]))
	if err != nil {
		return run.Ref{}, err
	}
	if !ok {
		return run.Ref{}, ErrInvalid
	}
	aead, err := key.aead()
	if err != nil {
		return run.Ref{}, err
	}
	plain, err := aead.Open(data[nonceEnd:nonceEnd], data[idEnd:nonceEnd], data[nonceEnd:], additional(data, principal))
	if err != nil {
		return run.Ref{}, ErrInvalid
	}

	// The rest is what a Sealer has written, though maybe of another time and place.
	left := int64(binary.BigEndian.Uint64(plain)) - s.now().Unix() //nolint:gosec // as it was written
	ref, ok := parse(plain[siteEnd:])
	if !ok || left <= 0 || left > int64((Lifetime+Skew)/time.Second) {
		return run.Ref{}, ErrInvalid
	}
	now := block(ref.Source)
	if now.Bridge == "" || !equals(plain[beforeEnd:bridgeEnd], now.Bridge) {
		return run.Ref{}, ErrInvalid
	}
	if alike := plain[bridgeEnd] != 0; (alike || now.Alike) && !equals(plain[alikeEnd:siteEnd], now.Site) {
		return run.Ref{}, ErrInvalid
	}
	ref.Accepted, ref.NotBefore = timeOf(plain[expiryEnd:]), timeOf(plain[acceptEnd:])
	return ref, nil
}

// timeOf reads what milliseconds has written.
func timeOf(plain []byte) time.Time {
	ms := int64(binary.BigEndian.Uint64(plain)) //nolint:gosec // as it was written
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

// parse reads the texts of a token, and nothing beyond.
func parse(plain []byte) (ref run.Ref, ok bool) {
	for _, field := range []*string{&ref.Source, &ref.SkillID, &ref.Version, &ref.ExecutionID} {
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
	return ref, len(plain) == 0
}

// additional is what a token is authenticated with beside its plaintext. What stands
// before the principal is always of the same length, so nothing runs into it.
func additional(data []byte, principal string) []byte {
	return append(append(make([]byte, 0, idEnd+len(principal)), data[:idEnd]...), principal...)
}

// equals reports whether a digest is that of a text.
func equals(digest []byte, text string) bool {
	want := digestOf(text)
	return subtle.ConstantTimeCompare(digest, want[:]) == 1
}

func digestOf(text string) [digestSize]byte {
	sum := sha256.Sum256([]byte(text))
	return [digestSize]byte(sum[:digestSize])
}
