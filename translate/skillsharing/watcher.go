package skillsharing

import (
	"context"
	"errors"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// firstAnswer is how long a watcher waits at least for the first answer about a resumed run, however short the time is that
// its caller allows: otherwise a caller that allows none would never learn a state.
const firstAnswer = time.Second

// watcher is one caller that follows a run.
type watcher struct {
	ctx         context.Context
	until       time.Time // when it leaves, whether the run has ended or not; zero: with the run
	patient     time.Time // it waits for the first answer until then in any case
	traceParent string
	stats       *Stats
	woken       chan struct{} // nil: it has asked from the beginning
	timer       *time.Timer
	full        *run.Failure // there is no room for its copy of the end of the run; nil: there is
	shows       bool         // it shows each state to its caller
	seen        run.State    // the last that its caller knows
	looking     bool         // it leaves to show the newest state
	place       int          // in the crowd that waits, from 1; 0: it is in none
}

func newWatcher(ctx context.Context, options *FollowOptions, stats *Stats) *watcher {
	return &watcher{ctx: ctx, until: options.Until, patient: time.Now().Add(firstAnswer), traceParent: options.TraceParent, stats: stats, shows: options.Show != nil, seen: options.Known}
}

// wants reports whether the watcher shows a state that its caller does not know.
func (w *watcher) wants(state run.State) bool { return w.shows && state != 0 && state != w.seen }

// end is when the watcher leaves at the latest; zero: with the run.
func (w *watcher) end() time.Time {
	deadline, bounded := w.ctx.Deadline()
	if !w.until.IsZero() && (!bounded || w.until.Before(deadline)) {
		return w.until
	}
	return deadline
}

// limit is until when the watcher waits for an answer, which may be the first; zero: there is no limit.
func (w *watcher) limit(first bool) time.Time {
	if first && !w.until.IsZero() && w.until.Before(w.patient) {
		return w.patient
	}
	return w.until
}

// over reports whether the time has come at which the watcher leaves.
func (w *watcher) over() bool { return !w.until.IsZero() && !time.Now().Before(w.until) }

// brokeOff reports whether the watcher did not wait for the answer to a request: then the
// failure e says nothing about the run.
func (w *watcher) brokeOff(e *run.Failure) bool {
	return w.ctx.Err() != nil || e != nil && w.over() && errors.Is(e.Cause, context.DeadlineExceeded)
}

// later reports whether one end comes after another one.
func later(a, b time.Time) bool { return !b.IsZero() && (a.IsZero() || a.After(b)) }

// sleep waits for d or until the context ends, always with the same timer. It
// reports whether it waited for d.
func (w *watcher) sleep(d time.Duration) bool {
	if d <= 0 {
		return w.ctx.Err() == nil
	}
	select {
	case <-w.ctx.Done():
		w.timer.Stop()
		return false
	case <-w.after(d):
		return true
	}
}

func (w *watcher) after(d time.Duration) <-chan time.Time {
	if w.timer == nil {
		w.timer = time.NewTimer(d)
	} else {
		w.timer.Reset(d)
	}
	return w.timer.C
}

// wake makes a waiting watcher look at what has changed.
func (w *watcher) wake() {
	select {
	case w.woken <- struct{}{}:
	default: // it has been woken already
	}
}

// crowd is a heap of watchers, for [container/heap]: the one that stays longest comes first.
// So the time for joining or leaving hardly grows with their number.
type crowd []*watcher

func (c crowd) Len() int           { return len(c) }
func (c crowd) Less(i, j int) bool { return later(c[i].end(), c[j].end()) }

func (c crowd) Swap(i, j int) {
	c[i], c[j] = c[j], c[i]
	c[i].place, c[j].place = i+1, j+1
}

// Push implements heap.Interface.
func (c *crowd) Push(x any) {
	w := x.(*watcher)
	*c = append(*c, w)
	w.place = len(*c)
}

// Pop implements heap.Interface.
func (c *crowd) Pop() any {
	last := len(*c) - 1
	w := (*c)[last]
	(*c)[last] = nil // or it would be kept
	*c = (*c)[:last]
	w.place = 0
	return w
}
