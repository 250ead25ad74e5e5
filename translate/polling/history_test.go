package polling_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// kept returns the time that a history keeps of one completion.
func kept(t *testing.T, c polling.Completion) time.Duration {
	t.Helper()
	var h polling.History
	h.Add(c)
	times := h.Times()
	if len(times) != 1 {
		t.Fatalf("%d times", len(times))
	}
	return duration(float64(times[0])).Round(ms)
}

func TestExecutionTimesAreBelievedWithinWhatWasSeen(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		about                     string
		execution, running, ended time.Duration
		want                      time.Duration
	}{
		{"plausible", 1500 * ms, second, 2 * second, 1500 * ms},
		{"seen by the first poll", 100 * ms, 0, 2 * second, 100 * ms},
		{"not said", 0, second, 2 * second, 1500 * ms},
		{"not said, seen by the first poll", 0, 0, 2 * second, second},
		{"negative", -time.Hour, second, 2 * second, 1500 * ms},
		{"the least there is", math.MinInt64, second, 2 * second, 1500 * ms},
		{"longer than it was polled", 2001 * ms, second, 2 * second, 1500 * ms},
		{"the most there is", math.MaxInt64, second, 2 * second, 1500 * ms},
		{"shorter than it was seen to go on", ms, second, 2 * second, second},
		{"longer than a day", 90 * time.Hour, 0, 100 * time.Hour, 12 * time.Hour},
		{"our own clock went backwards", second, 2 * second, second, second},
		{"nothing was seen", second, -second, -second, 0},
	} {
		if got := kept(t, polling.Completion{Execution: tc.execution, Running: tc.running, Ended: tc.ended, Polls: 3}); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.about, got, tc.want)
		}
	}
}

func seen(d time.Duration) polling.Completion {
	return polling.Completion{Execution: d, Ended: d, Polls: 2}
}

func TestHistoryKeepsTheNewest(t *testing.T) {
	t.Parallel()
	var h polling.History
	for i := range 300 {
		h.Add(seen(2*second + time.Duration(i*7919%100)*ms))
	}
	times := h.Times()
	if len(times) != 128 || h.Len() != 128 {
		t.Fatalf("%d and %d times, want 128", len(times), h.Len())
	}
	for i, got := range times {
		k := 300 - 128 + i
		if want := float32((2*second + time.Duration(k*7919%100)*ms).Seconds()); got != want {
			t.Errorf("time %d: %v, want %v", i, got, want)
		}
	}
}

func TestSchedulesAreDue(t *testing.T) {
	t.Parallel()
	var h polling.History
	r := newRandom(1)
	var due []int
	for i := 1; i <= 300; i++ {
		if h.Add(seen(duration(nine[1].draw(r)))) {
			due = append(due, i)
			polling.NewSchedule(&h, 0)
		}
	}
	if !slices.Equal(due[:8], []int{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("the first ones are due after %v executions, want each", due[:8])
	}
	late := due[len(due)-5:]
	for i := range late[1:] {
		if late[i+1]-late[i] > 16 {
			t.Errorf("the last ones are due after %v executions, want every 16", late)
		}
	}
	if len(due) > 80 {
		t.Errorf("%d were due in 300 executions: %v", len(due), due)
	}
}

// The history of a skill that does not change is very seldom cut.
func TestSteadySkillIsNotForgotten(t *testing.T) {
	t.Parallel()
	for i, l := range nine {
		r := newRandom(i)
		forgotten := 0
		var h polling.History
		for k := range 10_000 {
			h.Add(seen(duration(l.draw(r))))
			if k >= 128 && h.Len() < 128 {
				forgotten++
				for h.Len() < 128 {
					h.Add(seen(duration(l.draw(r))))
				}
			}
		}
		if forgotten > 6 {
			t.Errorf("%s: forgotten %d times in 10,000 executions", l.name, forgotten)
		}
	}
}

// After a lasting change, the older times are deleted; after single outliers, they are not.
func TestChangedSkillIsForgotten(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		about  string
		factor float64
		runs   int
		left   func(n int) bool
	}{
		{"7 times faster", 1. / 7, 6, func(n int) bool { return n <= 8 }},
		{"3 times slower", 3, 6, func(n int) bool { return n <= 8 }},
		{"one fast run", 1. / 7, 1, func(n int) bool { return n == 128 }},
		{"two slow runs", 3, 2, func(n int) bool { return n == 128 }},
	} {
		h := taught(t, 0, nine[1], 200, newRandom(1)).History()
		r := newRandom(2)
		for range tc.runs {
			h.Add(seen(duration(tc.factor * nine[1].draw(r))))
		}
		if !tc.left(h.Len()) {
			t.Errorf("%s: %d execution times are left", tc.about, h.Len())
		}
	}
}

