package polling

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Budgets bound how many polls per second each host gets. They are safe for
// concurrent use, and may be shared by all that poll. A nil *Budgets bounds nothing.
type Budgets struct {
	perSecond rate.Limit
	burst     int
	now       func() time.Time

	mu      sync.Mutex
	budgets map[string]*Budget // by host
	sweepAt int
}

// firstSweep is with how many budgets those that are not used are looked for.
const firstSweep = 1024

// NewBudgets returns budgets of so many polls per second, and a burst of that
// many at once. Now is [time.Now] if nil.
func NewBudgets(perSecond float64, burst int, now func() time.Time) *Budgets {
	if now == nil {
		now = time.Now
	}
	return &Budgets{perSecond: rate.Limit(perSecond), burst: max(burst, 1), now: now, budgets: make(map[string]*Budget), sweepAt: firstSweep}
}

// Of returns a host's budget.
func (b *Budgets) Of(host string) *Budget {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(host)
}

// of is Of for who has the lock.
func (b *Budgets) of(host string) *Budget {
	if found := b.budgets[host]; found != nil {
		return found
	}
	if len(b.budgets) >= b.sweepAt {
		b.sweep()
	}
	made := &Budget{all: b, host: host, limiter: rate.NewLimiter(b.perSecond, b.burst), last: rate.NewLimiter(b.perSecond, b.burst)}
	b.budgets[host] = made
	return made
}

// sweep drops the budgets that are full: a new one is no different.
func (b *Budgets) sweep() {
	now := b.now()
	for host, budget := range b.budgets {
		if budget.limiter.TokensAt(now) >= float64(b.burst) {
			delete(b.budgets, host)
		}
	}
	b.sweepAt = max(firstSweep, 2*len(b.budgets))
}

// A Budget bounds how many polls per second one host gets. It delays polls, and
// never refuses one. It is safe for concurrent use. A nil *Budget bounds nothing.
type Budget struct {
	all     *Budgets // and the lock of what follows
	host    string
	limiter *rate.Limiter
	last    *rate.Limiter // of polls that can't wait for their turn
}

// reserve takes a place in the queue unless that means to wait for longer than most.
func (b *Budget) reserve(most time.Duration) (delay time.Duration, ok bool) {
	if b == nil {
		return 0, true
	}
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	return b.valid().queue(most)
}

// valid returns the host's budget as it is now: b may have been dropped while a run
// that held it was left alone, and another have been made since.
func (b *Budget) valid() *Budget { return b.all.of(b.host) }

func (b *Budget) queue(most time.Duration) (delay time.Duration, ok bool) {
	now := b.all.now()
	reservation := b.limiter.ReserveN(now, 1)
	if delay = reservation.DelayFrom(now); delay > max(most, 0) {
		reservation.CancelAt(now)
		return 0, false
	}
	return delay, true
}

// Hold is called right before a poll, and returns for how long it has to wait, or
// [Never]. That is never more than most: a poll whose turn would come later is made at
// the last moment, outside of the queue, or the queue would never end. Of those there
// are no more than of the others.
func (b *Budget) Hold(most time.Duration) time.Duration {
	if b == nil {
		return 0
	}
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	b = b.valid()
	delay, ok := b.queue(most)
	if ok {
		return delay
	}
	if !b.last.AllowN(b.all.now(), 1) {
		return Never
	}
	return max(most, 0)
}
