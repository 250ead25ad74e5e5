package polling

import (
	"context"
	"time"
)

// A Run is one run that is being followed. It is not safe for concurrent use.
type Run struct {
	plan      Plan
	budget    *Budget
	accepted  time.Time
	resumed   bool
	deadline  time.Time     // zero: none
	asked     time.Time     // the newest poll
	running   time.Duration // when the run was seen to be still going on
	roundTrip time.Duration
	polls     int
}

// Start begins to follow a run that was accepted at some time and is waited for
// until the deadline, if it is not zero. The budget may be nil.
func Start(plan Plan, budget *Budget, accepted, deadline time.Time) Run {
	r := Run{plan: plan, budget: budget, accepted: accepted, deadline: deadline}
	if l, ok := plan.(*Learner); ok {
		r.roundTrip = time.Duration(l.roundTrip.Load())
	}
	return r
}

// Resume is [Start] for a run that was not followed all the time since then:
// whoever follows it comes back when it suits him. Accepted is zero if it is not
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

// Retry is Next after so many polls in a row that failed in a way which may pass. The
// plan has no say in it: how long a run takes tells nothing about how long trouble lasts.
func (r *Run) Retry(failures int, atLeast time.Duration) time.Duration {
	p := r.progress(atLeast)
	p.Polls = max(failures-1, 0)
	return trouble.Next(p)
}

// trouble are the delays between polls that fail.
var trouble = Backoff{Initial: 500 * time.Millisecond, Longest: 5 * time.Second}

// Until sets the deadline, as that of [Start].
func (r *Run) Until(deadline time.Time) { r.deadline = deadline }

// Later is Next for somebody who comes back himself, however long that takes.
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

// Turn returns the turn that a poll has to wait for when the delay that Next returned has
// passed.
func (r *Run) Turn() Turn {
	if r.budget == nil {
		return Turn{}
	}
	t := Turn{budget: r.budget, likely: time.Now(), last: Never}
	if !r.deadline.IsZero() {
		t.last = r.progress(0).last()
	}
	if l, ok := r.plan.(*Learner); ok {
		// It may be far from the truth, since it is made of what providers say: nobody is to gain by having been likely
		// to end for long, nor to lose much by being likely to end late.
		elapsed := t.likely.Sub(r.accepted)
		latest := max(longestGap, time.Duration(longestPart*float64(elapsed)))
		t.likely = t.likely.Add(min(max(l.schedule.Load().Likely(r.running)-elapsed, 0), latest))
	}
	return t
}

// A Turn is that of one poll among those of its host.
type Turn struct {
	budget *Budget
	likely time.Time
	last   time.Duration // after which the poll can just be answered by the deadline
}

// Wait waits for the turn, for as long as the context lasts, and until the given time if
// it is not zero. It reports whether the poll may be made. A poll that has to be made is
// made just before the deadline if its turn has not come, one that need not be is not.
func (t Turn) Wait(ctx context.Context, until time.Time, hasTo bool) bool {
	if !hasTo {
		t.last = Never
	}
	return t.budget.Wait(ctx, t.likely, t.last, until)
}

// Ask tells that a poll is being made.
func (r *Run) Ask() {
	r.asked = time.Now()
	r.polls++
}

// Running tells that the poll was answered, and that the run still goes on. Held
// tells of an answer that was held back: then its time was no round trip.
func (r *Run) Running(held bool) {
	r.answered(held)
	r.running = r.asked.Sub(r.accepted) // it was at the latest then that it had not ended
}

// Throttled tells that the provider finds itself asked too often.
func (r *Run) Throttled() {
	if l, ok := r.plan.(*Learner); ok {
		l.Throttled()
	}
}

// Done tells that the poll was answered, and that the run has ended after the
// given time by the provider's clock; 0 if it did not say. Held is as with Running.
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
			return // when it was looked at says nothing about it
		}
		c.Polls++ // nor does it that the end was only seen late
	}
	l.Done(c)
}

// answered takes the round trip into account.
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
