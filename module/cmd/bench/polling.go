package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// measurePolling compares polling strategies.
func measurePolling(b *bench) values {
	b.say("polling: simulation")
	v := simulate(b)
	b.say("polling: over HTTP")
	pollingHTTP(b, v)
	return v
}

// waiter polls like the waiters of Amazon's SDKs with their default delays: at once, and then after a
// random time between two seconds and two seconds times two to the number of polls, at most two
// minutes (https://smithy.io/2.0/additional-specs/waiters.html#waiter-retries). All times are divided
// by faster.
type waiter struct {
	random *rand.Rand
	faster int
}

// Next implements polling.Plan.
func (w waiter) Next(p polling.Progress) time.Duration {
	least, most := 2*time.Second/time.Duration(w.faster), 2*time.Minute/time.Duration(w.faster)
	if p.Polls == 0 {
		return 0
	}
	longest := most
	if p.Polls < 7 { // the seventh would exceed the maximum
		longest = least << (p.Polls - 1)
	}
	return least + time.Duration(w.random.Float64()*float64(longest-least))
}

// cost is the cost of following a run: the delay between its end and the answer, in seconds, and the
// number of polls; or the means of these.
type cost struct{ delay, polls float64 }

func (c cost) String() string { return fmt.Sprintf("%.0f / %.1f", c.delay*1e3, c.polls) }

// follow simulates following a run that takes d. Polls take no time.
func follow(plan polling.Plan, d time.Duration) cost {
	var now time.Duration
	for polls := 1; ; polls++ {
		now += plan.Next(polling.Progress{Elapsed: now, Polls: polls - 1, Remaining: polling.NoDeadline})
		if now >= d {
			return cost{(now - d).Seconds(), float64(polls)}
		}
	}
}

// A planner returns a plan for the runs of a law, with times divided by faster. The plan may learn
// from runs.
type planner func(l provider.Law, faster int, r *rand.Rand) polling.Plan

func fixed(_ provider.Law, faster int, r *rand.Rand) polling.Plan {
	return polling.Backoff{Initial: time.Second / time.Duration(faster), Random: r.Float64}
}

func backOff(_ provider.Law, faster int, r *rand.Rand) polling.Plan {
	d := time.Duration(faster)
	return polling.Backoff{Initial: 100 * time.Millisecond / d, Longest: 5 * time.Second / d, Random: r.Float64}
}

func sdkWaiter(_ provider.Law, faster int, r *rand.Rand) polling.Plan { return waiter{r, faster} }

// learned returns a plan that has learned from 128 executions. The price of a poll is not divided.
func learned(l provider.Law, faster int, r *rand.Rand) polling.Plan {
	var due func()
	learner := polling.NewStore(polling.Config{
		Random: r.Float64, Now: func() time.Time { return time.Time{} },
		Run: func(f func()) { due = f }, // run once, after all executions
	}).Learner(polling.Key{Skill: l.Name})
	for range 128 {
		d := l.DrawTime(r, faster)
		learner.Done(polling.Completion{Execution: d, Ended: d, Polls: 2})
	}
	due()
	return learner
}

// simulated returns the mean costs over many runs and several plans.
func (p planner) simulated(l provider.Law, faster, plans, runs int, r *rand.Rand) (mean cost) {
	for range plans {
		plan := p(l, faster, r)
		for range runs {
			c := follow(plan, l.DrawTime(r, faster))
			mean.delay += c.delay / float64(plans*runs)
			mean.polls += c.polls / float64(plans*runs)
		}
	}
	return mean
}

// simulate compares plans over all laws.
func simulate(b *bench) values {
	plans, runs := either(b, 2, 20), either(b, 200, 5000)
	planners := []planner{fixed, backOff, sdkWaiter, learned}
	t := table{header: []string{"execution time", "every second", "back-off", "SDK waiter", "bridge"}}
	var ratios [4]cost // logarithms
	for i, l := range provider.Laws {
		r := rand.New(rand.NewPCG(seed, uint64(i))) //nolint:gosec // no secret
		row, costs := make([]string, 1+len(planners)), make([]cost, len(planners))
		row[0] = l.Name
		for k, p := range planners {
			costs[k] = p.simulated(l, 1, plans, runs, r)
			row[k+1] = costs[k].String()
		}
		for k, c := range costs {
			ratios[k].delay += math.Log(c.delay/costs[1].delay) / float64(len(provider.Laws))
			ratios[k].polls += math.Log(c.polls/costs[1].polls) / float64(len(provider.Laws))
		}
		t.add(row...)
	}
	last := make([]string, 1+len(ratios))
	last[0] = "ratio to back-off: delay / polls"
	for i, c := range ratios {
		last[i+1] = fmt.Sprintf("%.2f / %.2f", math.Exp(c.delay), math.Exp(c.polls))
	}
	t.add(last...)
	b.report.goal("Polling, delay and polls as ratios to back-off, simulated", "≤ 0.35, 1.05",
		fmt.Sprintf("%.2f, %.2f", math.Exp(ratios[3].delay), math.Exp(ratios[3].polls)))

	// With interval p, the mean number of polls is 1/(1-exp(-p/mean)).
	l, mean := provider.Laws[3], 2.0
	c := planner(learned).simulated(l, 1, 2*plans, runs, rand.New(rand.NewPCG(seed, 100))) //nolint:gosec // no secret
	interval := -mean * math.Log(1-1/c.polls)
	best := interval*c.polls - mean
	ratio := fmt.Sprintf("%.2f", c.delay/best)
	b.report.goal("Polling, exponential law: delay as a ratio to the best equal intervals", "≤ 1.15", ratio)
	return values{
		"simulation": t.String(), "law": l.Name, "polls": fmt.Sprintf("%.2f", c.polls),
		"interval": math.Round(interval * 1e3), "best": math.Round(best * 1e3), "delay": math.Round(c.delay * 1e3), "ratio": ratio,
	}
}
