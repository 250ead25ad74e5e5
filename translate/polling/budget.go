package polling

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Budgets bound how many polls per second each host gets. They are safe for
// concurrent use. A nil *Budgets bounds nothing.
type Budgets struct {
	perSecond rate.Limit
	burst     int

	mu      sync.Mutex
	budgets map[string]*Budget // by host
	sweepAt int
}

// firstSweep is the number of budgets at which unused ones are first dropped.
const firstSweep = 1024

// NewBudgets returns budgets of so many polls per second, with bursts of so many.
func NewBudgets(perSecond float64, burst int) *Budgets {
	return &Budgets{perSecond: rate.Limit(perSecond), burst: max(burst, 1), budgets: make(map[string]*Budget), sweepAt: firstSweep}
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

// of is Of with b.mu held.
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

// sweep drops the budgets that are full: a new one is the same.
func (b *Budgets) sweep() {
	now := time.Now()
	for host, budget := range b.budgets {
		if len(budget.queue) == 0 && budget.limiter.TokensAt(now) >= float64(b.burst) {
			delete(b.budgets, host)
		}
	}
	b.sweepAt = max(firstSweep, 2*len(b.budgets))
}

// A Budget bounds how many polls per second one host gets. It is safe for concurrent
// use. A nil *Budget bounds nothing.
//
// Further polls queue. The next one is that of the run whose likely end is earliest, since
// it finds most. No poll waits for ever: polls that come after its run's likely end,
// which is never far away, queue behind it.
type Budget struct {
	all     *Budgets // its lock guards what follows
	host    string
	limiter *rate.Limiter
	last    *rate.Limiter // of polls that can't wait for their turn
	queue   queue
	head    *waiter // the first of the queue, which wakes when its turn comes
	order   uint64
}

// wait waits for the turn of a poll until the context ends, or the given time if it is not
// zero. It reports whether the poll may be made. Likely is when the run is likely to have
// ended. A poll whose turn has not come after most may be made then, outside of the queue,
// but no more of these than of the others. If most is [Never], it is not made.
func (b *Budget) wait(ctx context.Context, likely time.Time, most time.Duration, until time.Time) bool {
	if b == nil {
		return ctx.Err() == nil
	}
	now := time.Now()
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	b = b.all.of(b.host) // b may have been dropped, and another one made since
	b.serve(now)
	if len(b.queue) == 0 && b.limiter.AllowN(now, 1) {
		return ctx.Err() == nil
	}
	end, last := until, false
	if most != Never && (until.IsZero() || now.Add(most).Before(until)) {
		end, last = now.Add(most), true
	}
	b.order++
	p := &waiter{likely: likely, order: b.order, wake: make(chan struct{}, 1)}
	heap.Push(&b.queue, p)
	defer b.leave(p)
	for {
		b.serve(now)
		switch left := end.Sub(now); {
		case p.served:
			return true
		case ctx.Err() != nil:
			return false
		case !end.IsZero() && left <= 0:
			return last && b.last.AllowN(now, 1)
		default:
			if end.IsZero() {
				left = Never
			}
			b.sleep(ctx, p, left)
		}
		now = time.Now()
	}
}

// waiter is a poll in the queue.
type waiter struct {
	likely time.Time
	order  uint64
	index  int // in the queue
	served bool
	wake   chan struct{}
}

// sleep waits without the lock until something may have changed for a waiter. The first in
// the queue wakes when the next poll may be made.
func (b *Budget) sleep(ctx context.Context, p *waiter, left time.Duration) {
	if b.queue[0] == p {
		next := b.limiter.ReserveN(time.Now(), 1)
		left = min(left, next.Delay()+time.Microsecond) // since delays are rounded
		next.Cancel()
	}
	b.all.mu.Unlock()
	defer b.all.mu.Lock()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-p.wake:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// serve lets the polls go whose turn it is, and wakes the first of the others if it was
// not the first before.
func (b *Budget) serve(now time.Time) {
	for len(b.queue) > 0 && b.limiter.AllowN(now, 1) {
		first := heap.Pop(&b.queue).(*waiter)
		first.served = true
		first.rouse()
	}
	b.wakeHead()
}

func (b *Budget) wakeHead() {
	if len(b.queue) > 0 && b.queue[0] != b.head {
		b.head = b.queue[0]
		b.head.rouse()
	}
}

// leave takes a waiter out of the queue.
func (b *Budget) leave(p *waiter) {
	if !p.served {
		heap.Remove(&b.queue, p.index)
		p.served = true
	}
	if b.head == p {
		b.head = nil
	}
	b.wakeHead()
}

func (p *waiter) rouse() {
	select {
	case p.wake <- struct{}{}:
	default: // it is awake already
	}
}

// queue orders waiters by the likely ends of their runs. It implements
// [heap.Interface].
type queue []*waiter

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if c := q[i].likely.Compare(q[j].likely); c != 0 {
		return c < 0
	}
	return q[i].order < q[j].order
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements [heap.Interface].
func (q *queue) Push(x any) {
	p := x.(*waiter)
	p.index = len(*q)
	*q = append(*q, p)
}

// Pop implements [heap.Interface].
func (q *queue) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return p
}
