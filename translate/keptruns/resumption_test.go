package keptruns_test

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/internal/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptruns"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// resuming starts an instance that looks for runs that others have left.
func resuming(t *testing.T, p *providertest.Provider, s *store) *instance {
	t.Helper()
	return start(t, p, s, func(c *keptruns.Config) { c.Running = s.running })
}

func (i *instance) states() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.ended)
}

// Runs that a process has left are followed by the next one without a request, and by one of several.
func TestResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), newStore()
		end := p.Accept("sum")
		first := resuming(t, p, s)
		first.call("k", "acme.sum", "", waits(0))
		first.End(first) // it ends
		next := s.crashed()
		instances := []*instance{resuming(t, p, next), resuming(t, p, &store{disk: next.disk})}
		time.Sleep(5 * time.Second)
		end(3)
		time.Sleep(time.Hour)
		ended := slices.Concat(instances[0].states(), instances[1].states())
		if !slices.Equal(ended, []string{"completed"}) {
			t.Errorf("ended: %q", ended)
		}
		expect(t, instances[0].call("k", "acme.sum", ""), "3", true)
		p.Received(t, "POST /run/sum", 1)
	})
}

// A run that a living process follows is left to it, and adopted when it has ended.
func TestNotResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), newStore()
		end := p.Accept("sum")
		first := resuming(t, p, s)
		first.call("k", "acme.sum", "", waits(0))
		other := resuming(t, p, &store{disk: s.disk})
		time.Sleep(2 * time.Minute)
		p.On("GET /status/x-sum", providertest.Answer(http.StatusServiceUnavailable, "{}")) // this ends what the first one does at the moment
		first.End(first)
		first.Close()
		time.Sleep(time.Hour)
		if a, b := first.states(), other.states(); len(a)+len(b) != 0 {
			t.Fatalf("ended: %q and %q", a, b)
		}
		end(3)
		time.Sleep(time.Hour)
		if a, b := first.states(), other.states(); len(a) != 0 || !slices.Equal(b, []string{"completed"}) {
			t.Errorf("ended: %q and %q", a, b)
		}
	})
}

// A run that is canceled at another instance is followed no longer soon after.
func TestCanceledAtAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), newStore()
		p.Accept("sum")
		i, other := start(t, p, s, nil), start(t, p, &store{disk: s.disk}, nil)
		begun := i.call("k", "acme.sum", "", waits(0))
		time.Sleep(10 * time.Minute)
		answered := make(chan run.State, 1)
		go func() { answered <- i.call("k", "acme.sum", "", waits(time.Hour)).State }()
		time.Sleep(time.Second)
		if state := other.Cancel(t.Context(), owner, &begun.Ref); state != run.Canceled {
			t.Error(state)
		}
		time.Sleep(time.Minute + time.Second)
		p.Forget()
		time.Sleep(time.Hour)
		if n := p.Count(""); n != 0 {
			t.Errorf("%d requests", n)
		}
		if state := <-answered; state != run.Canceled {
			t.Errorf("a call that waits: %s", state)
		}
	})
}
