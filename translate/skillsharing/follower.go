package skillsharing

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// follower requests the state of one run for all its watchers. One of them makes the
// requests, with its own context and on its own goroutine; the others wait. When it
// leaves, another one continues. So a follower has no goroutine of its own, and ends
// with the last watcher.
type follower struct {
	key      run.Key
	poller   poller        // only for the watcher that asks; others may read the phase
	accepted time.Time     // zero: the run was resumed
	elapsed  time.Duration // time that a run took whose output is missing, by the provider's clock
	mustAsk  bool          // make the first request even if no caller has time left

	mu       sync.Mutex
	asking   *watcher
	waiting  share.Heap[*watcher] // the watchers that wait
	looking  int                  // number of watchers that show a state and may come back
	ended    bool                 // no watcher can join any more
	schedule schedule
	known    run.State          // the newest state; 0: none
	trouble  *run.Failure       // failure of the newest request
	response *document.Response // the last answer
	failure  *run.Failure       // or why following has failed
}

func newFollower(c *Client, s *discovery.Skill, options *FollowOptions, w *watcher) *follower {
	key := c.keyOf(w.ctx, s, options.ExecutionID)
	known := c.followers.recall(key, options)
	f := &follower{key: key, poller: poller{client: c, skill: s, executionID: options.ExecutionID, known: known}, asking: w}
	f.schedule.run.Until(w.end())
	return f
}

// begin schedules the first request. It is called before other watchers can join.
func (f *follower) begin(options *FollowOptions) {
	c, s := f.poller.client, f.poller.skill
	f.poller.bareOutput = s.Endpoint.StatusURL == ""
	f.failure = f.poller.seek(run.PhasePoll, cmp.Or(s.Endpoint.StatusURL, s.Endpoint.ResultURL))
	now := time.Now()
	f.schedule.run = c.Polling.planFor(c, s, options, f.schedule.run.Deadline())
	if options.Resumed {
		if at := options.earliest(now); at.After(now) {
			f.mustAsk, f.known, f.schedule.earliest, f.schedule.due = false, run.Working, at, at
		}
		return
	}
	f.accepted, f.known = now, run.Accepted
	f.schedule.rest(options.RetryAfter)
	f.schedule.in(f.schedule.run.Next(options.RetryAfter))
}

// seekResult makes the output of a completed run the target of further requests.
func (f *follower) seekResult(completed *document.Response) {
	f.elapsed = completed.Elapsed // the whole response would keep the arguments in memory
	f.mustAsk = true
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.poller
	last.known.seen, last.known.status = true, row{}
	f.poller = poller{client: last.client, skill: last.skill, executionID: last.executionID, known: last.known, bareOutput: true}
	f.failure = f.poller.seek(run.PhaseResult, f.poller.skill.Endpoint.ResultURL)
	f.schedule = schedule{run: polling.Start(resultDelays, nil, time.Now(), f.schedule.run.Deadline())}
	f.known, f.trouble = run.Working, nil // until there is an output
}

// enter adds a watcher. If no other watcher asks, it asks; otherwise it waits. The caller holds f.mu.
func (f *follower) enter(w *watcher) (asks bool) {
	asks = f.asking == nil
	if asks {
		f.asking = w
	} else {
		w.woken = make(chan struct{}, 1)
		f.waiting.Push(w)
	}
	if end := w.end(); asks || later(end, f.schedule.run.Deadline()) {
		f.schedule.run.Until(end)
	}
	return asks
}

// watch waits until the run has ended or the watcher leaves.
func (f *follower) watch(w *watcher, asks bool) (*document.Response, *run.Failure) {
	if asks || f.await(w) {
		defer f.handOver(w) // also if a transport panics
		f.ask(w)
		f.locked(func() { f.look(w) })
	}
	return f.answer(w)
}

// look marks a watcher as looking if it leaves to show a state that its caller does not
// know. The caller holds f.mu.
func (f *follower) look(w *watcher) {
	if f.response == nil && f.failure == nil && w.full == nil && w.wants(f.known) {
		w.looking = true
		f.looking++
	}
}

// show calls the function show with a state. It returns whether the watcher comes
// back and, if so, whether it asks.
func (f *follower) show(w *watcher, r *document.Response, show func(*document.Response) bool) (back, asks bool) {
	defer func() { // also if it panics
		f.mu.Lock()
		f.looking--
		w.looking = false
		if back && !f.ended {
			asks = f.enter(w)
		}
		f.mu.Unlock()
		if !back {
			f.handOver(nil)
		}
	}()
	return show(r), false
}

