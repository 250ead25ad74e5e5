package translate_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// crowded is a bridge with room for one call, and what holds it.
type crowded struct {
	*translate.Bridge
	p    *longProvider
	r    *recorder
	stop translate.Stop
	mu   sync.Mutex
	held int // executions that have begun and not ended
}

func newCrowded(t *testing.T, completes int) *crowded {
	t.Helper()
	c := &crowded{p: &longProvider{completes: completes}, r: new(recorder)}
	c.Bridge = longBridgeWith(t, c.p, c.r, func(config *translate.Config) {
		config.MaxRuns, config.MaxRunsPerSource = 1, 1
		config.Stop = &c.stop
		config.Hold = func() func() {
			c.hold(1)
			return func() { c.hold(-1) }
		}
	})
	return c
}

func (c *crowded) hold(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held += n
}

// want checks how many calls are in progress, and whether there is room for another one, which has its end here.
func (c *crowded) want(t *testing.T, about string, inProgress int, room bool) {
	t.Helper()
	calls, waiting := c.InProgress()
	_, total := c.stop.InProgress(10)
	c.mu.Lock()
	held := c.held
	c.mu.Unlock()
	if runs := c.Sources()[0].Runs; int(calls) != inProgress || int(waiting) != inProgress || int(runs) != inProgress || total != inProgress || held != inProgress {
		t.Errorf("%s: in progress are %d calls, %d wait, %d of the source, %d to stop, %d held; want %d", about, calls, waiting, runs, total, held, inProgress)
	}
	o := c.Start(t.Context(), translate.Call{Name: "long"}).Leave()
	if found := o.Failure == nil; found != room || !room && o.Failure.Kind != run.RateLimited {
		t.Errorf("%s: room for another call: %t, want %t", about, found, room)
	}
}

// A detached call gives its room to others, and goes on when its request has ended.
func TestDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowded(t, 8)
		request, leave := context.WithCancel(t.Context())
		x := c.Start(context.WithoutCancel(request), translate.Call{Name: "long"})
		heard := watch(x, 0)
		time.Sleep(1500 * time.Millisecond)
		c.want(t, "before", 1, false)
		leave()
		var all sync.WaitGroup
		for range 3 {
			all.Go(x.Detach)
		}
		all.Wait()
		c.want(t, "detached", 1, true)
		wantWatched(t, "who has detached it", <-heard, run.Accepted, run.Working, run.Completed)
		c.want(t, "at the end", 0, true)
		x.Detach()
		c.want(t, "after the end", 0, true)
		if n := len(slices.DeleteFunc(c.r.calls, func(s translate.Statistics) bool { return s.Operation != translate.OperationExecute })); n != 1 {
			t.Errorf("it was reported %d times", n)
		}
		y := c.Start(t.Context(), translate.Call{Name: "long"})
		c.want(t, "the next", 1, false)
		y.Leave()
	})
}

// Detached calls need no room from the beginning, however many there are, and share the polls of the others.
func TestResumeDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowded(t, 8)
		ref := startLong(t, c.Bridge)
		asks := watch(c.Resume(t.Context(), ref, translate.Call{}), 0)
		var all []<-chan watched
		for range 5 {
			all = append(all, watch(c.Resume(context.Background(), ref, translate.Call{Detached: true}), 0))
		}
		time.Sleep(1500 * time.Millisecond)
		c.want(t, "with five detached", 6, false)
		for _, heard := range append(all, asks) {
			wantWatched(t, "each", <-heard, run.Accepted, run.Working, run.Completed)
		}
		if n := c.p.asked(); n != 8 {
			t.Errorf("%d polls, want 8", n)
		}
		c.want(t, "at the end", 0, true)
	})
}

// A detached call ends with the maximum timeout, or when the process stops: with the last state in both cases.
func TestDetachedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowded(t, 0)
		ref := startLong(t, c.Bridge)
		w := <-watch(c.Resume(context.Background(), ref, translate.Call{Detached: true}), 0)
		wantWatched(t, "who waits for long", w, run.Accepted, run.Working, run.Working)
		if w.at != time.Hour {
			t.Errorf("it ended after %v", w.at)
		}
		started := c.Start(context.Background(), translate.Call{Name: "long"})
		started.Detach()
		all := []<-chan watched{watch(started, 0), watch(c.Resume(context.Background(), ref, translate.Call{Detached: true}), 0)}
		time.Sleep(10 * time.Second)
		c.stop.Now()
		for _, heard := range all {
			w := <-heard
			if f := w.last.Failure; f == nil || f.Kind != run.Stopped || f.Executed != run.ExecutedYes || w.last.State != run.Working || w.last.ExecutionID != "e1" {
				t.Errorf("%+v, %+v", w, w.last.Failure)
			}
		}
	})
}

// A reading of a document that a call has begun keeps its room until it ends, also if the call is detached.
func TestDetachKeepsWhatReads(t *testing.T) {
	p, s := weather(t, nil)
	p.On("POST /run/weather", providertest.Answer(202, providertest.Response("e1", "accepted", nil)))
	b := limited(t, func(c *translate.Config) { c.MaxRuns = 1 }, s)
	x := b.Start(t.Context(), call(`{"city":"x"}`))
	defer x.Leave()
	release := translate.HoldOf(x)
	x.Detach()
	if o := b.Start(t.Context(), call(`{"city":"x"}`)).Leave(); o.Failure == nil || o.Failure.Kind != run.RateLimited {
		t.Errorf("%+v", o.Failure)
	}
	release()
	if o := b.Start(t.Context(), call(`{"city":"x"}`)).Leave(); o.Failure != nil {
		t.Error(o.Failure)
	}
	if calls, _ := b.InProgress(); calls != 1 {
		t.Errorf("%d calls", calls)
	}
}
