package credentials

import "sync"

// maxSignatures is how many of the newest signatures are known.
const maxSignatures = 16 << 10

// signatures are those that were sent lately, of which requests about one run have the
// same.
type signatures struct {
	mu     sync.Mutex
	known  map[string]bool
	newest []string // a ring
	next   int      // of it to be replaced, when it is full
}

func newSignatures() *signatures { return &signatures{known: make(map[string]bool)} }

func (s *signatures) add(signature string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.known[signature]:
		return
	case len(s.newest) < maxSignatures:
		s.newest = append(s.newest, signature)
	default:
		delete(s.known, s.newest[s.next])
		s.newest[s.next] = signature
		s.next = (s.next + 1) % maxSignatures
	}
	s.known[signature] = true
}

// in returns the signatures that stand in text, each at the end of what looks like one.
// What looks like one may have a prefix, which may look so, too.
func (s *signatures) in(text []byte) (found []string) {
	run := 0 // of characters of signatures, up to here
	for i := 0; i <= len(text); i++ {
		if i < len(text) && inSignature[text[i]] {
			run++
			continue
		}
		for _, length := range signatureLengths {
			end := i
			if length.padded && i < len(text) && text[i] == '=' {
				end++
			}
			if start := end - length.size; run >= i-start && start >= 0 && s.has(string(text[start:end])) {
				found = append(found, string(text[start:end]))
			}
		}
		run = 0
	}
	return found
}

func (s *signatures) has(signature string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[signature]
}

// signatureLengths are those of the encodings of 32 bytes.
var signatureLengths = []struct {
	size   int // with padding
	padded bool
}{{64, false}, {44, true}}

// inSignature are the characters of which signatures are made, but for padding.
var inSignature = func() (set [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/" {
		set[c] = true
	}
	return set
}()
