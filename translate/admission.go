package translate

import "sync/atomic"

// places bounds how much is in progress at a time. There is no queue: who finds
// no place is told so at once.
type places struct {
	name  string // of the limit, for whoever hits it
	most  int64  // 0: no bound
	taken atomic.Int64
}

// take takes a place. It reports whether there was one.
func (p *places) take() bool {
	if n := p.taken.Add(1); p.most > 0 && n > p.most {
		p.taken.Add(-1)
		return false
	}
	return true
}

func (p *places) giveBack() { p.taken.Add(-1) }

// full reports whether there is no place.
func (p *places) full() bool { return p.most > 0 && p.taken.Load() >= p.most }

// admit takes a place for the call. While more runs than are allowed are waiting
// for their end, none is started: one that was accepted can't be turned away.
func (x *execution) admit() *Failure {
	b := x.bridge
	if b.waiting.full() {
		return busy(b.waiting.name, b.waiting.most)
	}
	return x.take(&b.runs)
}

func (x *execution) take(p *places) *Failure {
	if !p.take() {
		return busy(p.name, p.most)
	}
	x.places[x.taken] = p
	x.taken++
	return nil
}

// admitTo takes a place for the call among those that concern a source. It also
// says whether the caller may use the source at all.
func (x *execution) admitTo(s *source) *Failure {
	if s == nil || s == x.admitted {
		return nil
	}
	if !s.admits(x.call.Principal) {
		return anonymous()
	}
	x.admitted = s
	return x.take(&s.runs)
}

// leave gives back the places of the call.
func (x *execution) leave() {
	for _, p := range x.places[:x.taken] {
		p.giveBack()
	}
}
