package skillbridge

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// health is how the exchanges with each source went, by namespaces. The map is made
// before it is used by several, and not changed any more.
type health map[string]*sourceHealth

type sourceHealth struct {
	faults   translate.Faults
	answered [healthKinds]atomic.Int64 // when it last did, in Unix nanoseconds; 0: never
	trouble  atomic.Pointer[trouble]
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
func (s *sourceHealth) state() (answered int64, newest *trouble, lasting bool) {
	for i := range s.answered {
		answered = max(answered, s.answered[i].Load())
	}
	newest = s.trouble.Load()
	return answered, newest, newest != nil && newest.at.UnixNano() > s.answered[healthKindOf(newest.phase)].Load()
}

// trouble is the newest exchange that went wrong.
type trouble struct {
	at      time.Time
	phase   run.Phase
	address string
	status  int // 0: there was no answer
	reason  string
}

// healthPool keeps over reloads how sources are, for as long as a configuration has
// them. Its keys are digests of what makes a source the same: the settings that
// bridges have to have in common to share anything, its namespace and its URL.
var healthPool = caddy.NewUsagePool()

// Destruct implements caddy.Destructor.
func (*sourceHealth) Destruct() error { return nil }

// hold takes what is known of the sources from the pool. The function that it
// returns gives it up.
func (h health) hold(settings string, sources []translate.Source) (release func()) {
	keys := make([]string, len(sources))
	for i, s := range sources {
		d := newDigest()
		d.add(settings)
		d.add(s.Namespace)
		d.add(s.URL.String())
		keys[i] = d.text()
		known, _, _ := healthPool.LoadOrNew(keys[i], func() (caddy.Destructor, error) { return new(sourceHealth), nil }) // never fails
		h[s.Namespace] = known.(*sourceHealth)
		sources[i].Faults = &h[s.Namespace].faults
	}
	return func() {
		for _, key := range keys {
			_, _ = healthPool.Delete(key) // Destruct never fails
		}
	}
}

// troubled reports whether an answer is one that an operator has to know of. HTTP 4xx to
// an invocation may be about its arguments; a document or a token should always be there.
func troubled(e *skillsharing.Exchange) bool {
	switch e.Phase {
	case run.PhaseDiscovery, run.PhaseDescriptor, run.PhaseAuth:
		return e.Status >= http.StatusBadRequest
	}
	return e.Status >= http.StatusInternalServerError || e.Status == http.StatusUnauthorized || e.Status == http.StatusTooManyRequests
}

// unusable notes why a source can't be used although it answers.
func (h health) unusable(source string, e *run.Failure) {
	if s := h[source]; s != nil {
		s.trouble.Store(&trouble{at: time.Now(), phase: e.Phase, address: clip(e.URL, maxLoggedError), status: e.HTTPStatus, reason: clip(e.Message, maxLoggedError)})
	}
}

// note notes how an exchange with a source went.
func (h health) note(e *skillsharing.Exchange) {
	s := h[e.Source]
	switch {
	case s == nil, e.Withheld, e.Abandoned: // for a reason that is known already, or that lies elsewhere
	case e.Err == nil && !troubled(e):
		s.answered[healthKindOf(e.Phase)].Store(time.Now().UnixNano())
	default:
		t := &trouble{at: time.Now(), phase: e.Phase, address: clip(e.Address(), maxLoggedError), status: e.Status}
		if e.Err != nil {
			t.reason = clip(e.Err.Error(), maxLoggedError)
		}
		s.trouble.Store(t)
	}
}
