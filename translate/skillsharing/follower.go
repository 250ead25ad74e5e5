package skillsharing

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// A run is given up after so many failures in a row that span so much time.
const (
	maxPollFailures = 5
	maxPollTrouble  = 30 * time.Second
)

// patience is for how long the first answer about a resumed run is waited for by those
// who do not want to wait: otherwise they would never hear one.
const patience = time.Second

// followers are the runs that are being followed. Whoever wants to follow one that is,
// watches.
type followers struct {
	mu   sync.Mutex
	runs map[followed]*follower
}

type followed struct{ skillID, executionID string }

// follower asks about one run for all who watch it. One of them makes the requests, in
// its own time and trace. When it leaves, another one goes on with what is known: so a
// follower takes no goroutine, and ends with the last who watches.
type follower struct {
	client      *Client
	skill       *discovery.Skill
	executionID string

	// For the one who asks, only.
	url        *url.URL
	bareOutput bool          // an object that only has an output means completed, too
	accepted   time.Time     // zero: the run was resumed
	elapsed    time.Duration // by the provider's clock, of a run whose output is missing
	mustAsk    bool          // once, though there may be no time left to wait
	held       bool          // the provider held the newest answer back
	failures   int           // in a row
	failing    time.Time     // the first of them
	missing    int           // answers 404 or 410 in a row
	renewed    bool          // the credential was renewed since the last good answer
	last       *http.Request // as it was sent

	mu       sync.Mutex
	asking   *watcher
	waiting  crowd     // the others
	looking  int       // further ones, that look at a state and come back
	deadline time.Time // of the one who waits longest; zero: there is none
	ended    bool      // nobody can join
	phase    run.Phase // written by the one who asks
	run      polling.Run
	never    bool               // there is no request before the deadline
	due      time.Time          // else the next one
	known    run.State          // the newest; 0: none
	trouble  *run.Failure       // of the newest request
	earliest time.Time          // when the provider wants to be asked again; zero: it has not said
	response *document.Response // the end
	failure  *run.Failure       // or why it can't be learned
}

// watcher waits for the end of a run.
type watcher struct {
	ctx         context.Context
	until       time.Time // it wants to hear how the run is; zero: not before its end
	patient     time.Time // so long it waits for the first answer in any case
	traceParent string
	stats       *Stats
	woken       chan struct{} // nil: it has asked from the beginning
	timer       *time.Timer
	full        *run.Failure // it has no room for the end of the run, which others may have; nil: it has
	shows       bool         // it looks at each state
	seen        run.State    // the last that it knows
	looking     bool         // it leaves to look at the newest state
	place       int          // in the crowd that waits, from 1; 0: it is not in one
}

// crowd is a heap of watchers, for [container/heap]: the one who waits longest comes first.
// So one joins or leaves in a time that hardly grows with how many there are.
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

func newWatcher(ctx context.Context, awaited *FollowOptions, stats *Stats) *watcher {
	return &watcher{ctx: ctx, until: awaited.Until, patient: time.Now().Add(patience), traceParent: awaited.TraceParent, stats: stats, shows: awaited.Show != nil, seen: awaited.Known}
}

// wants reports whether the watcher looks at a state, which it has not seen.
func (w *watcher) wants(state run.State) bool { return w.shows && state != 0 && state != w.seen }

// end is when the watcher leaves at the latest; zero: with the run.
func (w *watcher) end() time.Time {
	deadline, bounded := w.ctx.Deadline()
	if !w.until.IsZero() && (!bounded || w.until.Before(deadline)) {
		return w.until
	}
	return deadline
}

// limit is until when the watcher waits for an answer, which may be the first; zero: for
// however long it takes.
func (w *watcher) limit(first bool) time.Time {
	if first && !w.until.IsZero() && w.until.Before(w.patient) {
		return w.patient
	}
	return w.until
}

// over reports whether the watcher has waited for as long as it wants to.
func (w *watcher) over() bool { return !w.until.IsZero() && !time.Now().Before(w.until) }

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

// join returns the follower of a run, and whether the watcher is the one who asks.
func (all *followers) join(c *Client, s *discovery.Skill, awaited *FollowOptions, w *watcher) (f *follower, asks bool) {
	key := followed{s.ID, awaited.ExecutionID}
	all.mu.Lock()
	defer all.mu.Unlock()
	f = all.runs[key]
	if f != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.ended && sameSkill(f.skill, s) {
			return f, f.enter(w)
		}
	}
	f = &follower{client: c, skill: s, executionID: awaited.ExecutionID, asking: w, deadline: w.end(), mustAsk: awaited.Resumed}
	f.begin(w.ctx, awaited)
	if all.runs == nil {
		all.runs = make(map[followed]*follower)
	}
	all.runs[key] = f
	return f, true
}

