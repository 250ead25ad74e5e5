package polling

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Learner is the [Plan] for one skill, made of what is known of it. It is
// safe for concurrent use.
type Learner struct {
	book    *Book
	history History

	schedule  atomic.Pointer[Schedule]
	queued    atomic.Bool  // for a new schedule
	stored    atomic.Bool  // what is known was stored, and there is no schedule of it yet
	roundTrip atomic.Int64 // of the newest run

	throttle throttle
}

// Next implements [Plan].
func (l *Learner) Next(p Progress) time.Duration {
	if l.throttle.raised.Load() && l.throttle.relax(l.book.config.Now()) {
		l.book.rebuild(l)
	}
	elapsed, half := max(p.Elapsed, 0), max(p.RoundTrip, 0)/2
	next, gap := l.schedule.Load().Next(elapsed + half)
	// Later only: a poll is placed just after the moment at which runs end, and one that comes just before is lost.
	delay := next - elapsed - half + time.Duration(randomness*float64(gap)*draw(l.book.config.Random))
	longest := max(longestGap, time.Duration(longestPart*float64(elapsed)))
	return p.bound(min(delay, longest), l.book.config.Random)
}

// Done tells how a run went that was seen to its end.
func (l *Learner) Done(c Completion) {
	l.book.completions.Add(1)
	if l.history.Add(c) {
		l.book.rebuild(l)
	}
}

// Throttled tells that the provider finds itself asked too often.
func (l *Learner) Throttled() {
	if l.throttle.raise(l.book.config.Now()) {
		l.book.rebuild(l)
	}
}

// History returns what the learner knows.
func (l *Learner) History() *History { return &l.history }

// plan makes a new schedule.
func (l *Learner) plan(p *planner, lent []float64) []float64 {
	lessons := l.history.lessons(lent)
	l.schedule.Store(p.schedule(lessons, l.book.config.Price<<l.throttle.steps()))
	return lessons.times
}

const (
	maxThrottle     = 6           // doublings of the price
	throttleStorm   = time.Second // within which many answers are one
	throttleHalving = time.Minute // without such an answer, until the price is halved
)

// throttle is how often the price of a poll is doubled.
type throttle struct {
	raised atomic.Bool // so that those who poll need no lock

	mu      sync.Mutex
	doubled int
	since   time.Time // when that last changed
}

// raise doubles the price. It reports whether that changed anything.
func (t *throttle) raise(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.decay(now)
	if t.doubled > 0 && now.Sub(t.since) < throttleStorm {
		return false
	}
	before := t.doubled
	t.doubled, t.since = min(t.doubled+1, maxThrottle), now
	t.raised.Store(true)
	return t.doubled != before
}

// relax halves the price once it is time. It reports whether it did.
func (t *throttle) relax(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.decay(now)
}

func (t *throttle) decay(now time.Time) bool {
	n := min(int(now.Sub(t.since)/throttleHalving), t.doubled)
	if n <= 0 {
		return false
	}
	t.doubled -= n
	t.since = t.since.Add(time.Duration(n) * throttleHalving)
	t.raised.Store(t.doubled > 0)
	return true
}

func (t *throttle) steps() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.doubled
}
