package polling

import (
	"context"
	"time"
)

// A Run says when to poll one run. It is not safe for concurrent use.
type Run struct {
	plan      Plan
	budget    *Budget
	accepted  time.Time
	resumed   bool
	deadline  time.Time     // zero: none
	asked     time.Time     // when the newest poll was made
	running   time.Duration // from the start to the newest poll that found the run running
	roundTrip time.Duration
	polls     int
}

// Start returns the Run for a run that was just accepted. A zero deadline means none. The
// budget may be nil.
func Start(plan Plan, budget *Budget, accepted, deadline time.Time) Run {
	r := Run{plan: plan, budget: budget, accepted: accepted, deadline: deadline}
	if l, ok := plan.(*Learner); ok {
		r.roundTrip = time.Duration(l.roundTrip.Load())
	}
	return r
}

// Resume is [Start] for a run that was accepted earlier. Accepted is zero if it is not
// known.
func Resume(plan Plan, budget *Budget, accepted, deadline time.Time) Run {
	if now := time.Now(); accepted.IsZero() || accepted.After(now) {
		accepted = now
	}
	r := Start(plan, budget, accepted, deadline)
	r.resumed = true
	return r
}

// Next returns the delay until the next poll, or [Never]. AtLeast is the delay
// that the provider has asked for.
func (r *Run) Next(atLeast time.Duration) time.Duration {
	return r.plan.Next(r.progress(atLeast))
}

// Retry is Next after consecutive polls that failed temporarily. It does not use the plan,
// since execution times say nothing about how long a failure lasts.
func (r *Run) Retry(failures int, atLeast time.Duration) time.Duration {
	p := r.progress(atLeast)
	p.Polls = max(failures-1, 0)
	return failing.Next(p)
}

// failing is the plan for polls that fail.
var failing = Backoff{Initial: 500 * time.Millisecond, Longest: 5 * time.Second}

// Until sets the deadline; zero: none.
func (r *Run) Until(deadline time.Time) { r.deadline = deadline }

// Deadline returns the deadline; zero: there is none.
func (r *Run) Deadline() time.Time { return r.deadline }

// Later is Next without a deadline, for a caller that polls later itself.
func (r *Run) Later(atLeast time.Duration) time.Duration {
	p := r.progress(atLeast)
	p.Remaining = NoDeadline
	return r.plan.Next(p)
}

func (r *Run) progress(atLeast time.Duration) Progress {
	now := time.Now()
	p := Progress{Elapsed: now.Sub(r.accepted), Polls: r.polls, RoundTrip: r.roundTrip, Remaining: NoDeadline, AtLeast: atLeast}
	if !r.deadline.IsZero() {
		p.Remaining = r.deadline.Sub(now)
	}
	return p
}

// Turn returns the turn that a poll has to wait for in the budget of its host, after the
// delay that Next returned.
func (r *Run) Turn() Turn {
	if r.budget == nil {
		return Turn{}
	}
	t := Turn{budget: r.budget, likely: time.Now(), last: Never}
	if !r.deadline.IsZero() {
		t.last = r.progress(0).last()
	}
	if l, ok := r.plan.(*Learner); ok {
		// The likely end may be wrong, since providers state the execution times. So it is never in the past, and its
		// distance is bounded.
		elapsed := t.likely.Sub(r.accepted)
		latest := max(longestGap, time.Duration(longestPart*float64(elapsed)))
		t.likely = t.likely.Add(min(max(l.schedule.Load().likelyEnd(r.running)-elapsed, 0), latest))
	}
	return t
}

// A Turn is the turn of one poll in the budget of its host.
type Turn struct {
	budget *Budget
	likely time.Time
	last   time.Duration // after which the poll can just be answered by the deadline
}

// Behind returns a turn behind those of all others, for a poll whose answer no caller waits for.
func (t Turn) Behind() Turn {
	t.likely = t.likely.AddDate(1, 0, 0)
	return t
}

// Wait waits for the turn until the context ends, or until the given time if it is not
// zero. It reports whether the poll may be made. If hasTo is true, the poll may be made just
// before the deadline even if its turn has not come.
func (t Turn) Wait(ctx context.Context, until time.Time, hasTo bool) bool {
	if !hasTo {
		t.last = Never
	}
	return t.budget.wait(ctx, t.likely, t.last, until)
}

// Ask is called when a poll is made.
func (r *Run) Ask() {
	r.asked = time.Now()
	r.polls++
}

// Running is called when the answer to the poll says that the run has not ended.
func (r *Run) Running() {
	r.answered()
	r.running = r.asked.Sub(r.accepted) // not the time of the answer: the run may have ended since the poll
}

// Throttled is called when the provider says that there are too many requests.
func (r *Run) Throttled() {
	r.budget.slow()
	if l, ok := r.plan.(*Learner); ok {
		l.throttled()
	}
}

// Found is called when the answer to the poll says that the run has ended, however.
func (r *Run) Found() { r.budget.found() }

// Done is called when the answer to the poll says that the run has ended, after the given
// time by the provider's clock; 0 if it did not say.
func (r *Run) Done(execution time.Duration) {
	r.answered()
	l, ok := r.plan.(*Learner)
	if !ok {
		return
	}
	l.roundTrip.Store(int64(r.roundTrip))
	c := Completion{Execution: execution, Running: r.running, Ended: time.Since(r.accepted), Polls: r.polls}
	if r.resumed {
		if execution <= 0 {
			return // the execution time is unknown
		}
		c.Polls++ // a late first poll is no surprise
	}
	l.Done(c)
}

// answered updates the mean round trip.
func (r *Run) answered() {
	took := time.Since(r.asked)
	if took > slowAnswer {
		r.budget.slow()
	}
	if r.roundTrip == 0 {
		r.roundTrip = took
		return
	}
	r.roundTrip += (took - r.roundTrip) / 4
}
