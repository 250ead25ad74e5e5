package lifetime

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// Digest identifies a list of texts, such as the settings that the values of a pool depend on.
// Each text is preceded by its length, so that different lists have different digests.
type Digest struct{ sum hash.Hash }

// NewDigest returns the digest of some texts. Add adds further ones.
func NewDigest(texts ...string) Digest {
	d := Digest{sha256.New()}
	d.Add(texts...)
	return d
}

// Add adds texts.
func (d Digest) Add(texts ...string) {
	for _, text := range texts {
		_, _ = d.sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text)))) // a hash never fails
		_, _ = d.sum.Write([]byte(text))
	}
}

// String returns the digest in hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d.sum.Sum(nil)) }