// enter has a watcher wait, or ask if there is none that asks. The caller holds f.mu.
func (f *follower) enter(w *watcher) (asks bool) {
	asks = f.asking == nil
	if asks {
		f.asking = w
	} else {
		w.woken = make(chan struct{}, 1)
		heap.Push(&f.waiting, w)
	}
	if end := w.end(); asks || later(end, f.deadline) {
		f.deadline = end
		f.run.Until(end)
	}
	return asks
}

// leave forgets a follower, unless another one has taken its place.
func (all *followers) leave(f *follower) {
	key := followed{f.skill.ID, f.executionID}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.runs[key] == f {
		delete(all.runs, key)
	}
}

// sameSkill reports whether two skills are read from the same document, so that whatever is
// asked about a run of the one is asked in the same way about a run of the other.
func sameSkill(s, other *discovery.Skill) bool {
	return s == other || sameOrigin(s.URL, other.URL) && slices.EqualFunc(s.Way, other.Way, sameOrigin) && bytes.Equal(s.Document, other.Document)
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && a.Host == b.Host
}

// watch waits for the end of the run, for as long as the watcher wants to.
func (f *follower) watch(w *watcher, asks bool) (*document.Response, *run.Failure) {
	if asks || f.await(w) {
		defer f.handOver(w) // also if a transport panics
		f.ask(w)
		f.locked(func() { f.look(w) })
	}
	return f.told(w)
}

// look notes that a watcher leaves to look at the newest state, if there is one. The caller
// holds f.mu.
func (f *follower) look(w *watcher) {
	if f.response == nil && f.failure == nil && w.full == nil && w.wants(f.known) {
		w.looking = true
		f.looking++
	}
}

// show lets a watcher look at a state. It reports whether the watcher comes back, and then
// whether it asks.
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

// await waits until it is the watcher's turn to ask, which it reports, or it leaves.
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
			timeUp = w.after(left)
		}
		select {
		case <-w.woken:
		case <-timeUp:
		case <-w.ctx.Done():
			return false
		}
	}
}

// stopWaiting takes a watcher off that does not wait for its turn any longer. That may
// have come at the same moment.
func (f *follower) stopWaiting(w *watcher, asks *bool) {
	if w.timer != nil {
		w.timer.Stop()
	}
	if *asks {
		return
	}
	f.mu.Lock()
	asking := f.asking == w
	if w.place > 0 {
		heap.Remove(&f.waiting, w.place-1)
	}
	f.look(w)
	f.mu.Unlock()
	if asking {
		f.handOver(w)
	}
}

// handOver lets another watcher ask than from, or ends the follower if the run has ended or
// there is none. If it is not from who asks, nothing changes.
func (f *follower) handOver(from *watcher) {
	if !f.passOn(from) {
		f.client.followers.leave(f)
	}
}

// passOn lets the watcher ask who waits longest, so that it need not be passed on as
// often. It reports whether there is one, and something to ask.
func (f *follower) passOn(from *watcher) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asking != from {
		return true
	}
	f.asking = nil
	switch {
	case f.response != nil, f.failure != nil:
	case len(f.waiting) > 0:
		f.asking = heap.Pop(&f.waiting).(*watcher)
		f.deadline = f.asking.end()
		f.run.Until(f.deadline)
		f.asking.wake()
		return true
	case f.looking > 0: // the next that comes back, or joins, asks
		return true
	}
	f.ended = true
	for _, w := range f.waiting {
		w.place = 0
		w.wake()
	}
	f.waiting = nil
	return false
}

// wake has a watcher see what is new.
func (w *watcher) wake() {
	select {
	case w.woken <- struct{}{}:
	default: // it will
	}
}

