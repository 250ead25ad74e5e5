package polling

import (
	"context"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// Budgets bound the polls per second of each host. They are safe for concurrent use. A
// nil *Budgets sets no bound.
type Budgets struct {
	each, burst         time.Duration // see share.Rate
	vainEach, vainBurst time.Duration // the same for polls that find no end

	mu      sync.Mutex
	budgets map[string]*Budget // by host
	sweepAt int
}

// firstSweep is the number of budgets at which unused ones are first dropped.
const firstSweep = 1024

// NewBudgets returns budgets with a rate, and a burst of polls that a host gets at once after a time without any.
func NewBudgets(perSecond float64, burst int) *Budgets {
	each := time.Duration(math.Ceil(float64(time.Second) / perSecond))
	all := time.Duration(max(burst, 1)) * each
	return &Budgets{each: each, burst: all, vainEach: each, vainBurst: all, budgets: make(map[string]*Budget), sweepAt: firstSweep}
}

// NewEarnedBudgets is [NewBudgets] with fewer polls per second, inVain, as long as none finds the end of a run: each that does earns the next
// ones. Thousands of runs that go on cost their host, and this process, no more than that, and are asked about as often as the rate
// permits as soon as they end.
func NewEarnedBudgets(perSecond, inVain int) *Budgets {
	b := NewBudgets(float64(perSecond), perSecond)
	if inVain < perSecond {
		b.vainEach, b.vainBurst = time.Second/time.Duration(inVain), time.Second
	}
	return b
}

// Of returns the budget of a host.
func (b *Budgets) Of(host string) *Budget {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if found := b.budgets[host]; found != nil {
		return found
	}
	if len(b.budgets) >= b.sweepAt { // a new budget is equal to one that is full
		maps.DeleteFunc(b.budgets, func(_ string, budget *Budget) bool { return budget.drop() })
		b.sweepAt = max(firstSweep, 2*len(b.budgets))
	}
	now := time.Now()
	made := &Budget{
		all: b, host: host, turns: share.NewRate(now, b.each, b.burst), last: share.NewRate(now, b.each, b.burst),
		vain: share.NewRate(now, b.vainEach, b.vainBurst),
	}
	made.open.Store(true)
	b.budgets[host] = made
	return made
}

// A Budget bounds the polls per second of one host. It is safe for concurrent use. A nil
// *Budget sets no bound.
//
// Polls above the rate wait in a queue, ordered by the likely ends of their runs, since the
// poll with the earliest likely end is the most likely one to find a run ended. No poll
// waits for ever, because its likely end is near (see Run.Turn), and polls that arrive after
// that time queue behind it.
//
// The rate follows the provider: it is halved when the provider says that there are too many requests or answers slowly, down to a
// 64th, and doubled again for each ten seconds without such an answer.
type Budget struct {
	all   *Budgets
	host  string
	turns *share.Rate
	vain  *share.Rate // each poll takes a token of it, too, and one that finds the end of a run gives more back
	last  *share.Rate // of polls that left the queue because their turn did not come in time
	open  atomic.Bool // it is idle and in use, so that a poll may be made without the lock

	mu      sync.Mutex          // locked after all.mu, if both are
	dropped bool                // Of returns another one now
	slowed  time.Time           // when the rate last changed; zero: never
	queue   share.Heap[*waiter] // by the likely ends of the runs
	head    *waiter             // first in the queue when it was last notified; it wakes when the next poll may be made
	order   uint64
}

// lock locks the budget of the host, which it returns: b may have been dropped and replaced.
func (b *Budget) lock() *Budget {
	for {
		b.mu.Lock()
		if !b.dropped {
			return b
		}
		b.mu.Unlock()
		b = b.all.Of(b.host)
	}
}

// isIdle reports whether nothing waits, and the rate is the full one.
func (b *Budget) isIdle() bool { return b.queue.Len() == 0 && b.turns.Interval() == b.all.each }

func (b *Budget) unlock() {
	b.open.Store(b.isIdle() && !b.dropped)
	b.mu.Unlock()
}

// drop drops the budget if it is equal to a new one. It reports whether it is.
func (b *Budget) drop() bool {
	b.mu.Lock()
	defer b.unlock()
	now := time.Now()
	b.recover(now) // also that of a host which is never polled again
	b.dropped = b.isIdle() && b.turns.Rest(now) <= 0 && b.vain.Rest(now) <= 0
	return b.dropped
}

// wait waits for the turn of a poll until the context ends, or until the given time if it is
// not zero. It reports whether the poll may be made. Likely is when the run has likely ended.
// If the poll's turn does not come within most, it leaves the queue. Such polls have a separate
// rate, equal to that of the queue, and are made only within that rate. If most is [Never], the
// poll is not made.
func (b *Budget) wait(ctx context.Context, likely time.Time, most time.Duration, until time.Time) bool {
	if b == nil {
		return ctx.Err() == nil
	}
	now := time.Now()
	if b.open.Load() && b.take(now) {
		return ctx.Err() == nil
	}
	b = b.lock()
	defer b.unlock()
	b.serve(now)
	if b.queue.Len() == 0 && b.take(now) {
		return ctx.Err() == nil
	}
	end, last := until, false
	if most != Never && (until.IsZero() || now.Add(most).Before(until)) {
		end, last = now.Add(most), true
	}
	b.order++
	p := &waiter{likely: likely, order: b.order, wake: make(chan struct{}, 1)}
	b.queue.Push(p)
	defer b.remove(p)
	for {
		b.serve(now)
		switch left := end.Sub(now); {
		case p.served:
			return true
		case ctx.Err() != nil:
			return false
		case !end.IsZero() && left <= 0:
			return last && b.last.Take(now)
		default:
			if end.IsZero() {
				left = Never
			}
			b.sleep(ctx, p, left)
		}
		now = time.Now()
	}
}

// take takes the turn of a poll, if there is one.
func (b *Budget) take(now time.Time) bool {
	if !b.vain.Take(now) {
		return false
	}
	taken := b.turns.Take(now)
	if !taken {
		b.vain.Give(1)
	}
	return taken
}

// earned is how many polls one that finds the end of a run earns. A run needs two to eight polls if its skill is known, and twice as many if not.
const earned = 16

// found is called after a poll that has found the end of a run.
func (b *Budget) found() {
	if b == nil {
		return
	}
	if b.open.Load() {
		b.vain.Give(earned)
		return
	}
	b = b.lock() // the one that took the place of a dropped one, and polls may wait
	defer b.unlock()
	b.vain.Give(earned)
	b.serve(time.Now())
}

const (
	slowest      = 64               // the smallest part of the rate
	slowAnswer   = 2 * time.Second  // answers to polls that take longer are slow
	slowStorm    = time.Second      // all reasons within it halve the rate once
	rateDoubling = 10 * time.Second // without a reason, the rate is doubled
)

// slow halves the rate.
func (b *Budget) slow() {
	if b == nil {
		return
	}
	b = b.lock()
	defer b.unlock()
	now := time.Now()
	b.recover(now)
	if now.Sub(b.slowed) >= slowStorm {
		b.setInterval(min(2*b.turns.Interval(), slowest*b.all.each))
		b.slowed = now
	}
}

// recover doubles the rate if it is time for that.
func (b *Budget) recover(now time.Time) {
	each := b.turns.Interval()
	for ; each > b.all.each && now.Sub(b.slowed) >= rateDoubling; b.slowed = b.slowed.Add(rateDoubling) {
		each = max(each/2, b.all.each)
	}
	b.setInterval(each)
}

// setInterval sets the interval of polls, and in proportion that of those in vain.
func (b *Budget) setInterval(each time.Duration) {
	b.turns.SetInterval(each)
	b.vain.SetInterval(time.Duration(float64(b.all.vainEach) * each.Seconds() / b.all.each.Seconds()))
}

// waiter is a poll in the queue.
type waiter struct {
	share.Spot

	likely time.Time
	order  uint64
	served bool
	wake   chan struct{}
}

// sleep waits without the lock until something may have changed for a waiter. The first in
// the queue wakes when the next poll may be made.
func (b *Budget) sleep(ctx context.Context, p *waiter, left time.Duration) {
	if b.queue.First() == p {
		now := time.Now()
		left = min(left, max(b.turns.Delay(now), b.vain.Delay(now)))
	}
	b.unlock()
	defer b.mu.Lock()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-p.wake:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// serve marks the polls whose turn it is as served, and wakes the new head of the queue.
func (b *Budget) serve(now time.Time) {
	b.recover(now)
	for b.queue.Len() > 0 && b.take(now) {
		first := b.queue.Pop()
		first.served = true
		first.notify()
	}
	b.wakeHead()
}

func (b *Budget) wakeHead() {
	if b.queue.Len() > 0 && b.queue.First() != b.head {
		b.head = b.queue.First()
		b.head.notify()
	}
}

// remove removes a waiter from the queue.
func (b *Budget) remove(p *waiter) {
	if !p.served {
		b.queue.Remove(p)
		p.served = true
	}
	if b.head == p {
		b.head = nil
	}
	b.wakeHead()
}

func (p *waiter) notify() {
	select {
	case p.wake <- struct{}{}:
	default: // it was notified already
	}
}

// Before orders waiters by the likely ends of their runs.
func (p *waiter) Before(other *waiter) bool {
	if c := p.likely.Compare(other.likely); c != 0 {
		return c < 0
	}
	return p.order < other.order
}
