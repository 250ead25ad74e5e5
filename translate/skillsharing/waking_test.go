package skillsharing

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// gather has many watch one run, each for a moment longer than the one before it.
func gather(size int) (*follower, []*watcher) {
	c, s := &Client{Polling: Polling{Plan: polling.Backoff{Initial: time.Second}}}, &discovery.Skill{Descriptor: &document.Descriptor{ID: "acme/x", Endpoint: document.Endpoint{StatusURL: "https://acme.example/runs/{execution_id}"}}}
	run, start := &FollowOptions{ExecutionID: "exec-1", Resumed: true}, time.Now()
	all := make([]*watcher, size)
	var f *follower
	for i := range all {
		run.Until = start.Add(time.Hour + time.Duration(i))
		all[i] = newWatcher(context.Background(), run, new(Stats))
		f, _ = c.followers.join(c, s, run, all[i])
	}
	return f, all
}

// disperse has all leave: from the last that came, while they wait; or each as soon as it
// is the one who asks.
func disperse(f *follower, all []*watcher, asking bool) {
	if asking {
		for range all {
			f.handOver(f.asking)
		}
		return
	}
	asks := false
	for _, w := range slices.Backward(all) {
		f.stopWaiting(w, &asks)
	}
}

// TestLeavingTakesNoLongerInACrowd: what one costs who leaves does not grow with how many
// watch the same run.
func TestLeavingTakesNoLongerInACrowd(t *testing.T) {
	const few, many = 500, 20_000
	each := func(size int, asking bool) (best time.Duration) {
		best = time.Hour
		for range 5 {
			f, all := gather(size)
			start := time.Now()
			disperse(f, all, asking)
			best = min(best, time.Since(start)/time.Duration(size))
			if f.asking != nil || f.waiting.Len() != 0 || !f.ended {
				t.Fatal("somebody is still there")
			}
		}
		return best
	}
	for _, asking := range []bool{false, true} {
		if a, b := each(few, asking), each(many, asking); b > 20*a+2*time.Microsecond { // 40 times, if it grew as they do; caches explain a few times
			t.Errorf("of %d one leaves in %v, of %d in %v (asking: %t)", few, a, many, b, asking)
		}
	}
}

func BenchmarkLeave(b *testing.B) {
	for name, asking := range map[string]bool{"waiting": false, "asking": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				f, all := gather(10_000)
				b.StartTimer()
				disperse(f, all, asking)
			}
		})
	}
}

// Those who wait are woken for the first news, and not for each answer.
func TestWakesAreFew(t *testing.T) {
	w, other := &watcher{ctx: t.Context()}, &watcher{ctx: t.Context(), woken: make(chan struct{}, 1)}
	f := &follower{poller: poller{skill: new(discovery.Skill), phase: run.PhasePoll}, mustAsk: true}
	f.waiting.Push(other)
	f.schedule.run = polling.Start(polling.Backoff{Initial: time.Second}, nil, time.Now(), time.Time{})
	for i, want := range []int{1, 0, 0} {
		r, e := &document.Response{State: run.Working}, (*run.Failure)(nil)
		if i == 1 {
			r, e = nil, &run.Failure{Kind: run.Unreachable, HTTPStatus: http.StatusBadGateway}
		}
		if !f.goOn(t.Context(), w, r, 0, e) || len(other.woken) != want {
			t.Errorf("after %d answers it was woken %d times, want %d", i+1, len(other.woken), want)
		}
		select {
		case <-other.woken:
		default:
		}
	}
}
