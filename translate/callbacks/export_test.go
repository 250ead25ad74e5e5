package callbacks

// Stats are the figures of a [Deliverer].
type Stats struct {
	Waiting  int // call-backs that are not delivered yet, and are not in the storage only
	Requests int // requests in progress
}

// Stats returns the current figures.
func (d *Deliverer) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Stats{len(d.lines.all), d.lines.schedule.Active()}
}

// Bound sets how many call-backs may wait in memory, and how many of one owner. It is called before the Deliverer is used.
func (d *Deliverer) Bound(most, mostOfOne int) { d.lines.most, d.lines.mostOfOne = most, mostOfOne }
