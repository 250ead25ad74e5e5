package polling_test

import (
	"math"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

const (
	ms     = time.Millisecond
	second = time.Second
)

// middle is the random number at which delays do not vary.
func middle() float64 { return 0.5 }

// earliest is the random number at which a learner polls exactly at the times of its schedule.
func earliest() float64 { return 0 }

func TestEqualIntervals(t *testing.T) {
	t.Parallel()
	for polls := range 5 {
		p := polling.Progress{Polls: polls, Elapsed: time.Duration(polls) * second, Remaining: polling.NoDeadline}
		if d := (polling.Backoff{Initial: second, Random: middle}).Next(p); d != second {
			t.Errorf("after %d polls: %v, want 1s", polls, d)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	plan := polling.Backoff{Initial: 100 * ms, Longest: second, Random: middle}
	for polls, want := range []time.Duration{100 * ms, 150 * ms, 225 * ms, 337500 * time.Microsecond, 506250 * time.Microsecond, 759375 * time.Microsecond, second, second} {
		if d := plan.Next(polling.Progress{Polls: polls, Remaining: polling.NoDeadline}); d != want {
			t.Errorf("after %d polls: %v, want %v", polls, d, want)
		}
	}
	if d := plan.Next(polling.Progress{Polls: math.MaxInt, Remaining: polling.NoDeadline}); d != second {
		t.Errorf("after very many polls: %v, want 1s", d)
	}
}

func TestDelaysVary(t *testing.T) {
	t.Parallel()
	never := polling.Progress{Remaining: polling.NoDeadline}
	for _, tc := range []struct {
		random float64
		want   time.Duration
	}{{0, 950 * ms}, {0.25, 975 * ms}, {0.5, second}, {0.75, 1025 * ms}} {
		random := func() float64 { return tc.random }
		if d := (polling.Backoff{Initial: second, Random: random}).Next(never); d != tc.want {
			t.Errorf("fixed, %v: %v, want %v", tc.random, d, tc.want)
		}
		if d := (polling.Backoff{Initial: second, Longest: second, Random: random}).Next(never); d != tc.want {
			t.Errorf("back-off, %v: %v, want %v", tc.random, d, tc.want)
		}
	}
	if d := (polling.Backoff{Initial: second}).Next(never); d < 950*ms || d > 1050*ms {
		t.Errorf("of its own randomness: %v", d)
	}
}

func TestColdStart(t *testing.T) {
	t.Parallel()
	learner := polling.NewStore(polling.Config{Random: earliest}).Learner(polling.Key{})
	var elapsed time.Duration
	for k := range 12 {
		elapsed += learner.Next(polling.Progress{Elapsed: elapsed, Polls: k, Remaining: polling.NoDeadline})
		want := 55 * ms * time.Duration((k+1)*(k+1))
		if (elapsed - want).Abs() > time.Microsecond {
			t.Errorf("poll %d after %v, want %v", k+1, elapsed, want)
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		about    string
		interval time.Duration
		progress polling.Progress
		want     time.Duration
	}{
		{"never sooner than 20 ms", ms, polling.Progress{Remaining: polling.NoDeadline}, 20 * ms},
		{"negative interval", -second, polling.Progress{Remaining: polling.NoDeadline}, 20 * ms},
		{"the provider asks for more", second, polling.Progress{AtLeast: 10 * second, Remaining: polling.NoDeadline}, 10250 * ms},
		{"the provider asks for less", second, polling.Progress{AtLeast: 10 * ms, Remaining: polling.NoDeadline}, second},
		{"the provider asks for ever", second, polling.Progress{AtLeast: math.MaxInt64, Remaining: polling.NoDeadline}, polling.Never},
		{"the last poll, a round trip and a quarter before", second, polling.Progress{Polls: 1, RoundTrip: 400 * ms, Remaining: second}, 500 * ms},
		{"the last poll, 10 ms at least", second, polling.Progress{Polls: 1, Remaining: second}, 990 * ms},
		{"just enough time for another after it", second, polling.Progress{Polls: 1, RoundTrip: 400 * ms, Remaining: 1520 * ms}, second},
		{"not enough time for another after it", second, polling.Progress{Polls: 1, RoundTrip: 400 * ms, Remaining: 1519 * ms}, 1019 * ms},
		{"no time for another", second, polling.Progress{Polls: 1, RoundTrip: 400 * ms, Remaining: 519 * ms}, polling.Never},
		{"little time for the first", second, polling.Progress{RoundTrip: 400 * ms, Remaining: 400 * ms}, 200 * ms},
		{"no time for the first", second, polling.Progress{Remaining: 19 * ms}, polling.Never},
		{"the deadline has passed", second, polling.Progress{Remaining: -second}, polling.Never},
		{"the deadline is now", second, polling.Progress{}, polling.Never},
		{"the provider asks for more than there is", second, polling.Progress{AtLeast: 10 * second, Remaining: 10 * second}, polling.Never},
		{"the provider asks for nearly all there is", second, polling.Progress{AtLeast: 10 * second, Remaining: 10100 * ms}, 10090 * ms},
		{"negative round trip", second, polling.Progress{Polls: 1, RoundTrip: -second, Remaining: second}, 990 * ms},
	} {
		if d := (polling.Backoff{Initial: tc.interval, Random: middle}).Next(tc.progress); d != tc.want {
			t.Errorf("%s: %v, want %v", tc.about, d, tc.want)
		}
	}
}

// Delays keep the rules for any progress.
func TestRules(t *testing.T) {
	t.Parallel()
	r := newRandom(1)
	plans := map[string]polling.Plan{
		"fixed":    polling.Backoff{Initial: 700 * ms, Random: r.Float64},
		"back-off": polling.Backoff{Initial: ms, Longest: 10 * second, Random: r.Float64},
		"cold":     taught(t, 0, nine[0], 0, r),
		"cheap":    taught(t, time.Nanosecond, nine[7], 128, r),
		"dear":     taught(t, time.Hour, nine[7], 128, r),
	}
	for _, l := range nine {
		plans[l.name] = taught(t, 0, l, 128, r)
	}
	span := func(longest time.Duration) time.Duration {
		d := time.Duration(math.Exp(r.Float64() * math.Log(float64(longest))))
		return []time.Duration{d, d, d, 0, -d}[r.IntN(5)]
	}
	for name, plan := range plans {
		_, learns := plan.(*polling.Learner)
		for range 5000 {
			p := polling.Progress{Elapsed: span(math.MaxInt64), Polls: r.IntN(100), RoundTrip: span(time.Minute), Remaining: span(time.Hour), AtLeast: span(time.Hour)}
			if r.IntN(3) == 0 {
				p.Remaining = polling.NoDeadline
			}
			if r.IntN(2) == 0 {
				p.AtLeast = 0
			}
			d := plan.Next(p)
			if d == polling.Never {
				if p.Remaining == polling.NoDeadline {
					t.Errorf("%s: never, for %+v", name, p)
				}
				continue
			}
			latest := p.Remaining - max(p.RoundTrip, 0)
			if p.Polls == 0 {
				latest = max(latest, p.Remaining-p.Remaining/2)
			}
			switch {
			case d < 20*ms:
				t.Errorf("%s: only %v, for %+v", name, d, p)
			case d < p.AtLeast:
				t.Errorf("%s: %v is too soon, for %+v", name, d, p)
			case p.Remaining != polling.NoDeadline && d > latest:
				t.Errorf("%s: %v is too late, for %+v", name, d, p)
			case learns && p.AtLeast <= 20*ms && d > max(5*second, max(p.Elapsed, 0)/4)+21*ms:
				t.Errorf("%s: %v is too long, for %+v", name, d, p)
			}
		}
	}
}

// The last poll of a run that does not end is right before the deadline.
func TestLastPoll(t *testing.T) {
	t.Parallel()
	const roundTrip = 40 * ms
	r := newRandom(1)
	for _, l := range nine {
		plan := taught(t, 0, l, 128, r)
		for range 100 {
			deadline := time.Duration(r.Int64N(int64(30*second))) + 200*ms
			var now, last time.Duration
			for polls := 0; ; polls++ {
				d := plan.Next(polling.Progress{Elapsed: now, Polls: polls, RoundTrip: roundTrip, Remaining: deadline - now})
				if d == polling.Never {
					break
				}
				last = now + d
				now = last + roundTrip
			}
			if left := deadline - last; left < roundTrip || left > 2*roundTrip+40*ms {
				t.Errorf("%s, deadline %v: the last poll leaves %v", l.name, deadline, left)
			}
		}
	}
}

// Polls vary by a twentieth of the smaller gap.
func TestLearnerVariesByTheSmallerGap(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		law
		least, most time.Duration
	}{
		{nine[0], 0, 10 * ms},           // one poll at 2 s, the next ones right after
		{nine[3], 15 * ms, 2 * 40 * ms}, // every 0.3 s
		{nine[5], 10 * ms, 2 * 40 * ms}, //
	} {
		random := 0.0
		store := polling.NewStore(polling.Config{Run: func(f func()) { f() }, Random: func() float64 { return random }})
		learner := store.Learner(polling.Key{})
		r := newRandom(1)
		for range 128 {
			d := duration(tc.draw(r))
			learner.Done(polling.Completion{Execution: d, Ended: d, Polls: 2})
		}
		p := polling.Progress{Remaining: polling.NoDeadline}
		low := learner.Next(p)
		random = 1
		if varies := learner.Next(p) - low; varies < tc.least || varies > tc.most {
			t.Errorf("%s: the first poll varies by %v", tc.name, varies)
		}
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	r := newRandom(1)
	for _, plan := range []polling.Plan{taught(t, 0, nine[4], 128, r), polling.Backoff{Initial: second}, polling.Backoff{Initial: second, Longest: second}} {
		p := polling.Progress{Elapsed: second, Remaining: time.Minute}
		if n := testing.AllocsPerRun(100, func() { plan.Next(p) }); n > 0 {
			t.Errorf("%T: %v allocations", plan, n)
		}
	}
}