// await waits until the watcher has the turn to ask, which it reports, or has to leave.
func (f *follower) await(w *watcher) (asks bool) {
	defer f.stopWaiting(w, &asks)
	for {
		f.mu.Lock()
		asking, ended, heard := f.asking == w, f.ended, f.known != 0 || f.trouble != nil
		news := w.wants(f.known)
		f.mu.Unlock()
		if asking || ended || news {
			return asking
		}
		var timeUp <-chan time.Time
		if limit := w.limit(!heard); !limit.IsZero() {
			left := time.Until(limit)
			if left <= 0 {
				return false
			}
			timeUp = time.After(left)
		}
		select {
		case <-w.woken:
		case <-timeUp:
		case <-w.ctx.Done():
			return false
		}
	}
}

// stopWaiting removes a watcher that stops waiting for its turn. If it got its turn at
// that moment, it hands the turn over.
func (f *follower) stopWaiting(w *watcher, asks *bool) {
	if *asks {
		return
	}
	f.mu.Lock()
	asking := f.asking == w
	f.waiting.Remove(w)
	f.look(w)
	f.mu.Unlock()
	if asking {
		f.handOver(w)
	}
}

// handOver passes the turn to ask from one watcher to another. If the run has ended, or there is
// no other watcher, it ends the follower. If from does not have the turn, handOver does nothing.
func (f *follower) handOver(from *watcher) {
	if !f.passOn(from) {
		f.poller.client.followers.leave(f)
	}
}

// passOn passes the turn to the waiting watcher that stays longest, so that the
// turn rarely changes. It returns false if the follower has ended.
func (f *follower) passOn(from *watcher) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asking != from {
		return true
	}
	f.asking = nil
	switch {
	case f.response != nil, f.failure != nil:
	case f.waiting.Len() > 0:
		f.asking = f.waiting.Pop()
		f.schedule.run.Until(f.asking.end())
		f.asking.wake()
		return true
	case f.looking > 0: // the next watcher that comes back or joins asks
		return true
	}
	f.ended = true
	for f.waiting.Len() > 0 {
		f.waiting.Pop().wake()
	}
	return false
}

// answer returns what a watcher that leaves returns to its caller.
func (f *follower) answer(w *watcher) (*document.Response, *run.Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &f.poller
	switch ctx := w.ctx; {
	case w.full != nil:
		return nil, p.client.finish(p.skill, w.full)
	case f.response != nil:
		return f.response, nil
	case f.failure != nil:
		return nil, f.copied(f.failure)
	case w.looking:
	case w.until.IsZero(), ctx.Err() != nil && (!w.over() || !errors.Is(context.Cause(ctx), context.DeadlineExceeded)):
		return nil, p.client.finish(p.skill, exchange.Interrupted(ctx, p.phase, p.executionID, run.ExecutedYes))
	case f.known == 0 && f.trouble != nil:
		return nil, f.copied(f.trouble)
	}
	atLeast := time.Until(f.schedule.earliest)
	if f.trouble != nil {
		atLeast = max(atLeast, time.Until(f.schedule.due))
	}
	return &document.Response{
		ExecutionID: p.executionID, State: cmp.Or(f.known, run.Working),
		RetryAfter: f.schedule.run.Later(atLeast), NotBefore: f.schedule.earliest,
	}, nil
}

// copied returns a copy of a failure that other watchers get, too, since each watcher completes its own.
func (f *follower) copied(shared *run.Failure) *run.Failure {
	return f.poller.client.finish(f.poller.skill, new(*shared))
}

// locked calls a function with f.mu held. If the function panics, as a polling plan may,
// f.mu is unlocked, so that only the call of this watcher fails.
func (f *follower) locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// ask makes requests about the run until the run has ended, or the watcher leaves.
func (f *follower) ask(w *watcher) {
	if f.poller.phase == run.PhasePoll {
		f.askUntil(w)
	}
	if f.poller.phase == run.PhaseResult {
		start := time.Now()
		defer func() { w.stats.Result += time.Since(start) }()
		f.askUntil(w)
	}
}

