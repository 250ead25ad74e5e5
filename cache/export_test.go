package cache

// Collide makes all documents collide in ristretto.
func (c *Cache) Collide() { c.store.hash = func(key) uint64 { return 1 } }

// Remaining is how many bytes are free.
func (c *Cache) Remaining() int64 { return c.store.cache.RemainingCost() }

// EntryOverhead is what an entry costs beside its texts and its value.
const EntryOverhead = entryOverhead

// Limiters is how many groups have flights.
func (c *Cache) Limiters() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.limiters)
}
