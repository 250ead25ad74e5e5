package observe

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// health is how the exchanges with each source went, by namespaces. The map is made
// before it is used by several, and not changed any more.
type health map[string]*sourceHealth

type sourceHealth struct {
	faults   catalog.Faults
	answered [healthKinds]atomic.Int64 // when it last did, in Unix nanoseconds; 0: never
	trouble  atomic.Pointer[Trouble]
}

// What a source is asked for: that one of them works again says nothing about the others.
const (
	indexHealth = iota
	descriptorHealth
	runHealth
	healthKinds
)

func healthKindOf(p run.Phase) int {
	switch p {
	case run.PhaseDiscovery:
		return indexHealth
	case run.PhaseDescriptor:
		return descriptorHealth
	}
	return runHealth
}

// state returns when the source last answered, in Unix nanoseconds, 0 being never, its
// newest trouble, and whether it still has that.
func (s *sourceHealth) state() (answered int64, newest *Trouble, lasting bool) {
	for i := range s.answered {
		answered = max(answered, s.answered[i].Load())
	}
	newest = s.trouble.Load()
	return answered, newest, newest != nil && newest.At.UnixNano() > s.answered[healthKindOf(newest.Phase)].Load()
}

// Trouble is the newest exchange that went wrong.
type Trouble struct {
	At      time.Time
	Phase   run.Phase
	Address string
	Status  int // 0: there was no answer
	Reason  string
}

// healthPool keeps over reloads how sources are, for as long as a configuration has
// them. Its keys are digests of what makes a source the same: the settings that
// bridges have to have in common to share anything, its namespace and its URL.
var healthPool = lifetime.NewPool[*sourceHealth]()

// hold takes what is known of the sources from the pool, for as long as it is used.
func (h health) hold(settings string, sources []catalog.Source, use *lifetime.Usage) {
	for i, s := range sources {
		key := lifetime.NewDigest(settings, s.Namespace, s.URL.String()).String()
		known, release, _ := healthPool.Hold(key, func() (*sourceHealth, error) { return new(sourceHealth), nil }) // never fails
		use.OnRelease(release)
		h[s.Namespace] = known
		sources[i].Faults = &known.faults
	}
}

// troubled reports whether an answer is one that an operator has to know of. HTTP 4xx to
// an invocation may be about its arguments; a document or a token should always be there.
func troubled(e *exchange.Exchange) bool {
	switch e.Phase {
	case run.PhaseDiscovery, run.PhaseDescriptor, run.PhaseAuth:
		return e.Status >= http.StatusBadRequest
	}
	return e.Status >= http.StatusInternalServerError || e.Status == http.StatusUnauthorized || e.Status == http.StatusTooManyRequests
}

// unusable notes why a source can't be used although it answers.
func (h health) unusable(source string, e *run.Failure) {
	if s := h[source]; s != nil {
		s.trouble.Store(&Trouble{At: time.Now(), Phase: e.Phase, Address: safetext.Field(e.URL, MaxLoggedError), Status: e.HTTPStatus, Reason: safetext.Field(e.Message, MaxLoggedError)})
	}
}

// note notes how an exchange with a source went.
func (h health) note(e *exchange.Exchange) {
	s := h[e.Source]
	switch {
	case s == nil, e.Withheld, e.Abandoned: // for a reason that is known already, or that lies elsewhere
	case e.Err == nil && !troubled(e):
		s.answered[healthKindOf(e.Phase)].Store(time.Now().UnixNano())
	default:
		t := &Trouble{At: time.Now(), Phase: e.Phase, Address: safetext.Field(e.Address(), MaxLoggedError), Status: e.Status}
		if e.Err != nil {
			t.Reason = safetext.Field(e.Err.Error(), MaxLoggedError)
		}
		s.trouble.Store(t)
	}
}
