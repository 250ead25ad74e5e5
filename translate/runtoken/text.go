package runtoken

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"
)

const (
	// textVersion begins each sealed text. Since no token begins with it, a sealed text can't be opened as a token.
	textVersion = 0x81
	// maxText is the longest sealed text, in characters.
	maxText = 64 << 10
)

// SealText encrypts a secret that a client has given to the bridge, so that it can be stored. Only [Sealer.OpenText] with the same
// binding, such as an owner and an id, opens it. It can be opened for at least a day after it was made.
func (s *Sealer) SealText(ctx context.Context, text string, binding ...string) (string, error) {
	length := nonceEnd + len(text) + chacha20poly1305.Overhead
	if encoding.EncodedLen(length) > maxText {
		return "", errUnsealable
	}
	key, err := s.keys.Current(ctx)
	if err != nil {
		return "", err
	}
	aead, err := key.aead()
	if err != nil {
		return "", err
	}
	data := append(make([]byte, 0, length), textVersion)
	data = append(data, key.ID[:]...)
	data = data[:nonceEnd]
	_, _ = rand.Read(data[idEnd:]) // it never fails
	data = aead.Seal(data, data[idEnd:nonceEnd], []byte(text), bound(data, binding))
	return encoding.EncodeToString(data), nil
}

// OpenText returns a sealed text, or [ErrInvalid]. Old means that the text should be sealed again, since there is a newer key. Any
// other error means that the key could not be read.
func (s *Sealer) OpenText(ctx context.Context, sealed string, binding ...string) (text string, old bool, err error) {
	if len(sealed) > maxText || strings.ContainsAny(sealed, "\r\n") {
		return "", false, ErrInvalid
	}
	data, err := encoding.DecodeString(sealed)
	if err != nil || len(data) < nonceEnd+chacha20poly1305.Overhead || data[0] != textVersion {
		return "", false, ErrInvalid
	}
	id := KeyID(data[1:idEnd])
	key, ok, err := s.keys.Find(ctx, id)
	if err != nil {
		return "", false, err
	}
	if !ok {
		return "", false, ErrInvalid
	}
	aead, err := key.aead()
	if err != nil {
		return "", false, err
	}
	plain, err := aead.Open(nil, data[idEnd:nonceEnd], data[nonceEnd:], bound(data, binding))
	if err != nil {
		return "", false, ErrInvalid
	}
	newest, err := s.keys.Current(ctx)
	return string(plain), err == nil && newest.ID != id, nil
}

// bound returns the additional data of the cipher. Each text of the binding follows its length, so that different bindings have
// different data.
func bound(data []byte, binding []string) []byte {
	b := append([]byte(nil), data[:idEnd]...)
	for _, text := range binding {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(text))), text...)
	}
	return b
}
