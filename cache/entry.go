package cache

import (
	"crypto/sha256"
	"net/http"
	"time"
)

const (
	// entryOverhead is the approximate size of an entry without its texts and its value:
	// the structures of this package and of ristretto.
	entryOverhead = 768
	// maxValueCost keeps the sum of costs within an int64.
	maxValueCost = 1 << 62
)

// entry is what is known under a key: a document, a failure, or a document and
// the failure to renew it. It is immutable. A nil entry knows nothing.
type entry struct {
	key     key
	kept    *kept    // nil if there is no document
	failure *failure // nil if the last attempt succeeded
}

// kept is a document with what is needed to renew it.
type kept struct {
	hit        *Document // its ExpiresAt is the end of freshness
	header     http.Header
	asked      time.Time         // when the origin was last asked for it
	digest     [sha256.Size]byte // of the body
	staleUntil time.Time         // zero: never stale
	keepUntil  time.Time
	valueCost  int64 // from 0 to maxValueCost
}

// failure is a failed attempt that is not to be repeated for some time.
type failure struct {
	remembered *FailureError
	owner      uint64    // the only owner that it concerns; 0: all
	stale      *Document // what to return instead; nil: nothing
	size       int64
}

// answer returns what the entry has for a request, a document or an error. Both are
// nil if the origin must be asked.
func (e *entry) answer(now time.Time, req *Request) (*Document, error) {
	k := e.document()
	fresh := k != nil && now.Before(k.hit.ExpiresAt)
	if fresh && !k.asked.Before(req.AskedSince) {
		return k.hit, nil
	}
	f := e.failureFor(req.Owner, now)
	switch {
	case f == nil:
		return nil, nil
	case fresh:
		return k.hit, nil
	}
	if f.stale != nil && now.Before(k.staleUntil) {
		return f.stale, nil
	}
	return nil, f.remembered
}

// failureFor returns the failure that is still remembered for an owner, or nil.
func (e *entry) failureFor(owner uint64, now time.Time) *failure {
	if e == nil || e.failure == nil || !now.Before(e.failure.remembered.RetryAt) {
		return nil
	}
	if e.failure.owner != 0 && e.failure.owner != owner {
		return nil
	}
	return e.failure
}

// document is the entry's kept document, or nil.
func (e *entry) document() *kept {
	if e == nil {
		return nil
	}
	return e.kept
}

// staleFor returns a copy of the document to serve instead of an error; nil: there
// is no document, or it is too old.
func (k *kept) staleFor(err error) *Document {
	if k == nil || !time.Now().Before(k.staleUntil) {
		return nil
	}
	stale := *k.hit
	stale.State, stale.Err = Stale, err
	return &stale
}

// keepUntil returns the time after which the entry has no use.
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

// cost is the approximate size of the entry, in bytes.
func (e *entry) cost() int64 {
	cost := int64(entryOverhead + len(e.key.url) + len(e.key.partition))
	if k := e.kept; k != nil {
		cost += k.valueCost + int64(len(k.hit.URL)) + headerSize(k.header)
		for _, hop := range k.hit.Via {
			cost += int64(len(hop))
		}
	}
	if e.failure != nil {
		cost += e.failure.size
	}
	return cost
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
