package ledger

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// MethodFollow is the method in reports of calls that follow a run without a request.
const MethodFollow = "follow"

const (
	// A run that no request waits for is asked about when the provider and what was learned of the skill say so, but not before a part of its time so far
	// has passed since it was asked about last: a 25th, up to longestGap, on its first day, which is some 290 polls, and then a 144th: some 1,000 polls
	// in 90 days. What was learned does not make the pause longer than longestGap either.
	gapPart, longPart = 25, 144
	longestGap        = 10 * time.Minute
	// A run is asked about for the last time when a lastPart of its time is left, lastPoll at most.
	lastPart, lastPoll = 10, 2 * time.Minute
	// shortestPause and longestPause are the pauses after polls that fail. They double.
	shortestPause, longestPause = time.Second, time.Minute
	// Lease is for how long an instance is taken for alive after it has renewed its lease: then another one follows its runs.
	Lease = 15 * time.Second

	pollTimeout = time.Minute
	mostPolls   = 128 // at the same time
	ofOneSource = 32  // of them
	ofOneOwner  = 16  // of these
	mostLooks   = 500 // at runs that are due, before others get the lock
)

// planned is the next poll of a run that this instance follows.
type planned struct {
	at       time.Time
	paced    time.Time // when it would be, if anyone waited for the run; zero: it was not asked about yet
	source   string
	wanted   time.Time // until when someone waits for the run at another instance
	running  bool      // a poll is in progress
	failures uint8     // in a row
	missed   int64     // the value of Ledger.missed when the entry was read
}

// polls are the planned polls of all runs. The lock of the Ledger guards them.
type polls struct {
	next    share.Heap[*live] // those with planned polls
	wake    chan struct{}
	running int
	places  share.Pool // that sources of a realm and their owners have
}

// placesOf returns the places that a poll of a live entry takes: that of its source, and that of its owner there.
func (p *polls) placesOf(n *live) (ofSource, ofOwner *share.Part) {
	source := n.of.Owner.Realm + "\n" + n.poll.source
	return &share.Part{Pool: &p.places, Owner: source, Most: math.MaxInt32, OfOne: ofOneSource},
		&share.Part{Pool: &p.places, Owner: source + "\n" + n.of.Owner.Principal, Most: math.MaxInt32, OfOne: ofOneOwner}
}

// soon returns when a poll is tried again for which there was no place, or no entry: not all at once, however many there are. The lock is held.
func (p *polls) soon() time.Time {
	among := max(10*shortestPause, min(time.Duration(p.next.Len())*time.Millisecond, longestPause))
	return time.Now().Add(shortestPause + rand.N(among)) //nolint:gosec // not for secrets
}

// plan plans the next poll of an entry if this instance follows its run and no call does, else it cancels it. The lock is held.
func (l *lives) plan(n *live) {
	p := &n.poll
	wanted := n.entry != nil && n.entry.State.Followed() && l.Follows(n.entry) && n.calls == 0
	if n.entry == nil && n.version > 0 { // it is not in memory, also if it could not be read
		wanted = !p.at.IsZero() && n.calls == 0
	}
	switch {
	case wanted && !n.Waits() && !p.running:
		if p.at.IsZero() { // many may have been adopted at once
			p.at = time.Now().Add(max(rand.N(n.entry.gap()+shortestPause/10), time.Until(n.entry.Ref.NotBefore))) //nolint:gosec // not for secrets
			p.source = n.entry.Ref.Source
		}
		l.polls.next.Push(n)
		if l.polls.next.First() == n {
			Wake(l.polls.wake)
		}
	case !wanted:
		l.polls.next.Remove(n)
	}
}

// gap returns the least time between two polls of a run that no request waits for.
func (e *Entry) gap() time.Duration {
	began := e.Ref.Accepted
	if began.IsZero() {
		began = e.Created
	}
	return gapAt(max(time.Since(began), 0))
}

// gapAt is the gap of a run of an age.
func gapAt(age time.Duration) time.Duration {
	return min(age/gapPart, max(longestGap, age/longPart))
}

