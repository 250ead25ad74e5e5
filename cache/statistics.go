package cache

import "sync/atomic"

// Statistics count the results of Get and Fresh since the cache was made. They
// never decrease, except Bytes.
type Statistics struct {
	Hits        uint64 // fresh, and the origin was not asked
	Fetched     uint64 // sent by the origin
	Revalidated uint64 // confirmed by the origin with a 304
	Stale       uint64 // no longer fresh, but the origin was in trouble
	Failed      uint64 // the origin was asked, and there is no document
	Remembered  uint64 // failures for which the origin was not asked again
	Evicted     uint64 // dropped because there was no room, or because their time was up
	Bytes       int64  // approximate size of what is kept
}

type counters struct {
	documents          [states]atomic.Uint64
	failed, remembered atomic.Uint64
}

func (c *counters) count(doc *Document, err error, errors *atomic.Uint64) {
	if err != nil {
		errors.Add(1)
		return
	}
	c.documents[doc.State].Add(1)
}

// Statistics returns what was counted so far.
func (c *Cache) Statistics() Statistics {
	n := &c.counters
	s := Statistics{
		Hits: n.documents[Hit].Load(), Fetched: n.documents[Fetched].Load(), Revalidated: n.documents[Revalidated].Load(),
		Stale: n.documents[Stale].Load(), Failed: n.failed.Load(), Remembered: n.remembered.Load(),
	}
	s.Evicted, s.Bytes = c.store.statistics()
	return s
}