// After a surprise, a new schedule is made at once, and its first poll is early at any
// price.
func TestSurprise(t *testing.T) {
	t.Parallel()
	const fastest = 300 * ms
	for _, price := range []time.Duration{20 * ms, second} {
		for _, known := range []int{20, 50, 128} {
			h := taught(t, 0, lognormal(2, 0.2), known, newRandom(1)).History()
			polling.NewSchedule(h, price)
			for n := 1; n <= 3; n++ {
				if !h.Add(polling.Completion{Execution: fastest, Ended: 1500 * ms, Polls: 1}) {
					t.Fatalf("of %d: no schedule is due after %d surprises", known, n)
				}
				times := h.Times()
				slices.Sort(times)
				latest := max(2*fastest, duration(float64(times[len(times)/10])))
				if first := polling.NewSchedule(h, price).Times()[0]; first > latest+ms {
					t.Errorf("price %v, of %d: after %d surprises, the first poll is after %v, want at most %v", price, known, n, first, latest)
				}
			}
		}
	}
	// An end that the second poll finds is no surprise, nor is one right before the first poll.
	for about, c := range map[string]polling.Completion{
		"not the first poll": {Execution: fastest, Ended: 1500 * ms, Polls: 2},
		"not well before":    {Execution: fastest, Ended: 500 * ms, Polls: 1},
	} {
		h := taught(t, 0, lognormal(2, 0.2), 128, newRandom(1)).History()
		before := polling.NewSchedule(h, second).Times()[0]
		h.Add(c)
		if after := polling.NewSchedule(h, second).Times()[0]; after < before*9/10 {
			t.Errorf("%s: the first poll is after %v, and was after %v", about, after, before)
		}
	}
}

// A schedule keeps the rules, and ends some time after the longest run.
func TestSchedule(t *testing.T) {
	t.Parallel()
	for i, l := range append(slices.Clone(nine), lognormal(0.01, 0.5).named("10 ms"), normal(300, 0.1).named("5 min"), normal(7200, 0.1).named("2 h")) {
		for _, price := range []time.Duration{time.Microsecond, 20 * ms, second, time.Hour} {
			h := taught(t, 0, l, 128, newRandom(i)).History()
			times := polling.NewSchedule(h, price).Times()
			var before time.Duration
			for _, at := range times {
				gap := at - before
				if gap < 20*ms-time.Microsecond-at/1e6 || gap > max(5*second, before/4)+at/1e6 {
					t.Errorf("%s, price %v: a poll after %v, and the next after %v", l.name, price, before, at)
				}
				before = at
			}
			longest := duration(float64(slices.Max(h.Times())))
			if last := times[len(times)-1]; price <= 20*ms && (last < longest || last > 6*longest+second) {
				t.Errorf("%s, price %v: it ends after %v, the longest run after %v", l.name, price, last, longest)
			}
			if len(times) > 1000 {
				t.Errorf("%s, price %v: %d polls", l.name, price, len(times))
			}
		}
	}
}
