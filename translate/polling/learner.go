package polling

import (
	"sync/atomic"
	"time"
)

// A Learner is the [Plan] for one skill by the execution times of its earlier runs. It
// is safe for concurrent use.
type Learner struct {
	store   *Store
	history history

	schedule  atomic.Pointer[schedule]
	queued    atomic.Bool  // for a new schedule
	stored    atomic.Bool  // the history is from a snapshot, and no schedule was made of it yet
	roundTrip atomic.Int64 // of the newest run
}

// Next implements [Plan].
func (l *Learner) Next(p Progress) time.Duration {
	elapsed, half := max(p.Elapsed, 0), max(p.RoundTrip, 0)/2
	next, gap := l.schedule.Load().next(elapsed + half)
	// The delay only gets longer: a poll is planned just after the time at which runs end, and would be useless before.
	delay := next - elapsed - half + time.Duration(randomness*float64(gap)*draw(l.store.config.Random))
	longest := max(longestGap, time.Duration(longestPart*float64(elapsed)))
	return p.bound(min(delay, longest), l.store.config.Random)
}

// Done adds the end of a run.
func (l *Learner) Done(c Completion) {
	l.store.completions.Add(1)
	if l.history.add(c) {
		l.store.rebuild(l)
	}
}
