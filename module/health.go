package skillbridge

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// health is how the exchanges with each source went, by namespaces.
type health map[string]*sourceHealth

type sourceHealth struct {
	answered atomic.Int64 // when it last did, in Unix nanoseconds; 0: never
	trouble  atomic.Pointer[trouble]
}

// trouble is the newest exchange that went wrong.
type trouble struct {
	at      time.Time
	phase   skillsharing.Phase
	address string
	status  int // 0: there was no answer
	reason  string
}

func newHealth(sources []translate.Source) health {
	h := make(health, len(sources))
	for _, s := range sources {
		h[s.Namespace] = new(sourceHealth)
	}
	return h
}

func (h health) note(e *skillsharing.Exchange) {
	s := h[e.Source]
	switch {
	case s == nil, e.Withheld: // which has a reason that is known already
	case e.Err == nil && e.Status < http.StatusInternalServerError:
		s.answered.Store(time.Now().UnixNano())
	default:
		t := &trouble{at: time.Now(), phase: e.Phase, address: clip(e.Address(), maxLoggedError), status: e.Status}
		if e.Err != nil {
			t.reason = clip(e.Err.Error(), maxLoggedError)
		}
		s.trouble.Store(t)
	}
}