// after sets the time of the next poll, by the delay that the last one has suggested, and the time before which the provider wants none. The lock is held.
func (l *lives) after(n *live, d time.Duration, notBefore time.Time) {
	now, gap := time.Now(), n.entry.gap()
	d = max(min(d, max(gap, longestGap)), time.Until(notBefore), shortestPause/10)
	if n.poll.paced = now.Add(d); len(n.watches) == 0 && now.After(n.poll.wanted) {
		d = max(d, gap)
	}
	n.poll.at = now.Add(d + rand.N(d/10+1)) //nolint:gosec // not for secrets
	if left := l.leftOf(n.entry); left > 0 && n.poll.at.After(now.Add(left)) {
		n.poll.at = now.Add(left)
	}
}

// hurry makes the next poll of a run the one for which someone waits. The lock is held.
func (l *lives) hurry(n *live) {
	p := &n.poll
	if at := p.paced; n.Waits() && !at.IsZero() && at.Before(p.at) {
		p.at = at
		l.polls.next.Fix(n)
		Wake(l.polls.wake)
	}
}

// polling makes the polls that are due, each in a goroutine that ends with it.
func (l *instance) polling() {
	timer := time.NewTimer(l.pollDue())
	defer timer.Stop()
	for {
		select {
		case <-l.closed.Done():
			return
		case <-timer.C:
		case <-l.polls.wake:
		}
		timer.Reset(l.pollDue())
	}
}

// pollDue begins the polls that are due, and returns when the next one is.
func (l *instance) pollDue() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.polls
	for looks := 0; p.next.Len() > 0 && p.running < mostPolls; looks++ {
		n := p.next.First()
		switch left := time.Until(n.poll.at); {
		case left > 0:
			return left
		case time.Since(l.renewed) >= Lease: // another instance may follow its runs; the next renewal wakes this loop
			return time.Hour
		case looks == mostLooks:
			return 0
		}
		ofSource, ofOwner := p.placesOf(n)
		if !ofSource.Set(1) || !ofOwner.Set(1) { // those of a source that does not answer, or of an owner of many runs, must not delay others
			n.poll.at = p.soon()
			p.next.Fix(n)
			ofSource.Set(0)
			continue
		}
		p.next.Pop()
		n.users++
		n.poll.running = true
		p.running++
		l.loops.Go(func() {
			defer l.polled(n, ofSource, ofOwner)
			l.guarded(func() { l.poll(n) })
		})
	}
	return time.Hour
}

// polled ends a poll, and gives its places back.
func (l *instance) polled(n *live, places ...*share.Part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.polls
	p.running--
	for _, place := range places {
		place.Set(0)
	}
	n.poll.running = false
	if !n.poll.at.After(time.Now()) { // also after a panic
		n.poll.at = time.Now().Add(longestPause)
	}
	l.leave(n)
	Wake(p.wake)
}

// poll asks once about a run, and plans when it is asked next.
func (l *instance) poll(n *live) {
	ctx, cancel := context.WithTimeout(l.closed, pollTimeout)
	defer cancel()
	l.mu.Lock()
	e, failing := n.entry, n.poll.failures > 0
	outdated := e == nil || n.poll.missed != l.missed
	l.mu.Unlock()
	if outdated {
		var err error
		e, err = l.store.Get(ctx, n.of)
		switch {
		case errors.Is(err, ErrNoEntry):
			l.tellWatches(n.of, nil)
			return
		case err != nil: // a database that fails over is back in seconds
			l.mu.Lock()
			n.poll.at = l.polls.soon()
			l.mu.Unlock()
			return
		}
		l.learn(e, false)
	}
	follower := l.followers.Of(n.of.Owner.Realm)
	if follower == nil || !e.State.Followed() || !l.Follows(e) || l.pending.find(n.of) != nil {
		return
	}
	o := follower.Poll(ctx, e, failing)
	_, _ = l.write(e, l.advance(e, &o))
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &n.poll
	if n.entry == nil {
		return // it is gone
	}
	if o.Failure == nil || o.Failure.Kind == run.DeadlineExceeded {
		p.failures = 0
		l.after(n, o.RetryAfter, o.Ref.NotBefore)
		return
	}
	pause := min(shortestPause<<p.failures, longestPause)
	if pause < longestPause {
		p.failures++
	}
	l.after(n, max(pause, min(o.RetryAfter, longestPause)), time.Time{})
}

