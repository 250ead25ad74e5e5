package cache

import "sync/atomic"

// Statistics count where documents came from since the cache was made. They only
// grow, but for Bytes.
type Statistics struct {
	Hits        uint64 // fresh, and the origin was not asked
	Fetched     uint64 // sent by the origin
	Revalidated uint64 // confirmed by the origin with a 304
	Stale       uint64 // no longer fresh, but the origin was in trouble
	Failed      uint64 // not to be had from the origin
	Remembered  uint64 // failures for which the origin was not asked again
	Evicted     uint64 // dropped, for want of room or because their time was up
	Bytes       int64  // that are kept, or about that many
}

// counters are what is counted of the [Statistics] on the way.
type counters struct {
	hits, fetched, revalidated, stale, failed, remembered atomic.Uint64
}

// decided counts what was given without asking the origin.
func (c *counters) decided(doc *Document, err error) {
	switch {
	case err != nil:
		c.remembered.Add(1)
	case doc.State == Stale:
		c.stale.Add(1)
	default:
		c.hits.Add(1)
	}
}

// asked counts what came of asking the origin.
func (c *counters) asked(o outcome) {
	switch {
	case o.err != nil:
		c.failed.Add(1)
	case o.doc.State == Revalidated:
		c.revalidated.Add(1)
	case o.doc.State == Stale:
		c.stale.Add(1)
	default:
		c.fetched.Add(1)
	}
}

// Statistics returns what was counted so far.
func (c *Cache) Statistics() Statistics {
	s := Statistics{
		Hits: c.counters.hits.Load(), Fetched: c.counters.fetched.Load(), Revalidated: c.counters.revalidated.Load(),
		Stale: c.counters.stale.Load(), Failed: c.counters.failed.Load(), Remembered: c.counters.remembered.Load(),
	}
	s.Evicted, s.Bytes = c.store.statistics()
	return s
}
