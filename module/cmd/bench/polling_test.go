package main

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// The waiter polls at once, then within the bounds of its delays.
func TestWaiter(t *testing.T) {
	t.Parallel()
	w := waiter{rand.New(rand.NewPCG(1, 1))}
	for polls, most := range []string{"0s", "2s", "4s", "8s", "16s", "32s", "64s", "2m", "2m", "2m"} {
		most, err := time.ParseDuration(most)
		if err != nil {
			t.Fatal(err)
		}
		least := min(2*time.Second, most)
		var longest time.Duration
		for range 1000 {
			d := w.Next(polling.Progress{Polls: polls})
			if d < least || d > most {
				t.Fatalf("after %d polls it waits for %s, want %s to %s", polls, d, least, most)
			}
			longest = max(longest, d)
		}
		if longest < most*95/100 {
			t.Errorf("after %d polls it never waits longer than %s, want up to %s", polls, longest, most)
		}
	}
}

// A run's end is found by the first poll that is not before it.
func TestFollow(t *testing.T) {
	t.Parallel()
	every := polling.Fixed{Interval: time.Second, Random: func() float64 { return 0.5 }}
	for _, tc := range []struct {
		takes time.Duration
		want  cost
	}{
		{1500 * time.Millisecond, cost{0.5, 2}},
		{2 * time.Second, cost{0, 2}},
		{0, cost{1, 1}},
	} {
		if got := follow(every, tc.takes); math.Abs(got.delay-tc.want.delay) > 1e-9 || got.polls != tc.want.polls {
			t.Errorf("a run of %s: %+v, want %+v", tc.takes, got, tc.want)
		}
	}
}

// The bridge has learned when it is compared: it waits for what it knows will take two seconds.
func TestTaught(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	plan := taught(polling.DefaultPrice, nine[0], 1, r)()
	if d := plan.Next(polling.Progress{Remaining: polling.NoDeadline}); d < 1800*time.Millisecond || d > 2200*time.Millisecond {
		t.Errorf("the first poll of a run of 2 s comes after %s", d)
	}
}

// The laws have the middle that their names say.
func TestLaws(t *testing.T) {
	t.Parallel()
	for i, want := range []float64{2, 2, 0.2 * math.Ln2, 2 * math.Ln2, 2, 2, 0.21, 30, 0.5 * math.Pow(2, 1/1.5)} {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		drawn := make([]float64, 20001)
		for k := range drawn {
			drawn[k] = nine[i].draw(r)
		}
		if got := median(drawn); math.Abs(got/want-1) > 0.05 {
			t.Errorf("%s: the median is %.3f s, want %.3f s", nine[i].name, got, want)
		}
	}
}