// told is what a watcher hears that does not wait any longer.
func (f *follower) told(w *watcher) (*document.Response, *run.Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch ctx := w.ctx; {
	case w.full != nil:
		return nil, f.client.finish(f.skill, w.full)
	case f.response != nil:
		return f.response, nil
	case f.failure != nil:
		return nil, f.copied(f.failure)
	case w.looking:
	case w.until.IsZero(), ctx.Err() != nil && (!w.over() || !errors.Is(run.CauseOf(ctx), context.DeadlineExceeded)):
		return nil, f.client.finish(f.skill, document.Interrupted(ctx, f.phase, f.executionID, run.ExecutedYes))
	case f.known == 0 && f.trouble != nil:
		return nil, f.copied(f.trouble)
	}
	atLeast := time.Until(f.earliest)
	if f.trouble != nil {
		atLeast = max(atLeast, time.Until(f.due))
	}
	return &document.Response{
		ExecutionID: f.executionID, State: cmp.Or(f.known, run.Working),
		RetryAfter: f.run.Later(atLeast), NotBefore: f.earliest,
	}, nil
}

// copied is an error that others hear of, too, and that each completes for itself.
func (f *follower) copied(shared *run.Failure) *run.Failure {
	e := *shared
	return f.client.finish(f.skill, &e)
}

// begin makes what is needed to ask about a run, before anyone else can watch it.
func (f *follower) begin(ctx context.Context, awaited *FollowOptions) {
	c, s := f.client, f.skill
	f.bareOutput = s.Endpoint.StatusURL == ""
	f.seek(run.PhasePoll, cmp.Or(s.Endpoint.StatusURL, s.Endpoint.ResultURL))
	now := time.Now()
	f.run = c.Polling.start(c, s, awaited, f.deadline)
	if awaited.Resumed {
		if early := awaited.NotBefore.Sub(now); early > 0 {
			f.mustAsk, f.known, f.earliest, f.due = false, run.Working, awaited.NotBefore, awaited.NotBefore
		}
		return
	}
	f.accepted, f.known = now, run.Accepted
	f.hear(awaited.RetryAfter)
	if awaited.RetryAfter > 0 || c.preferredWait(ctx, awaited.Until) == 0 {
		f.askIn(f.run.Next(awaited.RetryAfter))
	}
}

// start begins to follow a run of a skill.
func (p *Polling) start(c *Client, s *discovery.Skill, awaited *FollowOptions, deadline time.Time) polling.Run {
	plan := p.Plan
	if plan == nil {
		plan = p.Store.Learner(polling.Key{Provider: c.Origin.String(), Skill: s.ID, Version: s.Version})
	}
	budget := p.Budgets.Of(s.Polled)
	if awaited.Resumed {
		return polling.Resume(plan, budget, awaited.Accepted, deadline)
	}
	return polling.Start(plan, budget, time.Now(), deadline)
}

// seekResult has the output fetched of a run that has completed.
func (f *follower) seekResult(completed *document.Response) {
	f.bareOutput, f.held = true, false
	f.failures, f.missing, f.renewed = 0, 0, false
	f.elapsed = completed.Elapsed // not the whole response: it is part of what holds the arguments
	f.seek(run.PhaseResult, f.skill.Endpoint.ResultURL)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run = polling.Start(resultDelays, nil, time.Now(), f.deadline)
	f.known, f.trouble, f.earliest, f.due = run.Working, nil, time.Time{}, time.Time{} // for as long as there is no output
	f.mustAsk = true
}

// seek says what is asked for, and at which URL.
func (f *follower) seek(phase run.Phase, template string) {
	f.mu.Lock()
	f.phase = phase
	f.mu.Unlock()
	u, err := document.ExpandURL(template, f.executionID)
	if err != nil {
		f.fail(unfollowable(phase, f.executionID, err.Error()))
		return
	}
	f.url = u
}

// askIn says when to ask next.
func (f *follower) askIn(d time.Duration) {
	f.never = d == polling.Never
	if !f.never {
		f.due = time.Now().Add(d)
	}
}

// hear notes for how long the provider does not want to be asked.
func (f *follower) hear(after time.Duration) {
	f.earliest = time.Time{}
	if after > 0 {
		f.earliest = time.Now().Add(after)
	}
}

// fail notes why the run can't be followed to its end.
func (f *follower) fail(e *run.Failure) {
	f.mu.Lock()
	f.failure = e
	f.mu.Unlock()
}

// locked does something that others have to see as a whole. If it panics, as a plan may,
// that ends the call of the one who asks, and no other's.
func (f *follower) locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// ask asks about the run until it has ended, or the watcher does not want to wait any
// longer.
func (f *follower) ask(w *watcher) {
	if f.phase == run.PhasePoll {
		f.askUntil(w)
	}
	if f.phase == run.PhaseResult {
		f.askForResult(w)
	}
}

