package share_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// A rate allows a burst, and then as much as it says, no sooner than Delay says.
func TestRate(t *testing.T) {
	now := time.Unix(1000, 0)
	r := share.NewRate(now, time.Second, 3*time.Second)
	take := func(want int) {
		t.Helper()
		n := 0
		for r.Delay(now) == 0 && r.Take(now) {
			n++
		}
		if n != want || r.Take(now) {
			t.Errorf("%d, want %d", n, want)
		}
	}
	if r.Rest(now) > 0 {
		t.Error("it is not full at first")
	}
	take(3)
	wait := r.Delay(now)
	if wait != time.Second {
		t.Errorf("a delay of %s", wait)
	}
	now = now.Add(wait - 1)
	take(0)
	now = now.Add(1)
	take(1)
	r.Give(2)
	take(2)
	now = now.Add(3*time.Second - 1)
	if r.Rest(now) != 1 || r.Rest(now.Add(1)) > 0 {
		t.Error("when it is full")
	}
	now = now.Add(time.Hour)
	take(3)
	r.SetInterval(10 * time.Second) // longer than the burst: one at a time
	now = now.Add(time.Hour)
	take(1)
	if r.Interval() != 10*time.Second || r.Take(now.Add(-time.Hour)) {
		t.Error("the interval, or a time that has passed")
	}
}

// However many take at a time, they get as many tokens as there are.
func TestRateAtATime(t *testing.T) {
	now := time.Unix(1000, 0)
	r := share.NewRate(now, time.Second, 100*time.Second)
	var taken atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				if r.Take(now) {
					taken.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := taken.Load(); n != 100 {
		t.Errorf("%d, want 100", n)
	}
}
