package polling

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Budgets bound how many polls per second each host gets. They are safe for
// concurrent use, and may be shared by all that poll. A nil *Budgets bounds nothing.
type Budgets struct {
	perSecond rate.Limit
	burst     int

	mu      sync.Mutex
	budgets map[string]*Budget // by host
	sweepAt int
}

// firstSweep is with how many budgets those that are not used are looked for.
const firstSweep = 1024

// NewBudgets returns budgets of so many polls per second, and a burst of that
// many at once.
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
// Where there are more polls than that, they queue. The next is the one whose run is
// likely to have ended first, so that what a host may be asked is asked where it tells
// most. None waits for ever: none is put behind polls that come after the moment at
// which its own run is likely to have ended, which is never far away.
type Budget struct {
	all     *Budgets // and the lock of what follows
	host    string
	limiter *rate.Limiter
	last    *rate.Limiter // of polls that can't wait for their turn
	queue   queue
	head    *place // the place whose caller serves the queue
	order   uint64
}

// valid returns the host's budget as it is now: b may have been dropped while a run
// that held it was left alone, and another have been made since.
func (b *Budget) valid() *Budget { return b.all.of(b.host) }

// Wait waits for the turn of a poll, for as long as the context lasts, and until the
// given time if it is not zero. It reports whether the poll may be made. Likely is when
// the run is likely to have ended. A poll whose turn has not come after most is made at
// that moment, outside of the queue, or the queue would never end; but of those there are
// no more than of the others. [Never] means that it can be left out instead.
func (b *Budget) Wait(ctx context.Context, likely time.Time, most time.Duration, until time.Time) bool {
	if b == nil {
		return ctx.Err() == nil
	}
	now := time.Now()
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	b = b.valid()
	b.serve(now)
	if len(b.queue) == 0 && b.limiter.AllowN(now, 1) {
		return ctx.Err() == nil
	}
	end, last := until, false
	if most != Never && (until.IsZero() || now.Add(most).Before(until)) {
		end, last = now.Add(most), true
	}
	b.order++
	p := &place{likely: likely, order: b.order, wake: make(chan struct{}, 1)}
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

// place is one in the queue.
type place struct {
	likely time.Time
	order  uint64
	index  int // in the queue
	served bool
	wake   chan struct{}
}

// sleep waits without the lock until something may have changed for a place. The first
// in the queue sees to it that polls are made as soon as they may be.
func (b *Budget) sleep(ctx context.Context, p *place, left time.Duration) {
	if b.queue[0] == p {
		next := b.limiter.ReserveN(time.Now(), 1)
		left = min(left, next.Delay()+time.Microsecond) // for what is lost by rounding
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

// serve lets those go whose turn it is, and has the first of the others look after the
// queue.
func (b *Budget) serve(now time.Time) {
	for len(b.queue) > 0 && b.limiter.AllowN(now, 1) {
		first := heap.Pop(&b.queue).(*place)
		first.served = true
		first.rouse()
	}
	b.lookAfter()
}

func (b *Budget) lookAfter() {
	if len(b.queue) > 0 && b.queue[0] != b.head {
		b.head = b.queue[0]
		b.head.rouse()
	}
}

// leave takes a place out of the queue.
func (b *Budget) leave(p *place) {
	if !p.served {
		heap.Remove(&b.queue, p.index)
		p.served = true
	}
	if b.head == p {
		b.head = nil
	}
	b.lookAfter()
}

func (p *place) rouse() {
	select {
	case p.wake <- struct{}{}:
	default: // it will look anyhow
	}
}

// queue has the place first whose run is likely to have ended first. It implements
// [heap.Interface].
type queue []*place

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
	p := x.(*place)
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