// askUntil is like ask, but it also returns when the phase changes, and so the URL.
func (f *follower) askUntil(w *watcher) {
	f.locked(func() {
		if f.schedule.never { // there was no request before the deadline of the last watcher that asked
			f.schedule.in(f.schedule.run.Next(time.Until(f.schedule.earliest)))
		}
	})
	for phase := f.poller.phase; phase == f.poller.phase && f.failure == nil && !w.wants(f.known); {
		if !f.wait(w) || !f.hold(w) || !f.poll(w) {
			return
		}
	}
}

// poll makes one request and stores the result. It reports whether the watcher continues to ask.
func (f *follower) poll(w *watcher) bool {
	ctx := w.ctx
	if limit := w.limit(f.mustAsk); !limit.IsZero() {
		bounded, cancel := context.WithDeadline(ctx, limit)
		defer cancel()
		ctx = bounded
	}
	f.locked(f.schedule.run.Ask)
	r, after, e := f.poller.ask(ctx, w)
	switch {
	case e == nil && r.State.Ended():
		f.locked(f.schedule.run.Found)
		return !f.finish(w, r)
	case e != nil && errors.Is(e.Cause, exchange.ErrNoRoom):
		w.full = e
		return false
	case w.brokeOff(e):
		return false
	}
	return f.goOn(ctx, w, r, after, e)
}

// wait waits until the next request is due. It returns false if the watcher leaves before.
func (f *follower) wait(w *watcher) bool {
	d := f.schedule.left()
	limit := w.limit(f.mustAsk)
	if limit.IsZero() {
		return run.Sleep(w.ctx, d)
	}
	left := time.Until(limit)
	return run.Sleep(w.ctx, min(d, left)) && d <= left
}

// hold waits for the turn of a request in the polling budget, and returns false if the
// turn does not come in time. Then most requests are sent just before the deadline anyway.
// An exception is the first request about a resumed run if the watcher has a time limit:
// its caller can repeat the call at any time.
func (f *follower) hold(w *watcher) bool {
	var turn polling.Turn
	f.locked(func() { turn = f.schedule.run.Turn() })
	until := w.until
	if w.unhurried { // it would come back again and again otherwise; a caller that joins meanwhile waits as long
		turn, until = turn.Behind(), time.Now().Add(firstAnswer)
	}
	if turn.Wait(w.ctx, until, !f.mustAsk || w.until.IsZero()) {
		return true
	}
	if !w.until.IsZero() { // no request is possible any more, but the caller waits until then
		run.Sleep(w.ctx, time.Until(w.until))
	}
	return false
}

// finish stores the answer with which the run has ended. It returns false if the output is still missing.
func (f *follower) finish(w *watcher, r *document.Response) bool {
	p := &f.poller
	switch {
	case p.phase == run.PhaseResult:
		r.Elapsed = cmp.Or(r.Elapsed, f.elapsed)
	case r.State == run.Completed:
		f.locked(func() { f.schedule.run.Done(r.Elapsed) })
		if r.Elapsed > 0 && !f.accepted.IsZero() {
			w.stats.Overshoot = max(0, time.Since(f.accepted)-r.Elapsed)
		}
		if r.Output == nil && !p.bareOutput && p.skill.Endpoint.ResultURL != "" {
			f.seekResult(r)
			return false
		}
	}
	f.locked(func() { f.response = r })
	return true
}

// goOn reports whether the watcher continues to ask after an answer that is not the last, or a failure e.
func (f *follower) goOn(ctx context.Context, w *watcher, r *document.Response, after time.Duration, e *run.Failure) bool {
	if e != nil && !f.poller.unsent && e.Refused == "" && (e.HTTPStatus == http.StatusTooManyRequests || e.HTTPStatus == http.StatusServiceUnavailable) {
		f.locked(f.schedule.run.Throttled)
	}
	again, e, final := f.poller.note(ctx, e)
	if final != nil {
		if w.brokeOff(final) { // the next watcher decides
			return false
		}
		f.locked(func() { f.failure = final })
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if again {
		f.schedule.in(0)
		return true
	}
	f.trouble = e
	if f.mustAsk || e == nil && r.State != f.known {
		for other := range f.waiting.All() {
			// This watcher has waited for the first answer, perhaps past its end; or it shows the new state.
			if f.mustAsk || other.wants(r.State) {
				other.wake()
			}
		}
	}
	f.mustAsk = false
	f.schedule.rest(after)
	if e != nil {
		f.schedule.in(f.schedule.run.Retry(f.poller.failures.count, after))
		return true
	}
	f.known = r.State
	f.schedule.run.Running()
	f.schedule.in(f.schedule.run.Next(after))
	return true
}
