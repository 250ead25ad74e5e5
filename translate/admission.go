package translate

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// places bounds how much is in progress at a time. There is no queue: a call that
// finds no place fails at once.
type places struct {
	name  string // of the limit, for the error
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
func (p *places) busy() *run.Failure {
	return &run.Failure{
		Kind: run.RateLimited, Phase: run.PhaseDiscovery, By: run.Bridge, Executed: run.ExecutedNo,
		Message: fmt.Sprintf("Too many calls are in progress here (limits %s: %d); try again later.", strings.ReplaceAll(p.name, "_", " "), p.most),
		Limit:   &run.Limit{Name: p.name, Max: p.most},
		Retry:   run.Again(time.Second, 5),
	}
}

// admission is what a call was admitted to.
type admission struct {
	concerned *catalog.Section // the last one that a place was asked of
	places    [4]*places       // that the call has taken
	taken     int
	stay      stay
}

// take takes a place for the call.
func (a *admission) take(p *places) *run.Failure {
	if !p.take() {
		return p.busy()
	}
	a.places[a.taken] = p
	a.taken++
	return nil
}

// leave gives back the places of the call.
func (a *admission) leave() { a.stay.end(a.places[:a.taken]) }

// admitTo takes a place for the call among those that concern a source. It also
// says whether the caller may use the source at all.
func (x *execution) admitTo(s *catalog.Section) *run.Failure {
	if s == nil || s == x.concerned {
		return nil
	}
	x.concerned = s
	if !s.Admits(x.call.Principal) {
		return anonymous()
	}
	return x.take(&x.bridge.sources[s.Place])
}

// stay is how long places are taken: until the call has ended, and each reading of a
// document that it began. So no more is read than there are places, however short the
// calls are.
type stay struct {
	within *stay // nil: there is none

	mu     sync.Mutex
	others int // readings that go on
	ended  bool
	places []*places // once the call has ended
}

// Hold keeps the places until release is called.
func (s *stay) Hold() (release func()) {
	s.mu.Lock()
	s.others++
	s.mu.Unlock()
	outer := func() {}
	if s.within != nil {
		outer = s.within.Hold()
	}
	return func() {
		s.mu.Lock()
		s.others--
		s.leave()
		outer()
	}
}

// end tells that the call has ended, and which places it had.
func (s *stay) end(places []*places) {
	s.mu.Lock()
	s.ended, s.places = true, places
	s.leave()
}

// leave gives the places back if nothing needs them any more. It unlocks s.mu.
func (s *stay) leave() {
	places := s.places
	over := s.ended && s.others == 0
	if over {
		s.places = nil
	}
	s.mu.Unlock()
	if over {
		for _, p := range places {
			p.giveBack()
		}
	}
}
