package polling_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// raceDetector is true under the race detector. The simulations have no concurrency, and take a
// minute with it.
var raceDetector bool

func simulate(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("one goroutine's arithmetic")
	}
	t.Parallel()
}

func backoff(r *rand.Rand) polling.Plan {
	return polling.Backoff{Initial: 100 * time.Millisecond, Longest: 5 * time.Second, Random: r.Float64}
}

// P8: over nine distributions, the mean delay until the end of a run is found is a third of that
// of exponential back-off, with as many polls.
func TestP8Delay(t *testing.T) {
	simulate(t)
	const histories, runs = 20, 2000
	var delay, polls, equalDelay, equalPolls float64
	t.Log("mean delay ms / polls: back-off, learned at the default price, learned at the back-off's polls")
	for i, l := range nine {
		r := newRandom(i)
		b := measure(backoff(r), l, histories*runs, r)
		f := measureLearned(t, polling.DefaultPrice, l, histories, runs, r)
		// The price at which there are as many polls as with the back-off.
		low, high := time.Microsecond, 30*time.Second
		for range 12 {
			price := time.Duration(math.Sqrt(float64(low) * float64(high)))
			if measureLearned(t, price, l, histories/4, runs/4, newRandom(i)).polls > b.polls {
				low = price
			} else {
				high = price
			}
		}
		e := measureLearned(t, high, l, histories, runs, r)
		t.Logf("%-21s %5.0f/%4.1f  %5.0f/%4.1f  %5.0f/%4.1f at %v", l.name,
			b.delay*1e3, b.polls, f.delay*1e3, f.polls, e.delay*1e3, e.polls, high.Round(100*time.Microsecond))
		delay += math.Log(f.delay/b.delay) / float64(len(nine))
		polls += math.Log(f.polls/b.polls) / float64(len(nine))
		equalDelay += math.Log(e.delay/b.delay) / float64(len(nine))
		equalPolls += math.Log(e.polls/b.polls) / float64(len(nine))
	}
	t.Logf("geometric means: %.3f of the delay with %.3f of the polls; at equal polls (%.3f) %.3f of the delay",
		math.Exp(delay), math.Exp(polls), math.Exp(equalPolls), math.Exp(equalDelay))
	if math.Exp(delay) > 0.35 || math.Exp(polls) > 1.05 {
		t.Errorf("%.3f of the delay of back-off at %.3f of its polls, want at most 0.35 at 1.05", math.Exp(delay), math.Exp(polls))
	}
	if math.Exp(equalDelay) > 0.35 || math.Exp(equalPolls) > 1.05 {
		t.Errorf("law by law, %.3f of the delay of back-off at %.3f of its polls, want at most 0.35 at 1.05", math.Exp(equalDelay), math.Exp(equalPolls))
	}
}

// P9: for exponentially distributed times, a fixed interval is best, and the schedule is nearly
// as good.
func TestP9Memoryless(t *testing.T) {
	simulate(t)
	for i, mean := range []float64{0.2, 2, 20} {
		f := measureLearned(t, polling.DefaultPrice, exponential(mean), 60, 3000, newRandom(i))
		// With interval p, the number of polls is 1/(1-exp(-p/mean)) in the mean.
		interval := -mean * math.Log(1-1/f.polls)
		best := interval*f.polls - mean
		t.Logf("mean %v s: delay %.1f ms with %.2f polls, at a fixed %.0f ms %.1f ms: %.3f", mean, f.delay*1e3, f.polls, interval*1e3, best*1e3, f.delay/best)
		if f.delay/best > 1.15 {
			t.Errorf("mean %v s: %.3f of the delay of the best fixed interval, want at most 1.15", mean, f.delay/best)
		}
	}
}

