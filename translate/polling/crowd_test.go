package polling_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// crowd has the means over many runs of one host: the time until the end was found, and the
// number of polls.
type crowd struct {
	took, polls float64
	runs        int
}

// crowds keeps a number of runs of each distribution running and returns the means over a
// period that follows a period for learning.
func crowds(t *testing.T, budgets func() *polling.Budgets, each int, learning, while time.Duration, laws ...law) (all []crowd) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, budget := polling.NewStore(polling.Config{}), budgets().Of("acme")
		ctx, stop := context.WithCancel(t.Context())
		begun := time.Now()
		var mu sync.Mutex
		var running sync.WaitGroup
		all = make([]crowd, len(laws))
		for i, l := range laws {
			learner, r := store.Learner(polling.Key{Skill: l.name}), newRandom(i)
			for range each {
				running.Go(func() {
					for ctx.Err() == nil {
						mu.Lock()
						d := duration(l.draw(r))
						mu.Unlock()
						start := time.Now()
						run := polling.Start(learner, budget, start, time.Time{})
						for n := 1; ; n++ {
							time.Sleep(run.Next(0))
							if !run.Turn().Wait(ctx, time.Time{}, true) {
								return
							}
							run.Ask()
							if took := time.Since(start); took >= d {
								run.Found()
								run.Done(d)
								if start.Sub(begun) >= learning {
									mu.Lock()
									all[i].runs++
									all[i].took += took.Seconds()
									all[i].polls += float64(n)
									mu.Unlock()
								}
								break
							}
							run.Running()
						}
					}
				})
			}
		}
		time.Sleep(learning + while)
		stop()
		running.Wait()
		for i := range all {
			all[i].took /= float64(all[i].runs)
			all[i].polls /= float64(all[i].runs)
		}
	})
	return all
}

// atMost returns a function that makes budgets of so many polls per second.
func atMost(polls int) func() *polling.Budgets {
	return func() *polling.Budgets { return polling.NewBudgets(float64(polls), polls) }
}

// byDefault makes the default budgets: as many polls per second as there may be runs, but not in vain.
func byDefault() *polling.Budgets { return polling.NewEarnedBudgets(20_000, 1000) }

// P12: the ends of 8,000 runs of one host that take three seconds are found in time with the default budget.
func TestP12Crowd(t *testing.T) {
	simulate(t)
	for name, budgets := range map[string]func() *polling.Budgets{"at most 1000": atMost(1000), "default": byDefault} {
		if name != "default" && !longtest.Runs(longtest.Long) {
			continue // it is for comparison
		}
		c := crowds(t, budgets, 8000, 20*time.Second, 30*time.Second, normal(3, 0.02))[0]
		t.Logf("%s: %.2f s in the mean, %.1f polls, %d runs", name, c.took, c.polls, c.runs)
		if name == "default" && c.took > 3.2 {
			t.Errorf("%.2f s in the mean, want 3.2", c.took)
		}
	}
}

// If the budget is too small, polls whose runs have likely ended go first. So the runs of a skill
// that takes about three seconds do not wait for polls of runs that have hardly ended yet, and
// these do not suffer. In the order of arrival, they took 4.85 s, and the others 4.3 and 32.2 s.
func TestP12Mixed(t *testing.T) {
	simulate(t)
	most := []float64{3.6, 5, 36.5}
	for i, c := range crowds(t, atMost(600), 500, 60*time.Second, 120*time.Second, normal(3, 0.05), exponential(3), lognormal(30, .4)) {
		t.Logf("law %d: %.2f s in the mean, %.1f polls, %d runs", i, c.took, c.polls, c.runs)
		if c.took > most[i] {
			t.Errorf("law %d: %.2f s in the mean, want at most %v", i, c.took, most[i])
		}
	}
}

// 8,000 runs that go on cost their host 1000 polls a second by default. Their ends are found soon, also if they come together.
func TestCrowdThatGoesOn(t *testing.T) {
	simulate(t)
	synctest.Test(t, func(t *testing.T) {
		const runs, takes = 8000, 40 * time.Second
		budget, learner := byDefault().Of("acme"), polling.NewStore(polling.Config{}).Learner(polling.Key{Skill: "new"})
		var running sync.WaitGroup
		var vain atomic.Int64
		start := time.Now()
		delays := make([]time.Duration, runs)
		for i := range runs {
			running.Go(func() {
				run := polling.Start(learner, budget, start, time.Time{})
				for {
					time.Sleep(run.Next(0))
					run.Turn().Wait(t.Context(), time.Time{}, true)
					run.Ask()
					if time.Since(start) >= takes {
						run.Found()
						delays[i] = time.Since(start) - takes
						return
					}
					vain.Add(1)
					run.Running()
				}
			})
		}
		running.Wait()
		slices.Sort(delays)
		t.Logf("%d polls in vain, the ends are found after %v, half of them, and %v", vain.Load(), delays[runs/2], delays[runs-1])
		if most := int64(1000 * (takes + time.Second) / time.Second); vain.Load() > most {
			t.Errorf("%d polls in vain, want at most %d", vain.Load(), most)
		}
		if delays[runs-1] > 10*time.Second {
			t.Errorf("the last end is found after %v", delays[runs-1])
		}
	})
}
