package tokens

import (
	"bytes"
	"slices"
	"strconv"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// Recent keeps the values that were put last: at least as many as most, and less than twice as many. The zero value is empty.
type Recent[V any] struct{ newest, older map[string]V }

// Put puts a value.
func (r *Recent[V]) Put(key string, value V, most int) {
	if len(r.newest) >= most || r.newest == nil {
		r.newest, r.older = make(map[string]V), r.newest
	}
	r.newest[key] = value
	delete(r.older, key)
}

// Get returns the value of a key.
func (r *Recent[V]) Get(key string) (V, bool) {
	value, ok := r.newest[key]
	if !ok {
		value, ok = r.older[key]
	}
	return value, ok
}

// Delete deletes the value of a key.
func (r *Recent[V]) Delete(key string) {
	delete(r.newest, key)
	delete(r.older, key)
}

const (
	// maxSent is how many secrets that were sent are known at least, or as many as have maxSentBytes: a server chooses the size of its tokens.
	maxSent, maxSentBytes = 16 << 10, 32 << 20
	// sentEnd is the length of the longest ends by which they are found, and maxSameEnd how many with the same one are known: those that were added last.
	sentEnd, maxSameEnd = 32, 16
)

// Sent are the secrets that were sent last and of which there are many, such as signatures, and the tokens of users. They are found by a lookup of
// their ends, so that the time for searching a text does not depend on how many there are. The beginnings of tokens are often the same.
type Sent struct {
	mu         sync.RWMutex
	size       int       // of their ends
	bytes      int       // of those that were put since byEnd was begun anew because of them
	characters [256]bool // that they have
	byEnd      Recent[[]string]
}

// Add adds a secret. Those that were not added for the longest time are forgotten.
func (s *Sent) Add(text string) {
	s.mu.RLock()
	known := s.size > 0 && len(text) >= s.size && slices.Contains(s.byEnd.newest[text[len(text)-s.size:]], text)
	s.mu.RUnlock()
	if known || text == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if size := min(len(text), sentEnd); s.size == 0 || size < s.size {
		before := s.byEnd
		s.size, s.bytes, s.byEnd = size, 0, Recent[[]string]{}
		for _, ends := range []map[string][]string{before.older, before.newest} {
			for _, texts := range ends {
				for _, text := range texts {
					s.put(text)
				}
			}
		}
	}
	s.put(text)
}

func (s *Sent) put(text string) {
	for i := range len(text) {
		s.characters[text[i]] = true
	}
	end := text[len(text)-s.size:]
	texts, _ := s.byEnd.Get(end)
	if !slices.Contains(texts, text) {
		texts = append(slices.Clip(texts[max(0, len(texts)+1-maxSameEnd):]), text)
	}
	if s.bytes += len(text); s.bytes > maxSentBytes || len(s.byEnd.newest) >= maxSent {
		s.byEnd.newest, s.byEnd.older, s.bytes = map[string][]string{}, s.byEnd.newest, len(text)
	}
	s.byEnd.Put(end, texts, maxSent)
}

// AddTokens records tokens before they are sent, so that they are redacted from then on, also where package net/http quotes them.
func (s *Sent) AddTokens(tokens ...string) {
	for _, token := range tokens {
		if len(token) < credential.MinOutputSecret {
			continue // it may occur in other data by chance
		}
		for _, form := range FormsOf(token) {
			quoted := strconv.Quote(form)
			s.Add(form)
			s.Add(quoted[1 : len(quoted)-1])
		}
	}
}

// Find returns the known secrets that a text contains.
func (s *Sent) Find(text []byte) (found []string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.size == 0 {
		return nil
	}
	run := 0 // the number of consecutive characters that a secret can have
	for i, c := range text {
		if !s.characters[c] {
			run = 0
			continue
		}
		if run++; run < s.size {
			continue
		}
		end := text[i+1-s.size : i+1]
		candidates := s.byEnd.newest[string(end)]
		if candidates == nil {
			candidates = s.byEnd.older[string(end)]
		}
		for _, candidate := range candidates {
			if bytes.HasSuffix(text[:i+1], []byte(candidate)) {
				found = append(found, candidate)
				run = 0
			}
		}
	}
	return found
}
