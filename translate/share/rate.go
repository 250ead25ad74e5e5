package share

import (
	"sync/atomic"
	"time"
)

// Rate is a token bucket, full at first. It is safe for concurrent use, and has no lock: what waits for one while hundreds of goroutines use it waits for as
// long as a goroutine takes to be scheduled. It is the generic cell rate algorithm (ITU-T I.371, annex A): a bucket is full again after as many intervals as
// tokens were taken from it.
type Rate struct {
	began time.Time
	burst time.Duration // after which an empty bucket is full
	each  atomic.Int64  // interval between two tokens, in nanoseconds
	full  atomic.Int64  // when the bucket is full again, in nanoseconds since it began
}

// NewRate returns a full bucket, which gets a token in each interval and holds as many as in the duration of a burst, at least one.
func NewRate(now time.Time, each, burst time.Duration) *Rate {
	r := &Rate{began: now, burst: burst}
	r.SetInterval(each)
	return r
}

// Interval returns the time between two tokens.
func (r *Rate) Interval() time.Duration { return time.Duration(r.each.Load()) }

// SetInterval changes the interval. A bucket with a longer one has fewer tokens.
func (r *Rate) SetInterval(each time.Duration) { r.each.Store(int64(each)) }

// Take takes a token, if there is one. A time that has passed does no harm.
func (r *Rate) Take(now time.Time) bool {
	since := int64(now.Sub(r.began))
	for {
		full, each := r.full.Load(), r.each.Load()
		next := max(full, since) + each
		if next-since > max(int64(r.burst), each) {
			return false
		}
		if r.full.CompareAndSwap(full, next) {
			return true
		}
	}
}

// Give gives tokens back. What the bucket can't hold is lost with the next one that is taken.
func (r *Rate) Give(n int64) { r.full.Add(-n * r.each.Load()) }

// Delay returns the time until there is a token; 0: there is one.
func (r *Rate) Delay(now time.Time) time.Duration {
	each := r.Interval()
	return max(0, time.Duration(r.full.Load())+each-max(r.burst, each)-now.Sub(r.began))
}

// Rest returns how long it takes until the bucket is full; not positive: it is.
func (r *Rate) Rest(now time.Time) time.Duration {
	return time.Duration(r.full.Load()) - now.Sub(r.began)
}
