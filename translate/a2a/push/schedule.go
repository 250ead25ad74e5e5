package push

// The largest numbers of requests at the same time.
const (
	maxActive         = 64
	maxActivePerOwner = 16
	maxActivePerHost  = 8
	// No request begins while the bodies of those in progress have this many bytes together, or those of its owner half as many.
	maxBodies = 64 << 20
)

// schedule selects the line for the next request. Owners take turns, and so do the hosts of an owner, so that slow hosts and owners
// with many tasks do not delay others. The lock of the [Deliverer] protects it.
type schedule struct {
	active int
	bodies int64
	hosts  map[string]int // requests in progress
	owners map[string]*ownerTurns
	turns  []*ownerTurns // the owners with lines, in the order of their turns
}

// ownerTurns are the lines of one owner that wait.
type ownerTurns struct {
	name   string
	active int
	bodies int64
	hosts  map[string]*hostTurns
	turns  []*hostTurns // those with lines, in the order of their turns
}

// hostTurns are the lines of one owner to one host, in order.
type hostTurns struct {
	name  string
	lines []*line
}

func newSchedule() schedule {
	return schedule{hosts: map[string]int{}, owners: map[string]*ownerTurns{}}
}

// add queues a line.
func (s *schedule) add(l *line) {
	o := s.owners[l.key.owner]
	if o == nil {
		o = &ownerTurns{name: l.key.owner, hosts: map[string]*hostTurns{}}
		s.owners[l.key.owner] = o
	}
	h := o.hosts[l.host]
	if h == nil {
		h = &hostTurns{name: l.host}
		o.hosts[l.host] = h
		o.turns = append(o.turns, h)
		if len(o.turns) == 1 {
			s.turns = append(s.turns, o)
		}
	}
	h.lines = append(h.lines, l)
}

// next removes and returns the next line that may send a request; nil: there is none.
func (s *schedule) next() *line {
	if s.active >= maxActive || s.bodies >= maxBodies {
		return nil
	}
	for range s.turns { // at most maxActive/maxActivePerOwner owners are skipped
		o := s.turns[0]
		s.turns = s.turns[1:]
		l := s.nextOf(o)
		if len(o.turns) > 0 {
			s.turns = append(s.turns, o)
		}
		if l != nil {
			l.body, l.at = min(l.size, maxBodies/2), l.host
			s.active++
			s.bodies += l.body
			s.hosts[l.at]++
			o.active++
			o.bodies += l.body
			return l
		}
	}
	return nil
}

func (s *schedule) nextOf(o *ownerTurns) *line {
	if o.active >= maxActivePerOwner || o.bodies >= maxBodies/2 {
		return nil
	}
	for range o.turns { // at most maxActive/maxActivePerHost hosts are skipped
		h := o.turns[0]
		o.turns = o.turns[1:]
		if s.hosts[h.name] >= maxActivePerHost {
			o.turns = append(o.turns, h)
			continue
		}
		l := h.lines[0]
		h.lines = h.lines[1:]
		if len(h.lines) > 0 {
			o.turns = append(o.turns, h)
		} else {
			delete(o.hosts, h.name)
		}
		return l
	}
	return nil
}

// done ends the request of a line that next returned.
func (s *schedule) done(l *line) {
	s.active--
	s.bodies -= l.body
	if s.hosts[l.at]--; s.hosts[l.at] == 0 {
		delete(s.hosts, l.at)
	}
	o := s.owners[l.key.owner]
	o.active--
	o.bodies -= l.body
	if o.active == 0 && len(o.turns) == 0 {
		delete(s.owners, o.name)
	}
}