func (f *follower) askForResult(w *watcher) {
	start := time.Now()
	defer func() { w.stats.Result += time.Since(start) }()
	f.askUntil(w)
}

// askUntil asks one URL. It ends with the phase, too.
func (f *follower) askUntil(w *watcher) {
	f.locked(func() {
		if f.never { // by the time of who asked before
			f.askIn(f.run.Next(time.Until(f.earliest)))
		}
	})
	for phase := f.phase; phase == f.phase && f.failure == nil && !w.wants(f.known); {
		if !f.pause(w) || !f.hold(w) || !f.poll(w) {
			return
		}
	}
}

// poll makes one request, and notes what comes of it. It reports whether the watcher
// goes on asking.
func (f *follower) poll(w *watcher) bool {
	ctx := w.ctx
	if limit := w.limit(f.mustAsk); !limit.IsZero() {
		bounded, cancel := context.WithDeadline(ctx, limit)
		defer cancel()
		ctx = bounded
	}
	r, after, e := f.request(ctx, w)
	switch {
	case e == nil && r.State.Ended():
		return !f.finish(w, r)
	case e != nil && errors.Is(e.Cause, exchange.ErrNoRoom):
		w.full = e
		return false
	case w.brokeOff(e):
		return false
	}
	return f.goOn(ctx, w, r, after, e)
}

// brokeOff reports whether the watcher did not wait for the answer to a request, which
// then says nothing about the run.
func (w *watcher) brokeOff(e *run.Failure) bool {
	return w.ctx.Err() != nil || e != nil && w.over() && errors.Is(e.Cause, context.DeadlineExceeded)
}

// pause waits for the time of the next request. It reports whether the watcher waits
// for so long.
func (f *follower) pause(w *watcher) bool {
	d := time.Until(f.due)
	if f.never {
		d = polling.Never
	}
	return f.wait(w, d)
}

func (f *follower) wait(w *watcher, d time.Duration) bool {
	limit := w.limit(f.mustAsk)
	if limit.IsZero() {
		return w.sleep(d)
	}
	left := time.Until(limit)
	return w.sleep(min(d, left)) && d <= left
}

// hold waits for a place among the requests to the provider. Who comes back to a run
// at any time does not get one in any case.
func (f *follower) hold(w *watcher) bool {
	var turn polling.Turn
	f.locked(func() { turn = f.run.Turn() })
	if turn.Wait(w.ctx, w.until, !f.mustAsk || w.until.IsZero()) {
		return true
	}
	if !w.until.IsZero() { // there is no time left to ask, but it has said how long it waits
		w.sleep(time.Until(w.until))
	}
	return false
}

// request makes one request.
func (f *follower) request(ctx context.Context, w *watcher) (*document.Response, time.Duration, *run.Failure) {
	f.locked(f.run.Ask)
	f.held = false
	c, wait := f.client, time.Duration(0)
	if f.phase == run.PhasePoll { // and not about a result, which is there
		wait = c.preferredWait(ctx, w.until)
	}
	start := time.Now()
	req, e := c.skillRequest(ctx, f.skill, f.phase, http.MethodGet, f.url, nil, requestOptions{wait, w.traceParent})
	if f.skill.NeedsCredential() {
		w.stats.Credentials += time.Since(start)
	}
	if e != nil {
		return nil, 0, f.about(e)
	}
	if f.skill.NeedsCredential() { // which may have to be renewed
		last := req.Request // without what else was made with it
		f.last = &last
	}
	w.stats.Polls++
	sent := time.Now()
	a, err := c.Send(f.phase, req)
	if f.phase == run.PhasePoll {
		w.stats.Polling += time.Since(sent)
	}
	if err != nil {
		return nil, 0, c.Unreachable(err, f.phase, f.url, f.executionID)
	}
	if wait > 0 && c.notePreference(ctx, a) {
		f.held = time.Since(start) >= wait/2 // or it says so, and answers at once
	}
	r, e := c.Judge(a, document.Asked{Phase: f.phase, ExecutionID: f.executionID, SkillID: f.skill.ID, MayBeBare: f.bareOutput})
	if e != nil {
		return nil, max(exchange.RetryAfter(a.Header), exchange.SuggestedDelay(e), rest(a)), e
	}
	return r, max(r.RetryAfter, rest(a)), nil
}

const (
	// largeAnswer is from how many bytes on an answer about a run has a price.
	largeAnswer = 64 << 10
	// restPerByte is ten times what it takes to read and judge an answer, at most.
	restPerByte = 650 * time.Nanosecond
)

