package polling

import (
	"sync"
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

	throttle throttle
}

// Next implements [Plan].
func (l *Learner) Next(p Progress) time.Duration {
	if l.throttle.raised.Load() && l.throttle.relax(l.store.config.Now()) {
		l.store.rebuild(l)
	}
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

// throttled is called when the provider says that there are too many requests.
func (l *Learner) throttled() {
	if l.throttle.raise(l.store.config.Now()) {
		l.store.rebuild(l)
	}
}

const (
	maxThrottle     = 6           // doublings of the price
	throttleStorm   = time.Second // several answers of 429 or 503 within it count as one
	throttleHalving = time.Minute // without such an answer, the price is halved
)

// throttle counts how often the price of a poll is doubled.
type throttle struct {
	raised atomic.Bool // doubled > 0, readable without the lock

	mu      sync.Mutex
	doubled int
	since   time.Time // when doubled last changed
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

// relax halves the price if it is time for that. It reports whether it has done so.
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