// Resumer finds a run that was accepted before. It is a [translate.Bridge].
type Resumer interface {
	Resume(ctx context.Context, ref run.Ref, call translate.Call) translate.Execution
}

// Poll is [Follower.Poll] with a bridge: it asks once, for the state and then for the output.
func Poll(ctx context.Context, b Resumer, e *Entry, failing bool, room exchange.AnswerBudget) run.Run {
	ref, wait := e.Ref, time.Duration(0)
	ref.Kept = "" // this is what Follow relies on
	caller := run.Caller{Principal: e.Owner.Principal, Front: e.Front, Method: MethodFollow}
	return b.Resume(ctx, ref, translate.Call{
		Caller: caller, Detached: true, Wait: &wait, Answer: room, Task: func() string { return e.ID },
		Poll: &translate.Poll{Known: e.State.Run(), Failing: failing, Next: e.gap()},
	}).Wait()
}

// mayBeFound reports whether a run that can't be followed, because its skill can't be found, may be followed later: the configuration, or what the
// provider lists, may be wrong for a while only. The last poll decides.
func (l *lives) mayBeFound(e *Entry, failure *run.Failure) bool {
	return failure != nil && failure.NotOffered() && l.leftOf(e) > 0
}

// isLost reports whether how a run has ended can't be learned.
func (l *lives) isLost(e *Entry, failure *run.Failure) bool {
	return failure != nil && failure.Lost && !l.mayBeFound(e, failure)
}

// leftOf returns the time until a run is asked about for the last time before it is ended.
func (l *lives) leftOf(e *Entry) time.Duration {
	return e.Expires.Add(-min(lastPoll, e.Expires.Sub(e.Created)/lastPart)).Sub(l.store.Now())
}

// Settling says how a state of a run was learned.
type Settling struct {
	First    bool              // by the call that has submitted it
	Unsent   bool              // which has not called the provider
	Reserved int64             // bytes for its outcome; see [Ledger.Reserve]
	Fill     func(next *Entry) // sets what the claim could not say yet; may be nil
}

// state returns the state that an entry gets by one of its run; Submitting: it keeps its own.
func (s *Settling) state(l *Ledger, e *Entry, o *run.Run) State {
	failure := o.Failure
	switch {
	case failure == nil && o.State.Ended():
		return stateOf(o.State)
	case failure != nil && failure.Kind == run.RunFailed:
		return max(stateOf(o.State), Failed)
	case l.isLost(e, failure), s.refused(o):
		return Lost
	case s.First && o.Ref.ExecutionID != "" && e.Ref.ExecutionID == "", e.State == Accepted && failure == nil && o.State == run.Working:
		return Working
	}
	return Submitting
}

// refused reports whether the call has failed before its run was accepted.
func (s *Settling) refused(o *run.Run) bool { return s.First && o.Failure != nil && o.State == 0 }

// advance returns a function that gives the next version of an entry what was learned of its run, unless that waits for an answer meanwhile, perhaps since the
// function was called before, or has got one.
func (l *Ledger) advance(e *Entry, o *run.Run) func(next *Entry) error {
	return func(next *Entry) error {
		if l.mayBeFound(next, o.Failure) || e.State.Followed() && (!next.State.Followed() || !bytes.Equal(next.Args, e.Args)) {
			return ErrUnchanged
		}
		if f := l.followers.Of(e.Owner.Realm); f != nil {
			if v := f.View(e.Front); v != nil {
				return v.Advance(next, o)
			}
		}
		return new(Settling).settle(l, next, o)
	}
}

// settle gives the next version of an entry without a [View] a state of its run.
func (s *Settling) settle(l *Ledger, next *Entry, o *run.Run) error {
	state := s.state(l, next, o)
	if state == Submitting {
		return ErrUnchanged
	}
	if s.Fill != nil {
		s.Fill(next)
	}
	if o.Ref.ExecutionID != "" {
		next.Ref = o.Ref
		next.Ref.Kept = next.ID
	}
	if next.State = state; state.Ended() {
		next.Outcome = l.outcomeOf(next, o, s.Reserved)
	}
	return nil
}

// Before orders live entries by the times of their next polls.
func (n *live) Before(other *live) bool { return n.poll.at.Before(other.poll.at) }
