package polling_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// law draws execution times, in seconds.
type law struct {
	name string
	draw func(r *rand.Rand) float64
}

func lognormal(median, sigma float64) law {
	return law{"", func(r *rand.Rand) float64 { return median * math.Exp(sigma*r.NormFloat64()) }}
}

func normal(mean, deviation float64) law {
	return law{"", func(r *rand.Rand) float64 { return max(mean/10, mean*(1+deviation*r.NormFloat64())) }}
}

func exponential(mean float64) law {
	return law{"", func(r *rand.Rand) float64 { return mean * r.ExpFloat64() }}
}

func bimodal(often, seldom float64) law {
	return law{"", func(r *rand.Rand) float64 {
		if r.Float64() < 0.8 {
			return normal(often, 0.15).draw(r)
		}
		return normal(seldom, 0.15).draw(r)
	}}
}

func pareto(alpha, least float64) law {
	return law{"", func(r *rand.Rand) float64 { return least * math.Pow(1-r.Float64(), -1/alpha) }}
}

func (l law) named(name string) law {
	l.name = name
	return l
}

// times slower.
func (l law) times(factor float64) law {
	return law{l.name, func(r *rand.Rand) float64 { return factor * l.draw(r) }}
}

// nine distributions, from one that needs a single poll to one that can't be predicted.
var nine = []law{
	normal(2, 0.02).named("2 s ± 2 %"),
	normal(2, 0.15).named("2 s ± 15 %"),
	exponential(0.2).named("exponential 0.2 s"),
	exponential(2).named("exponential 2 s"),
	lognormal(2, 0.5).named("log-normal 2 s, 0.5"),
	lognormal(2, 1).named("log-normal 2 s, 1"),
	bimodal(0.2, 8).named("0.2 s or 8 s"),
	lognormal(30, 0.4).named("log-normal 30 s, 0.4"),
	pareto(1.5, 0.5).named("Pareto 1.5, 0.5 s"),
}

func newRandom(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 20)) }

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// newStore returns a store that makes schedules without goroutines and has a fixed source of
// random numbers.
func newStore(tb testing.TB, price time.Duration, r *rand.Rand) *polling.Store {
	tb.Helper()
	return polling.NewStore(polling.Config{
		Price: price, Run: func(f func()) { f() }, Random: r.Float64,
		Now: func() time.Time { return time.Time{} },
	})
}

// taught returns a learner with a number of executions and one schedule made of all of them.
func taught(tb testing.TB, price time.Duration, l law, executions int, r *rand.Rand) *polling.Learner {
	tb.Helper()
	var due func()
	learner := polling.NewStore(polling.Config{
		Price: price, Random: r.Float64, Now: func() time.Time { return time.Time{} },
		Run: func(f func()) {
			if due = f; executions == 0 {
				f()
			}
		},
	}).Learner(polling.Key{Skill: l.name})
	for ; executions > 0; executions-- {
		d := duration(l.draw(r))
		learner.Done(polling.Completion{Execution: d, Ended: d, Polls: 2})
	}
	if due != nil {
		due()
	}
	return learner
}

// follow follows a run that takes d, with polls that are answered at once.
func follow(plan polling.Plan, d time.Duration) polling.Completion {
	c := polling.Completion{Execution: d}
	for {
		c.Polls++
		now := c.Ended + plan.Next(polling.Progress{Elapsed: c.Ended, Polls: c.Polls - 1, Remaining: polling.NoDeadline})
		c.Running, c.Ended = c.Ended, now
		if now >= d {
			return c
		}
	}
}

// figures are means over runs.
type figures struct{ delay, polls float64 }

// measure returns the means over a number of runs.
func measure(plan polling.Plan, l law, runs int, r *rand.Rand) (f figures) {
	for range runs {
		c := follow(plan, duration(l.draw(r)))
		f.delay += (c.Ended - c.Execution).Seconds() / float64(runs)
		f.polls += float64(c.Polls) / float64(runs)
	}
	return f
}

// measureLearned is measure over several histories of 128 executions.
func measureLearned(tb testing.TB, price time.Duration, l law, histories, runs int, r *rand.Rand) (f figures) {
	tb.Helper()
	for range histories {
		one := measure(taught(tb, price, l, 128, r), l, runs, r)
		f.delay += one.delay / float64(histories)
		f.polls += one.polls / float64(histories)
	}
	return f
}
