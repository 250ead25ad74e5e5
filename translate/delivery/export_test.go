package delivery

// Stats are the figures of a [Deliverer].
type Stats struct {
	Runs     int // in memory
	Lines    int // deliveries in memory
	Versions int // kept
	Held     int64
	Places   int
	Requests int // in progress
}

// StatsOf returns the current figures.
func StatsOf(d *Deliverer) Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	ls := &d.lines
	return Stats{len(ls.runs), ls.places.of[place{}], ls.versions, ls.held, len(ls.places.of), ls.schedule.Active()}
}
