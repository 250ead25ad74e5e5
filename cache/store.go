package cache

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"
)

const (
	// documentSize is what ristretto's counters are dimensioned for: about the
	// size of a small JSON document, with what is parsed from it.
	documentSize = 4 << 10
	// maxCounters limits ristretto's counters to about 3 MB.
	maxCounters = 1 << 20
	minCounters = 1 << 10
	// bufferItems is the size ristretto recommends for its buffers of reads.
	bufferItems = 64
)

// key is what a document is known by.
type key struct {
	url, partition string
}

// store holds entries in ristretto and makes its Close safe: that closes
// channels which Get and Set send on.
type store struct {
	hash    func(key) uint64
	maxCost int64
	evicted atomic.Uint64 // not those that were deleted

	mu    sync.RWMutex                     // held for reading while ristretto is used
	cache *ristretto.Cache[uint64, *entry] // nil once closed
}

func newStore(maxCost int64) (*store, error) {
	s := &store{maxCost: maxCost}
	cache, err := ristretto.NewCache(&ristretto.Config[uint64, *entry]{
		// Ten counters for each document that fits, as ristretto advises.
		NumCounters:        min(max(maxCost/documentSize*10, minCounters), maxCounters),
		MaxCost:            maxCost,
		BufferItems:        bufferItems,
		IgnoreInternalCost: true, // entryOverhead includes it
		Metrics:            true,
		OnEvict:            func(*ristretto.Item[*entry]) { s.evicted.Add(1) },
	})
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	seed := maphash.MakeSeed()
	s.hash = func(k key) uint64 { return maphash.Comparable(seed, k) }
	s.cache = cache
	return s, nil
}

// get returns the entry of a key, or nil. Hashes may collide, so the key that
// the entry carries decides.
func (s *store) get(k key) *entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.cache == nil {
		return nil
	}
	e, ok := s.cache.Get(s.hash(k))
	if !ok || e.key != k {
		return nil
	}
	return e
}

// put replaces the entry of a key, which stays until keepUntil. An entry that
// is nil, too large or past its time removes what was there. Others see the
// change once flush has returned.
func (s *store) put(k key, e *entry) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.cache == nil {
		return
	}
	hash := s.hash(k)
	if e != nil {
		cost, ttl := e.cost(), time.Until(e.keepUntil())
		// Ristretto would not refuse a large entry that replaces a small one,
		// and would keep one without a lifetime forever.
		if cost <= s.maxCost && ttl > 0 {
			s.cache.SetWithTTL(hash, e, cost, ttl)
			return
		}
	}
	s.cache.Del(hash)
}

// statistics returns how many entries were evicted, and how much room those take
// that are kept.
func (s *store) statistics() (evicted uint64, bytes int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.cache == nil {
		return 0, 0
	}
	m := s.cache.Metrics
	return s.evicted.Load(), max(0, int64(m.CostAdded())-int64(m.CostEvicted())) //nolint:gosec // sizes in memory
}

// flush waits until all that was put before can be seen.
func (s *store) flush() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.cache != nil {
		s.cache.Wait()
	}
}

func (s *store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cache.Close()
	s.cache = nil
}
