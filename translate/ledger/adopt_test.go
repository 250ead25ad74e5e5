package ledger_test

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
)

// Runs that a process has left are followed by the next one without a request, and by one of several.
func TestResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		end := p.Accept("sum")
		first := start(t, p, s, nil)
		first.Call("k", "acme.sum", "", waits(0))
		first.End(first) // it ends
		next := s.Copy()
		instances := []*instance{start(t, p, next, nil), start(t, p, s, nil)}
		time.Sleep(5 * time.Second)
		end(3)
		time.Sleep(time.Hour)
		ended := slices.Concat(instances[0].Ended(), instances[1].Ended())
		if !slices.Equal(ended, []string{"completed"}) {
			t.Errorf("ended: %q", ended)
		}
		expect(t, instances[0].Call("k", "acme.sum", ""), "3", true)
		p.Received(t, "POST /run/sum", 1)
	})
}

// A run that a living process follows is left to it, and adopted when it has ended.
func TestNotResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		end := p.Accept("sum")
		first := start(t, p, s, nil)
		first.Call("k", "acme.sum", "", waits(0))
		other := start(t, p, s, nil)
		time.Sleep(2 * time.Minute)
		p.On("GET /status/x-sum", providertest.Answer(http.StatusServiceUnavailable, "{}")) // this ends what the first one does at the moment
		first.End(first)
		first.Close(t.Context())
		time.Sleep(time.Hour)
		if a, b := first.Ended(), other.Ended(); len(a)+len(b) != 0 {
			t.Fatalf("ended: %q and %q", a, b)
		}
		end(3)
		time.Sleep(time.Hour)
		if a, b := first.Ended(), other.Ended(); len(a) != 0 || !slices.Equal(b, []string{"completed"}) {
			t.Errorf("ended: %q and %q", a, b)
		}
	})
}
