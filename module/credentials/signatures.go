package credentials

import (
	"encoding/binary"
	"strings"
	"sync"
	"sync/atomic"
)

// maxSignatures is how many of the newest signatures are known.
const maxSignatures = 16 << 10

// signatures are the newest that were sent, without their padding. Requests about one run
// have the same one.
type signatures struct {
	size atomic.Int64 // of each, in bytes; 0 before the first

	mu     sync.Mutex
	known  map[string]bool
	newest []string // a ring
	next   int      // the oldest of a full ring

	// begun counts the known signatures by their beginnings, so that a search takes the
	// lock at almost no position of a text.
	begun [1 << 16]atomic.Int32
}

func newSignatures() *signatures { return &signatures{known: make(map[string]bool)} }

// add makes a signature known. All of one signer are of the same length.
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
		s.begun[beginning([]byte(oldest))].Add(-1)
		s.newest[s.next] = signature
		s.next = (s.next + 1) % maxSignatures
	}
	s.known[signature] = true
	s.begun[beginning([]byte(signature))].Add(1)
	s.size.Store(int64(len(signature)))
}

// in returns the known signatures that a text contains.
func (s *signatures) in(text []byte) (found []string) {
	size := int(s.size.Load())
	if size == 0 {
		return nil
	}
	run := 0 // how many characters before this one may belong to a signature
	for i, c := range text {
		if !inSignature[c] {
			run = 0
			continue
		}
		if run++; run < size {
			continue
		}
		candidate := text[i+1-size : i+1]
		if s.begun[beginning(candidate)].Load() > 0 && s.has(candidate) {
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

// beginning is 16 bits that depend on the first 8 bytes of a signature.
func beginning(signature []byte) uint64 {
	const multiplier = 0x9E3779B97F4A7C15 // spreads the differences of characters over the highest bits
	return binary.LittleEndian.Uint64(signature) * multiplier >> 48
}

// inSignature are the characters of which signatures are made, but for padding.
var inSignature = func() (set [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/" {
		set[c] = true
	}
	return set
}()
