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
	documentSize = 4 << 10 // approximate size of a small JSON document with its parsed value
	minCounters  = 1 << 10
	maxCounters  = 1 << 20 // they take about 3 MB
)

// key identifies a document.
type key struct {
	url, partition string
}

// store holds entries in ristretto. After close, it stores nothing.
type store struct {
	hash    func(key) uint64
	maxCost int64
	evicted atomic.Uint64 // entries that were removed to make room, not those that put removed

	mu    sync.RWMutex // held for reading while cache is used, because cache panics if it is closed at that time
	cache *ristretto.Cache[uint64, *entry]
}

func newStore(maxCost int64) (*store, error) {
	s := &store{maxCost: maxCost}
	cache, err := ristretto.NewCache(&ristretto.Config[uint64, *entry]{
		// Ten counters for each document that has room, as ristretto advises.
		NumCounters:        min(max(maxCost/documentSize*10, minCounters), maxCounters),
		MaxCost:            maxCost,
		BufferItems:        64,   // as ristretto advises
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

// get returns the entry of a key, or nil. Hashes may collide, so the key in the
// entry decides.
func (s *store) get(k key) *entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e, ok := s.cache.Get(s.hash(k))
	if !ok || e.key != k {
		return nil
	}
	return e
}

// put replaces the entry of a key, and keeps it until its keepUntil. If e is nil, too
// large, or past its keepUntil, put only removes the old entry. The change is visible
// after flush has returned.
func (s *store) put(k key, e *entry) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e != nil {
		cost, ttl := e.cost(), time.Until(e.keepUntil())
		// Ristretto does not check the cost of an entry that replaces another one,
		// and keeps an entry with a TTL of 0 forever.
		if cost <= s.maxCost && ttl > 0 {
			s.cache.SetWithTTL(s.hash(k), e, cost, ttl)
			return
		}
	}
	s.cache.Del(s.hash(k))
}

// flush waits until all changes are visible.
func (s *store) flush() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.cache.Wait()
}

// statistics returns how many entries were evicted, and the size of those that are kept.
func (s *store) statistics() (evicted uint64, bytes int64) {
	m := s.cache.Metrics
	return s.evicted.Load(), max(0, int64(m.CostAdded())-int64(m.CostEvicted())) //nolint:gosec // sizes in memory
}

func (s *store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cache.Close()
}
