package polling

import (
	"sync/atomic"
	"time"
)

// bucket is a token bucket. It is safe for concurrent use, and has no lock: what waits for one while hundreds of polls are made waits for as long as
// a goroutine takes to be scheduled. It is the generic cell rate algorithm (ITU-T I.371, annex A): a bucket is full again after as many intervals as
// tokens were taken from it.
type bucket struct {
	began time.Time
	burst time.Duration // after which an empty bucket is full
	each  atomic.Int64  // interval between two tokens, in nanoseconds
	full  atomic.Int64  // when the bucket is full again, in nanoseconds since it began
}

// newBucket returns a full bucket.
func newBucket(each, burst time.Duration) *bucket {
	b := &bucket{began: time.Now(), burst: burst}
	b.setInterval(each)
	return b
}

func (b *bucket) interval() time.Duration { return time.Duration(b.each.Load()) }

// setInterval changes the interval. A slower bucket has fewer tokens.
func (b *bucket) setInterval(each time.Duration) { b.each.Store(int64(each)) }

// take takes a token, if there is one. A time that has passed does no harm.
func (b *bucket) take(now time.Time) bool {
	since := int64(now.Sub(b.began))
	for {
		full, each := b.full.Load(), b.each.Load()
		next := max(full, since) + each
		if next-since > max(int64(b.burst), each) {
			return false
		}
		if b.full.CompareAndSwap(full, next) {
			return true
		}
	}
}

// give gives tokens back. What the bucket can't hold is lost with the next one that is taken.
func (b *bucket) give(n int64) { b.full.Add(-n * b.each.Load()) }

// delay returns the time until there is a token.
func (b *bucket) delay(now time.Time) time.Duration {
	each := b.interval()
	return max(0, time.Duration(b.full.Load())+each-max(b.burst, each)-now.Sub(b.began))
}

// isFull reports whether the bucket is full.
func (b *bucket) isFull(now time.Time) bool { return b.full.Load() <= int64(now.Sub(b.began)) }
