package polling_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// provider has one run, which ends at some time, and answers after a round trip.
type provider struct {
	ends      time.Time
	roundTrip time.Duration
}

// poll reports whether the run had ended when the request arrived.
func (p provider) poll() bool {
	time.Sleep(p.roundTrip / 2)
	defer time.Sleep(p.roundTrip - p.roundTrip/2)
	return !time.Now().Before(p.ends)
}

// chase follows a run as the package documentation shows, and returns the times of the polls.
func chase(r polling.Run, p provider, atLeast time.Duration) (polls []time.Duration) {
	start := time.Now()
	for {
		d := r.Next(atLeast)
		if d == polling.Never {
			return polls
		}
		time.Sleep(d)
		if !r.Turn().Wait(context.Background(), time.Time{}, true) {
			return polls
		}
		polls = append(polls, time.Since(start))
		r.Ask()
		if p.poll() {
			r.Done(p.ends.Sub(start))
			return polls
		}
		r.Running()
	}
}

func TestRunLearns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := polling.NewStore(polling.Config{Random: middle, Run: func(f func()) { f() }})
		learner := store.Learner(polling.Key{})
		const roundTrip = 100 * ms
		var counts []int
		for range 40 {
			now := time.Now()
			polls := chase(polling.Start(learner, nil, now, now.Add(time.Minute)), provider{now.Add(2 * second), roundTrip}, 0)
			counts = append(counts, len(polls))
		}
		if counts[0] < 5 || slices.Max(counts[30:]) > 2 {
			t.Errorf("polls: %v", counts)
		}
		// It was asked half a round trip before the end, and not much later.
		now := time.Now()
		polls := chase(polling.Start(learner, nil, now, time.Time{}), provider{now.Add(2 * second), roundTrip}, 0)
		if asked := polls[len(polls)-1]; asked < 1950*ms || asked > 1980*ms {
			t.Errorf("asked after %v, want about 1.95 s", asked)
		}
	})
}

// Without a time from the provider, the end of a run is taken to be in the middle between the last
// two polls.
func TestRunTellsWhatWasSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const roundTrip = 100 * ms
		learner := polling.NewStore(polling.Config{Random: earliest, Run: func(func()) {}}).Learner(polling.Key{})
		run := polling.Start(learner, nil, time.Now(), time.Time{})
		time.Sleep(second)
		run.Ask()
		time.Sleep(roundTrip)
		run.Running()
		time.Sleep(second)
		run.Ask() // fails
		time.Sleep(second)
		run.Ask()
		time.Sleep(roundTrip)
		run.Done(0)
		if times := learner.History().Times(); len(times) != 1 || times[0] != 2.1 { // between 1 s and 3.2 s
			t.Errorf("believed to have taken %v s, want 2.1", times)
		}
		// The next run knows of the round trip from the start: nothing can be asked as
		// early as for the first cold poll, so it is the second.
		next := polling.Start(learner, nil, time.Now(), time.Time{})
		if d := next.Next(0); d != 220*ms-roundTrip/2 {
			t.Errorf("the first poll is after %v, want 170ms", d)
		}
		next.Ask()
		time.Sleep(5 * roundTrip)
		next.Done(0) // one longer round trip counts for a quarter
		last := polling.Start(learner, nil, time.Now(), time.Time{})
		if d := last.Next(0); d != 220*ms-roundTrip {
			t.Errorf("the first poll is after %v, want 120ms", d)
		}
	})
}

func TestRunKeepsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, plan := range []polling.Plan{
			polling.Backoff{Initial: 300 * ms, Random: middle},
			polling.Backoff{Initial: 100 * ms, Longest: second, Random: middle},
			polling.NewStore(polling.Config{Random: middle}).Learner(polling.Key{}),
		} {
			now := time.Now()
			polls := chase(polling.Start(plan, nil, now, now.Add(2*second)), provider{now.Add(time.Hour), 40 * ms}, 0)
			if last := polls[len(polls)-1]; last != 1950*ms { // a round trip and a quarter before
				t.Errorf("%T: polls after %v, want the last one after 1.95 s", plan, polls)
			}
		}
	})
}

func TestRunObeysTheProvider(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		polls := chase(polling.Start(polling.NewStore(polling.Config{}).Learner(polling.Key{}), nil, now, now.Add(time.Minute)), provider{now.Add(time.Hour), 0}, 7*second)
		for i, at := range polls {
			if gap := at - append([]time.Duration{0}, polls...)[i]; gap < 7*second {
				t.Errorf("polls after %v, want 7 s between them", polls)
			}
		}
		if len(polls) != 8 {
			t.Errorf("%d polls: %v", len(polls), polls)
		}
	})
}

func TestRunIsHeldByTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budget := polling.NewBudgets(1, 1).Of("acme")
		now := time.Now()
		polls := chase(polling.Start(polling.Backoff{Initial: 100 * ms, Random: middle}, budget, now, now.Add(5500*ms)), provider{now.Add(time.Hour), 0}, 0)
		want := []time.Duration{100 * ms, 1100 * ms, 2100 * ms, 3100 * ms, 4100 * ms, 5100 * ms, 5490 * ms}
		for i := range polls {
			polls[i] = polls[i].Round(ms)
		}
		if !slices.Equal(polls, want) {
			t.Errorf("polls after %v, want %v", polls, want)
		}
	})
}

func TestRunTellsOfThrottling(t *testing.T) {
	t.Parallel()
	learner := polling.NewStore(polling.Config{Run: func(f func()) { f() }}).Learner(polling.Key{})
	run := polling.Start(learner, nil, time.Now(), time.Time{})
	run.Ask()
	run.Throttled()
	if price := learner.Schedule().Price(); price != 40*ms {
		t.Errorf("the price is %v, want 40ms", price)
	}
	run = polling.Start(polling.Backoff{Initial: second}, nil, time.Now(), time.Time{})
	run.Throttled() // is no concern of a plan that does not learn
	run.Done(0)
}
