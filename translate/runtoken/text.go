package runtoken

import (
	"context"
	"encoding/binary"
)

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
