package skillsharing

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// firstAnswer is the least time that a watcher waits for the first answer about a resumed run, even if its caller allows
// less, unless it says more. Otherwise a caller that allows no time would never get a state.
const firstAnswer = time.Second

// watcher is one caller that follows a run.
type watcher struct {
	share.Spot

	ctx         context.Context
	until       time.Time // when it leaves, even if the run has not ended; zero: it waits for the end of the run
	patient     time.Time // it waits for the first answer at least until then
	unhurried   bool      // see FollowOptions.Patience
	traceParent string
	stats       *Stats
	woken       chan struct{} // nil: it had the turn to ask from the beginning
	full        *run.Failure  // there is no room for its copy of the last answer; nil: there is
	shows       bool          // it shows each state to its caller
	seen        run.State     // the newest state that its caller knows
	looking     bool          // it leaves to show the newest state
}

func newWatcher(ctx context.Context, options *FollowOptions, stats *Stats) *watcher {
	return &watcher{
		ctx: ctx, until: options.Until, patient: time.Now().Add(cmp.Or(options.Patience, firstAnswer)), unhurried: options.Patience > 0,
		traceParent: options.TraceParent, stats: stats, shows: options.Show != nil, seen: options.Known,
	}
}

// wants reports whether the watcher shows a state that its caller does not know.
func (w *watcher) wants(state run.State) bool { return w.shows && state != 0 && state != w.seen }

// end returns when the watcher leaves at the latest; zero: when the run has ended.
func (w *watcher) end() time.Time {
	deadline, bounded := w.ctx.Deadline()
	if !w.until.IsZero() && (!bounded || w.until.Before(deadline)) {
		return w.until
	}
	return deadline
}

// limit returns until when the watcher waits for an answer. first says that it is the first answer. Zero: there is no
// limit.
func (w *watcher) limit(first bool) time.Time {
	if first && !w.until.IsZero() && w.until.Before(w.patient) {
		return w.patient
	}
	return w.until
}

// over reports whether the watcher's time is over.
func (w *watcher) over() bool { return !w.until.IsZero() && !time.Now().Before(w.until) }

// brokeOff reports whether the watcher stopped waiting for the answer to a request, so
// that the failure e says nothing about the run.
func (w *watcher) brokeOff(e *run.Failure) bool {
	return w.ctx.Err() != nil || e != nil && w.over() && errors.Is(e.Cause, context.DeadlineExceeded)
}

// later reports whether the end a is later than b. A zero end is later than all others.
func later(a, b time.Time) bool { return !b.IsZero() && (a.IsZero() || a.After(b)) }

// wake wakes a waiting watcher, so that it checks what has changed.
func (w *watcher) wake() {
	select {
	case w.woken <- struct{}{}:
	default: // it has been woken already
	}
}

// Before orders watchers: the one that stays longest comes first.
func (w *watcher) Before(other *watcher) bool { return later(w.end(), other.end()) }
