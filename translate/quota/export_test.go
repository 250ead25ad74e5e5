package quota

// SetMost sets how much counters keep.
func SetMost(c *Counters, most int) { c.most = most }

// Kept returns how much counters keep.
func Kept(c *Counters) int { return len(c.counts) + len(c.left) }
