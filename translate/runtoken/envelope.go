package runtoken

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"
)

// envelope is the common form of tokens and sealed texts: a version, the id of a key, a nonce, and the ciphertext.
type envelope struct {
	data []byte // up to the end of the nonce, and then the plaintext or the ciphertext
	aead cipher.AEAD
}

const (
	idEnd    = 1 + len(KeyID{})
	nonceEnd = idEnd + chacha20poly1305.NonceSizeX
)

// sizeOf returns the size of an envelope, in bytes.
func sizeOf(plaintext int) int { return nonceEnd + plaintext + chacha20poly1305.Overhead }

// newEnvelope returns an envelope for the current key, to whose data the plaintext has to be appended.
func (s *Sealer) newEnvelope(ctx context.Context, version byte, size int) (e envelope, err error) {
	key, err := s.keys.Current(ctx)
	if err != nil {
		return e, err
	}
	aead, err := key.aead()
	if err != nil {
		return e, err
	}
	data := append(make([]byte, 0, size), version)
	data = append(data, key.ID[:]...)[:nonceEnd]
	_, _ = rand.Read(data[idEnd:]) // it never fails
	return envelope{data, aead}, nil
}

// seal encrypts the plaintext in place, so that it does not stay in memory, and returns the envelope as text.
func (e *envelope) seal(binding []byte) string {
	e.data = e.aead.Seal(e.data[:nonceEnd], e.data[idEnd:nonceEnd], e.data[nonceEnd:], e.additional(binding))
	return encoding.EncodeToString(e.data)
}

// readEnvelope reads an envelope of at most longest characters and at least size bytes. The error is [ErrInvalid], unless the key
// could not be read.
func (s *Sealer) readEnvelope(ctx context.Context, text string, version byte, longest, size int) (e envelope, err error) {
	if len(text) > longest || strings.ContainsAny(text, "\r\n") {
		return e, ErrInvalid
	}
	data, err := encoding.DecodeString(text)
	if err != nil || len(data) < size || data[0] != version {
		return e, ErrInvalid
	}
	e.data = data
	key, ok, err := s.keys.Find(ctx, e.keyID())
	if err != nil {
		return e, err
	}
	if !ok {
		return e, ErrInvalid
	}
	e.aead, err = key.aead()
	return e, err
}

// open decrypts the ciphertext in place.
func (e *envelope) open(binding []byte) (plaintext []byte, err error) {
	plaintext, err = e.aead.Open(e.data[nonceEnd:nonceEnd], e.data[idEnd:nonceEnd], e.data[nonceEnd:], e.additional(binding))
	if err != nil {
		return nil, ErrInvalid
	}
	return plaintext, nil
}

func (e *envelope) keyID() KeyID { return KeyID(e.data[1:idEnd]) }

// additional returns the additional data of the cipher. The binding begins at a fixed offset, so that different bindings have
// different data.
func (e *envelope) additional(binding []byte) []byte {
	return append(append(make([]byte, 0, idEnd+len(binding)), e.data[:idEnd]...), binding...)
}
