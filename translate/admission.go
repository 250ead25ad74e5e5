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

// busy is the failure of a call for which there is no place.
func (p *places) busy() *Failure { return busy(p.name, p.most) }

// admit takes a place for the call.
func (x *execution) admit() *Failure { return x.take(&x.bridge.runs) }

// admitRun takes a place for a run that is about to be started, or followed: one
// that was accepted can't be turned away any more.
func (x *execution) admitRun() *Failure { return x.take(&x.bridge.waiting) }

func (x *execution) take(p *places) *Failure {
	if !p.take() {
		return p.busy()
	}
	x.places[x.taken] = p
	x.taken++
	return nil
}

// admitTo takes a place for the call among those that concern a source. It also
// says whether the caller may use the source at all.
func (x *execution) admitTo(s *source) *Failure {
	if s == nil || s == x.concerned {
		return nil
	}
	x.concerned = s
	if !s.admits(x.call.Principal) {
		return anonymous()
	}
	return x.take(&s.runs)
}

// leave gives back the places of the call.
func (x *execution) leave() {
	for _, p := range x.places[:x.taken] {
		p.giveBack()
	}
}
