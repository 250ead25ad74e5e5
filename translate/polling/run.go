package polling

import (
	"context"
	"time"
)

// A Run tells when to poll one run. It is not safe for concurrent use.
type Run struct {
	plan      Plan
	budget    *Budget
	accepted  time.Time
	resumed   bool
	deadline  time.Time     // zero: none
	asked     time.Time     // the newest poll
	running   time.Duration // when the run was last seen to be running
	roundTrip time.Duration
	polls     int
}

// Start returns the Run for a run by the time of its acceptance. A zero deadline is
// none. The budget may be nil.
func Start(plan Plan, budget *Budget, accepted, deadline time.Time) Run {
	r := Run{plan: plan, budget: budget, accepted: accepted, deadline: deadline}
	if l, ok := plan.(*Learner); ok {
		r.roundTrip = time.Duration(l.roundTrip.Load())
	}
	return r
}

// Resume is [Start] for a run that was not polled all the time since its acceptance.
// Accepted is zero if it is not known.
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

// Retry is Next after so many polls in a row that failed temporarily. It does not ask the
// plan: how long a run takes says nothing about how long a failure lasts.
func (r *Run) Retry(failures int, atLeast time.Duration) time.Duration {
	p := r.progress(atLeast)
	p.Polls = max(failures-1, 0)
	return failing.Next(p)
}

// failing is the plan for polls that fail.
var failing = Backoff{Initial: 500 * time.Millisecond, Longest: 5 * time.Second}

// Until sets the deadline; zero: none.
func (r *Run) Until(deadline time.Time) { r.deadline = deadline }

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

// Turn returns the turn in its host's budget that a poll has to wait for after the delay
// that Next returned.
func (r *Run) Turn() Turn {
	if r.budget == nil {
		return Turn{}
	}
	t := Turn{budget: r.budget, likely: time.Now(), last: Never}
	if !r.deadline.IsZero() {
		t.last = r.progress(0).last()
	}
	if l, ok := r.plan.(*Learner); ok {
		// It may be wrong, since it is made of what providers say. So a run gains nothing from a time that has long
		// passed, and loses little by a late one.
		elapsed := t.likely.Sub(r.accepted)
		latest := max(longestGap, time.Duration(longestPart*float64(elapsed)))
		t.likely = t.likely.Add(min(max(l.schedule.Load().likelyEnd(r.running)-elapsed, 0), latest))
	}
	return t
}

// A Turn is the place of one poll among those of its host.
type Turn struct {
	budget *Budget
	likely time.Time
	last   time.Duration // after which the poll can just be answered by the deadline
}

// Wait waits for the turn until the context ends, or the given time if it is not zero. It
// reports whether the poll may be made. A poll that has to be made may be made just before
// the deadline even if its turn has not come.
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

// Running is called when the answer to the poll says that the run has not ended. Held says
// that the provider held the answer back, so that its time was no round trip.
func (r *Run) Running(held bool) {
	r.answered(held)
	r.running = r.asked.Sub(r.accepted) // it may have ended since
}

// Throttled is called when the provider says that there are too many requests.
func (r *Run) Throttled() {
	if l, ok := r.plan.(*Learner); ok {
		l.throttled()
	}
}

// Done is called when the answer to the poll says that the run has ended, after the given
// time by the provider's clock; 0 if it did not say. Held is as in Running.
func (r *Run) Done(execution time.Duration, held bool) {
	r.answered(held)
	l, ok := r.plan.(*Learner)
	if !ok {
		return
	}
	l.roundTrip.Store(int64(r.roundTrip))
	c := Completion{Execution: execution, Running: r.running, Ended: time.Since(r.accepted), Polls: r.polls}
	if r.resumed {
		if execution <= 0 {
			return // the time of this poll says nothing about the run
		}
		c.Polls++ // the first poll being late is no surprise
	}
	l.Done(c)
}

// answered updates the round trip.
func (r *Run) answered(held bool) {
	if held {
		return
	}
	took := time.Since(r.asked)
	if r.roundTrip == 0 {
		r.roundTrip = took
		return
	}
	r.roundTrip += (took - r.roundTrip) / 4
}
