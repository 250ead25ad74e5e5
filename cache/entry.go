package cache

import (
	"crypto/sha256"
	"math"
	"net/http"
	"time"
)

// entryOverhead is about what an entry takes beside its texts and its value:
// the structures of this package and of ristretto.
const entryOverhead = 768

// entry is what is known under a key: a document, a failure, or a document and
// the failure to renew it. It is immutable.
type entry struct {
	key     key
	kept    *kept    // nil if there is no document
	failure *failure // nil if the last attempt went well
}

// kept is a document with what is needed to renew it.
type kept struct {
	hit        *Document // its ExpiresAt is the end of freshness
	header     http.Header
	selection  selection
	digest     [sha256.Size]byte // of the body
	staleUntil time.Time         // zero: never stale
	keepUntil  time.Time
	valueCost  int64
}

// failure is a failed attempt that is not to be repeated for some time.
type failure struct {
	remembered *FailureError
	selection  selection
	owner      uint64    // whose it is; 0: everybody's
	stale      *Document // what to hand out instead; nil if nothing
	size       int64
}

// answer is what the entry offers a request without asking the origin; decided
// is false if it offers nothing.
func (e *entry) answer(now time.Time, sent http.Header, owner uint64) (doc *Document, decided bool, err error) {
	if e == nil {
		return nil, false, nil
	}
	k := e.kept
	if k != nil && now.Before(k.hit.ExpiresAt) && k.selection.matches(sent) {
		return k.hit, true, nil
	}
	f := e.failure
	if f == nil || !f.concerns(owner) || !now.Before(f.remembered.RetryAt) || !f.selection.matches(sent) {
		return nil, false, nil
	}
	if f.stale != nil && now.Before(k.staleUntil) && k.selection.matches(sent) {
		return f.stale, true, nil
	}
	return nil, true, f.remembered
}

func (f *failure) concerns(owner uint64) bool { return f.owner == 0 || f.owner == owner }

// document is the entry's kept document, or nil.
func (e *entry) document() *kept {
	if e == nil {
		return nil
	}
	return e.kept
}

// keepUntil is when the entry has lost its use.
func (e *entry) keepUntil() time.Time {
	var until time.Time
	if e.kept != nil {
		until = e.kept.keepUntil
	}
	if e.failure != nil && e.failure.remembered.RetryAt.After(until) {
		until = e.failure.remembered.RetryAt
	}
	return until
}

// cost is the entry's size in bytes, or about it.
func (e *entry) cost() int64 {
	cost := int64(entryOverhead + len(e.key.url) + len(e.key.partition))
	if k := e.kept; k != nil {
		cost += int64(len(k.hit.URL)) + headerSize(k.header) + k.selection.size()
		for _, hop := range k.hit.Via {
			cost += int64(len(hop))
		}
		cost = saturatingAdd(cost, k.valueCost)
	}
	if f := e.failure; f != nil {
		cost = saturatingAdd(cost, f.size+f.selection.size())
	}
	return cost
}

func (s selection) size() int64 {
	size := 0
	for _, f := range s.fields {
		size += len(f.name)
		for _, line := range f.lines {
			size += len(line)
		}
	}
	return int64(size)
}

func headerSize(header http.Header) int64 {
	size := 0
	for name, lines := range header {
		size += len(name)
		for _, line := range lines {
			size += len(line)
		}
	}
	return int64(size)
}

// saturatingAdd adds numbers that are not negative.
func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
