package credentials

import (
	"encoding/binary"
	"strings"
	"sync"
	"sync/atomic"
)

// maxSignatures is how many signatures are kept.
const maxSignatures = 16 << 10

// signatures are the newest signatures that were sent, without padding. All have the same length.
// Equal requests, such as those for the status of a run, have equal signatures.
type signatures struct {
	size atomic.Int64 // of each, in bytes; 0 before the first

	mu     sync.Mutex
	known  map[string]bool
	newest []string // a ring buffer
	next   int      // index of the oldest in a full ring

	// hashes counts the known signatures by their prefixHash, so that a search takes the lock at
	// few positions of a text.
	hashes [1 << 16]atomic.Int32
}

func newSignatures() *signatures { return &signatures{known: make(map[string]bool)} }

// add adds a signature, and removes the oldest if there are too many.
func (s *signatures) add(signature string) {
	signature = strings.TrimRight(signature, "=")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.known[signature]:
		return
	case len(s.newest) < maxSignatures:
		s.newest = append(s.newest, signature)
	default:
		oldest := s.newest[s.next]
		delete(s.known, oldest)
		s.hashes[prefixHash([]byte(oldest))].Add(-1)
		s.newest[s.next] = signature
		s.next = (s.next + 1) % maxSignatures
	}
	s.known[signature] = true
	s.hashes[prefixHash([]byte(signature))].Add(1)
	s.size.Store(int64(len(signature)))
}

// find returns the known signatures that a text contains.
func (s *signatures) find(text []byte) (found []string) {
	size := int(s.size.Load())
	if size == 0 {
		return nil
	}
	run := 0 // number of consecutive characters that a signature can have
	for i, c := range text {
		if !inSignature[c] {
			run = 0
			continue
		}
		if run++; run < size {
			continue
		}
		candidate := text[i+1-size : i+1]
		if s.hashes[prefixHash(candidate)].Load() > 0 && s.has(candidate) {
			found = append(found, string(candidate))
			run = 0
		}
	}
	return found
}

func (s *signatures) has(candidate []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[string(candidate)]
}

// prefixHash returns a 16-bit hash of the first 8 bytes of a signature.
func prefixHash(signature []byte) uint64 {
	const multiplier = 0x9E3779B97F4A7C15 // mixes all bytes into the highest bits
	return binary.LittleEndian.Uint64(signature) * multiplier >> 48
}

// inSignature are the characters of hexadecimal and base64 signatures, without padding.
var inSignature = func() (set [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/" {
		set[c] = true
	}
	return set
}()