// rest is how long a run is not asked about after a large answer, so that one run takes no
// more than a tenth of a processor.
func rest(a *exchange.Answer) time.Duration {
	if len(a.Body) < largeAnswer {
		return 0
	}
	return time.Duration(len(a.Body)) * restPerByte
}

// about makes an error one about the run.
func (f *follower) about(e *run.Failure) *run.Failure {
	e.ExecutionID, e.Executed, e.Phase = f.executionID, run.ExecutedYes, f.phase
	return e
}

// finish takes note of the end of the run. It reports whether nothing is missing.
func (f *follower) finish(w *watcher, r *document.Response) bool {
	switch {
	case f.phase == run.PhaseResult:
		r.Elapsed = cmp.Or(r.Elapsed, f.elapsed)
	case r.State == run.Completed:
		f.locked(func() { f.run.Done(r.Elapsed, f.held) })
		if r.Elapsed > 0 && !f.accepted.IsZero() {
			w.stats.Overshoot = max(0, time.Since(f.accepted)-r.Elapsed)
		}
		if r.Output == nil && !f.bareOutput && f.skill.Endpoint.ResultURL != "" {
			f.seekResult(r)
			return false
		}
	}
	f.mu.Lock()
	f.response = r
	f.mu.Unlock()
	return true
}

// goOn decides what follows an answer that is not the last, or none. It reports whether
// the watcher goes on asking.
func (f *follower) goOn(ctx context.Context, w *watcher, r *document.Response, after time.Duration, e *run.Failure) bool {
	again, final := false, (*run.Failure)(nil)
	if e == nil || !deniesRun(e) {
		f.missing = 0
	}
	switch {
	case e != nil:
		again, final = f.tolerate(ctx, e)
	case f.phase == run.PhaseResult: // completed before, so it must have a result soon
		e = unfollowable(f.phase, f.executionID, "its result URL keeps saying that it has not ended, after its status URL said that it has")
		final = f.countFailure(e)
	default:
		f.failures, f.renewed = 0, false
	}
	if final != nil {
		if w.brokeOff(final) { // which leaves it to the next one
			return false
		}
		f.fail(final)
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if again {
		f.askIn(0)
		return true
	}
	f.trouble = e
	if f.mustAsk || e == nil && r.State != f.known {
		for _, other := range f.waiting {
			// The first answer, for which it may have waited for longer than it wants to; or one that it looks at.
			if f.mustAsk || other.wants(r.State) {
				other.wake()
			}
		}
	}
	f.mustAsk = false
	f.hear(after)
	switch {
	case e != nil:
		f.askIn(f.run.Retry(f.failures, after))
	default:
		f.known = r.State
		f.run.Running(f.held)
		if f.held && after == 0 {
			f.askIn(0)
		} else {
			f.askIn(f.run.Next(after))
		}
	}
	return true
}

// tolerate decides about a failed request: ask again at once, ask again later,
// or give up with the error it returns.
func (f *follower) tolerate(ctx context.Context, e *run.Failure) (again bool, final *run.Failure) {
	switch {
	case e.HTTPStatus == http.StatusUnauthorized && !f.renewed:
		renewed, failed := f.client.renew(ctx, f.skill, f.last)
		f.renewed = failed == nil // else it may be later
		switch {
		case failed != nil && transient(failed):
			return false, f.countFailure(f.about(failed))
		case failed != nil:
			return false, f.about(failed)
		case renewed:
			return true, nil
		}
		return false, e
	case deniesRun(e):
		if f.missing++; f.missing > 1 {
			return false, e
		}
		e.Lost = false // for it may just not be known everywhere yet
		return false, f.countFailure(e)
	case transient(e):
		if e.HTTPStatus == http.StatusTooManyRequests || e.HTTPStatus == http.StatusServiceUnavailable {
			f.locked(f.run.Throttled)
		}
		return false, f.countFailure(e)
	}
	return false, e
}

// deniesRun reports whether the provider says that there is no such run.
func deniesRun(e *run.Failure) bool {
	return e.HTTPStatus == http.StatusNotFound || e.HTTPStatus == http.StatusGone
}

// countFailure returns the error if there were too many in a row, for too long.
func (f *follower) countFailure(e *run.Failure) *run.Failure {
	if f.failures++; f.failures == 1 {
		f.failing = time.Now()
	}
	if f.failures >= maxPollFailures && time.Since(f.failing) >= maxPollTrouble {
		return e
	}
	return nil
}
