package front

import (
	"sync"
	"time"
)

// Timers are timers that are used again: a new one takes more than 1 % of a short call. The zero value is ready for use.
type Timers struct{ pool sync.Pool }

// Take returns a timer that fires after a time. The caller gives it back with [Timers.GiveBack].
func (t *Timers) Take(d time.Duration) *time.Timer {
	timer, ok := t.pool.Get().(*time.Timer)
	if !ok {
		return time.NewTimer(d)
	}
	timer.Reset(d)
	return timer
}

// GiveBack stops a timer. The caller must not use it any more.
func (t *Timers) GiveBack(timer *time.Timer) {
	timer.Stop() // it does not fire later, and its channel is empty
	t.pool.Put(timer)
}