// P10: eight executions after a change of a skill, its schedule is good again.
func TestP10Change(t *testing.T) {
	simulate(t)
	const repeats = 100
	for i, tc := range []struct {
		law
		asserted bool // the other laws take longer, since there is more to learn
	}{
		{lognormal(2, 0.2).named("log-normal 2 s, 0.2"), true},
		{normal(2, 0.15).named("2 s ± 15 %"), true},
		{lognormal(2, 0.5).named("log-normal 2 s, 0.5"), true},
		{normal(2, 0.02).named("2 s ± 2 %"), false},
		{exponential(2).named("exponential 2 s"), false},
		{bimodal(0.2, 8).named("0.2 s or 8 s"), false},
	} {
		for _, factor := range []float64{1. / 7, 3} {
			r := newRandom(i)
			after := tc.times(factor)
			steady := measureLearned(t, polling.DefaultPrice, after, 20, 1000, r)
			var delays, polls [24]float64
			for range repeats {
				learner := taught(t, polling.DefaultPrice, tc.law, 192, r)
				for k := range delays {
					c := follow(learner, duration(after.draw(r)))
					learner.Done(c)
					delays[k] += (c.Ended - c.Execution).Seconds() / repeats / steady.delay
					polls[k] += float64(c.Polls) / repeats / steady.polls
				}
			}
			ratio := mean(delays[8:])
			t.Logf("%-20s × %.2f: steady %4.0f ms/%4.1f polls; calls 1: %.1f, 2: %.1f, 3: %.1f, 4: %.1f, 5-8: %.2f, 9-12: %.2f, 13-24: %.2f, 9-24: %.2f times, polls 9-24 %.2f times",
				tc.name, factor, steady.delay*1e3, steady.polls, delays[0], delays[1], delays[2], delays[3],
				mean(delays[4:8]), mean(delays[8:12]), mean(delays[12:]), ratio, mean(polls[8:]))
			if tc.asserted && factor < 1 && (delays[2] > delays[0]/3 || delays[3] > delays[0]/4) {
				t.Errorf("%s × %.2f: after 2 and 3 surprises, %.2f and %.2f times the steady delay, %.2f before", tc.name, factor, delays[2], delays[3], delays[0])
			}
			if tc.asserted && ratio > 1.5 {
				t.Errorf("%s × %.2f: after 8 calls, %.2f times the steady delay, want at most 1.5", tc.name, factor, ratio)
			}
		}
	}
}

func mean(x []float64) (m float64) {
	for _, v := range x {
		m += v / float64(len(x))
	}
	return m
}

// Without times from the provider, execution times are learned from the polls.
func TestProviderThatTellsNoTimes(t *testing.T) {
	simulate(t)
	for i, l := range nine {
		r := newRandom(i)
		b := measure(backoff(r), l, 20000, r)
		learner := newStore(t, polling.DefaultPrice, r).Learner(polling.Key{})
		var f figures
		for k := range 400 {
			c := follow(learner, duration(l.draw(r)))
			if k >= 100 {
				f.delay += (c.Ended - c.Execution).Seconds() / 300
				f.polls += float64(c.Polls) / 300
			}
			c.Execution = 0
			learner.Done(c)
		}
		t.Logf("%-21s %5.0f/%4.1f", l.name, f.delay*1e3, f.polls)
		if f.delay > 0.6*b.delay || f.polls > 1.75*b.polls {
			t.Errorf("%s: %.0f ms with %.1f polls, back-off takes %.0f ms with %.1f", l.name, f.delay*1e3, f.polls, b.delay*1e3, b.polls)
		}
	}
}

// A round trip adds only the delay that can't be avoided: half a round trip, on average, from the
// end of a run to the earliest poll that could find it.
func TestRoundTripIsTakenIntoAccount(t *testing.T) {
	t.Parallel()
	const roundTrip = 200 * time.Millisecond
	r := newRandom(1)
	learner := taught(t, polling.DefaultPrice, normal(2, 0.02).named("2 s ± 2 %"), 128, r)
	with := learner.Next(polling.Progress{RoundTrip: roundTrip, Remaining: polling.NoDeadline})
	without := learner.Next(polling.Progress{Remaining: polling.NoDeadline})
	if d := without - with - roundTrip/2; d.Abs() > 20*time.Millisecond { // they vary at random
		t.Errorf("first poll after %v, and after %v with a round trip of %v", without, with, roundTrip)
	}
}
