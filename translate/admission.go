package translate

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/quota"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// limiter bounds how many calls are in progress at a time. There is no queue: a call
// above the limit fails at once.
type limiter struct {
	option   string // of the configuration
	text     string // in messages
	ofBridge bool   // it is of the bridge as a whole
	most     int64  // 0: no bound
	held     atomic.Int64
	detached atomic.Int64 // calls in progress that no caller waits for, which the limit does not count
}

// inProgress returns how many calls are in progress, also those that the limit does not count.
func (l *limiter) inProgress() int64 { return l.held.Load() + l.detached.Load() }

// acquire reports whether one more call is within the limit. If so, the caller has to release it.
func (l *limiter) acquire() bool {
	if n := l.held.Add(1); l.most > 0 && n > l.most {
		l.held.Add(-1)
		return false
	}
	return true
}

func (l *limiter) release() { l.held.Add(-1) }

// exceeded is the failure of a call above the limit.
func (l *limiter) exceeded() *run.Failure {
	message := fmt.Sprintf("Too many calls are in progress here (limits %s: %d); try again later.", l.text, l.most)
	return run.TooMuch(run.PhaseDiscovery, message, run.Limit{Name: l.option, Max: l.most, OfBridge: l.ofBridge}, run.RetryIn(time.Second, 5))
}

// admission holds the limiters that a call has acquired.
type admission struct {
	source   *catalog.Section // the last one that the call was admitted to
	limiters [4]*limiter
	acquired int
	grant    *quota.Grant // of a call that executes a skill; nil: no quota applies
	hold     hold
}

// acquire acquires a limiter for the call. A detached call only counts as one that is in progress.
func (a *admission) acquire(l *limiter) *run.Failure {
	switch {
	case a.hold.detached:
		l.detached.Add(1)
	case !l.acquire():
		return l.exceeded()
	}
	a.limiters[a.acquired] = l
	a.acquired++
	return nil
}

// count counts the call at a limiter without a bound, which no call exceeds.
func (a *admission) count(l *limiter) { _ = a.acquire(l) }

// release releases the limiters of the call, as soon as no reading that it began goes on.
func (a *admission) release() { a.hold.end(a.limiters[:a.acquired]) }

// Detach implements [Execution].
func (a *admission) Detach() { a.hold.detach(a.limiters[:a.acquired]) }

// admitTo acquires the limiter of a source for the call, unless the caller may not use the source.
func (x *execution) admitTo(s *catalog.Section) *run.Failure {
	if s == nil || s == x.source {
		return nil
	}
	x.source = s
	if !s.Admits(x.call.Principal) {
		return anonymous()
	}
	return x.acquire(&x.bridge.sources[s.Index])
}

// takeQuota counts a call that executes a skill under the quotas of its caller, once it is known which skill it is.
func takeQuota(x *execution) (failure *run.Failure) {
	quotas := x.bridge.config.Quotas
	if quotas == nil || x.operation != OperationExecute {
		return nil
	}
	namespace := x.listed.Section.Namespace
	if x.listed.Section.Kind == catalog.SkillSource {
		namespace = ""
	}
	x.grant, failure = quotas.Take(x.call.Principal, namespace, x.listed)
	return failure
}

// endQuota says under the quotas of the caller that the call has ended, and whether its run goes on. A run whose provider the bridge no longer
// waits for may go on, also without an execution id: it counts on like an accepted one, so that hanging up makes no place. Further calls have no
// effect.
func endQuota(x *execution) {
	quotas, grant := x.bridge.config.Quotas, x.grant
	if quotas == nil {
		return
	}
	x.grant = nil
	o := &x.outcome
	// The bridge no longer waited for the answer to the submission.
	abandoned := o.Failure != nil && o.Failure.By == run.Bridge && o.Failure.Executed == run.ExecutedMaybe &&
		slices.Contains([]run.Kind{run.DeadlineExceeded, run.CallerGone, run.CallerCanceled}, o.Failure.Kind)
	over := o.State.Ended() && o.State != run.Canceled || o.Failure != nil && o.Failure.Lost // a provider goes on with a run that was canceled
	switch {
	case x.operation == OperationFollow && over:
		quotas.Ended(x.call.Principal, &x.ref)
	case x.operation == OperationFollow && x.call.Poll != nil:
		quotas.Follow(x.call.Principal, &x.ref, countUntil(x))
	case x.operation == OperationFollow || grant == nil:
	case x.ref.ExecutionID == "" && !abandoned || over:
		grant.End(quota.Ending{Unused: x.ref.ExecutionID == "" && o.Failure != nil && o.Failure.Executed == run.ExecutedNo})
	default: // a caller does not decide for how long its runs count
		x.timeout = max(x.timeout, x.timeoutFor(0), x.bridge.config.DefaultTimeout)
		grant.End(quota.Ending{Ref: &x.ref, Until: countUntil(x)})
	}
}

// latePoll is how much later than planned a poll may be, beside a part of the time before it.
const latePoll = 2 * time.Minute

// countUntil is until when a run that goes on counts without a further call: while the bridge follows it, that is after the next poll.
func countUntil(x *execution) time.Time {
	until, next := x.call.deadline(x.timeout), x.outcome.RetryAfter
	switch p := x.call.Poll; {
	case p != nil:
		next = max(next, p.Next)
	case !x.call.Followed:
		return until
	}
	if polled := time.Now().Add(2*next + latePoll); polled.After(until) {
		return polled
	}
	return until
}

// hold keeps limiters acquired until the call has ended, and each reading of a document that
// it began. So the limits also bound how many documents are read at a time, however short the
// calls are.
type hold struct {
	within *hold // that ends later; nil: there is none

	mu       sync.Mutex
	readings int32 // that go on
	ended    bool
	leaving  bool       // the call is to be detached
	detached bool       // the limits do not count the call
	limiters []*limiter // of a call that has ended or is to be detached
}

// Hold keeps the limiters until release is called.
func (h *hold) Hold() (release func()) {
	h.mu.Lock()
	h.readings++
	h.mu.Unlock()
	outer := func() {}
	if h.within != nil {
		outer = h.within.Hold()
	}
	return func() {
		h.mu.Lock()
		h.readings--
		h.settle()
		outer()
	}
}

// end says that the call has ended, and which limiters it had.
func (h *hold) end(limiters []*limiter) {
	h.mu.Lock()
	h.ended, h.limiters = true, limiters
	h.settle()
}

// detach says that the limits need not count the call any more, and which limiters it has.
func (h *hold) detach(limiters []*limiter) {
	h.mu.Lock()
	if !h.ended {
		h.leaving, h.limiters = true, limiters
	}
	h.settle()
}

// settle releases or detaches the limiters if nothing keeps them. It unlocks h.mu.
func (h *hold) settle() {
	switch {
	case h.readings > 0:
	case h.ended:
		for _, l := range h.limiters {
			if h.detached {
				l.detached.Add(-1)
			} else {
				l.release()
			}
		}
		h.limiters = nil
	case h.leaving && !h.detached:
		h.detached = true
		for _, l := range h.limiters {
			l.detached.Add(1)
			l.release()
		}
	}
	h.mu.Unlock()
}
