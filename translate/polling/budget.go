package polling

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Budgets bound how many polls per second each provider gets. They are safe for
// concurrent use. A nil *Budgets bounds nothing.
type Budgets struct {
	perSecond rate.Limit
	burst     int
	now       func() time.Time

	mu      sync.Mutex
	budgets map[string]*Budget // by provider
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

// Of returns a provider's budget.
func (b *Budgets) Of(provider string) *Budget {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if found := b.budgets[provider]; found != nil {
		return found
	}
	if len(b.budgets) >= b.sweepAt {
		b.sweep()
	}
	made := &Budget{limiter: rate.NewLimiter(b.perSecond, b.burst), last: rate.NewLimiter(b.perSecond, b.burst), now: b.now}
	b.budgets[provider] = made
	return made
}

// sweep drops the budgets that are full: a new one is no different.
func (b *Budgets) sweep() {
	now := b.now()
	for provider, budget := range b.budgets {
		if budget.limiter.TokensAt(now) >= float64(b.burst) {
			delete(b.budgets, provider)
		}
	}
	b.sweepAt = max(firstSweep, 2*len(b.budgets))
}

// A Budget bounds how many polls per second one provider gets. It delays polls,
// and never refuses one. It is safe for concurrent use. A nil *Budget bounds
// nothing.
type Budget struct {
	limiter *rate.Limiter
	last    *rate.Limiter // of polls that can't wait for their turn
	now     func() time.Time
}

// reserve takes a place in the queue unless that means to wait for longer than most.
func (b *Budget) reserve(most time.Duration) (delay time.Duration, ok bool) {
	if b == nil {
		return 0, true
	}
	now := b.now()
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
	delay, ok := b.reserve(most)
	if ok {
		return delay
	}
	if !b.last.AllowN(b.now(), 1) {
		return Never
	}
	return max(most, 0)
}
