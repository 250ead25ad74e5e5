package ledger

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// claimTimeout bounds the time of a claim, tryTimeout that of each try, and restartTimeout the wait for a database that can't be used.
	claimTimeout, tryTimeout, restartTimeout = 10 * time.Second, 5 * time.Second, 2 * time.Second
	// firstPause and longestClaimPause are the pauses between these statements. They double.
	firstPause, longestClaimPause = 50 * time.Millisecond, time.Second
)

// Add adds an entry, whose id and times it sets. If the owner has an entry of its key already, that is present, and nothing is added. most is the size of
// the largest outcome that the run can have, in bytes. With a failure, certainly nothing was executed; the key is free then, or will be soon.
func (l *Ledger) Add(ctx context.Context, e *Entry, most int64) (present *Entry, failure *run.Failure) {
	if known := l.pending.named(e.Owner, e.Key); known != nil {
		return known, nil
	}
	if failure = l.place(ctx, e, most); failure != nil {
		if e.Key != nil && failure.Limit != nil { // a run that is kept already needs no place
			if present, _ = l.Named(ctx, e.Owner, e.Key); present != nil {
				failure = nil
			}
		}
		return present, failure
	}
	present, err := l.claim(ctx, e)
	l.usage.settle(e.Identity(), err == nil && present == nil)
	switch {
	case err != nil:
		return nil, NotKept(err)
	case present == nil:
		e.Receiver = nil
		l.learn(e, true)
	}
	return present, nil
}

// place gives an entry its id and a place.
func (l *Ledger) place(ctx context.Context, e *Entry, most int64) *run.Failure {
	if e.ID == "" {
		e.ID = l.ids.Next(time.Now())
	}
	e.Ref.Kept = e.ID
	if _, err := Insist(ctx, func(ctx context.Context) error { return l.usage.load(ctx, e.Owner) }); err != nil {
		return NotKept(err)
	}
	failure := l.usage.begin(ctx, e, most)
	if failure == nil {
		return failure
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	l.usage.mu.Lock()
	turn := l.usage.of(&e.Owner).evicting
	l.usage.mu.Unlock()
	select {
	case turn <- struct{}{}: // or the evictions of the owner's other calls would outdate the count of this one, which is refused then
		defer func() { <-turn }()
	case <-ctx.Done():
		return failure
	}
	failure = l.usage.add(e, most)
	for again := true; failure != nil && again; failure = l.usage.begin(ctx, e, most) {
		place := l.usage.evicts(e.Owner)
		if place == 0 {
			return failure
		}
		n, err := l.store.Evict(ctx, e.Owner, place) // the oldest ended ones of the owner make place
		if err == nil && n == 0 {
			return failure
		}
		if l.usage.change(e.Owner, -n, 0, true); strings.HasPrefix(failure.Limit.Name, "bytes") { // how many were deleted is known only when they are counted
			l.usage.outdate(e.Owner)
		}
		again = err == nil && strings.HasSuffix(failure.Limit.Name, "of a principal") // others may be why all have too much
	}
	return failure
}

// claim sends a claim until the store answers. If the call ends before, the claim is deleted in the background, and only then is its key free.
func (l *Ledger) claim(ctx context.Context, e *Entry) (present *Entry, err error) {
	perhaps, err := Insist(ctx, func(ctx context.Context) (err error) {
		present, err = l.store.Claim(ctx, e, time.Duration(l.keep.Load()))
		return err
	})
	if err != nil && perhaps {
		l.pending.remove(e.Identity(), time.Time{})
	}
	return present, err
}

// Insist sends a statement until the store answers. With an error, perhaps says that the statement may have had an effect. The time in which this process
// was stopped counts for little: the store may answer again at once.
func Insist(ctx context.Context, send func(ctx context.Context) error) (perhaps bool, err error) {
	var tried, waited time.Duration
	for pause := firstPause; ; pause = min(2*pause, longestClaimPause) {
		began := time.Now()
		trying, cancel := context.WithTimeout(ctx, min(tryTimeout, claimTimeout-tried-waited))
		err = send(trying)
		cancel()
		tried += min(time.Since(began), tryTimeout)
		unavailable, ok := errors.AsType[*Unavailable](err)
		switch {
		case err == nil:
			return false, nil
		case !ok:
			perhaps = true
		case perhaps: // until it is known
		case unavailable.Full, waited >= restartTimeout:
			return false, err
		}
		if tried+waited+pause >= claimTimeout || !run.Sleep(ctx, pause) {
			return perhaps, err
		}
		waited += pause
	}
}

// free deletes the claim of a run that was certainly not executed.
func (l *Ledger) free(e *Entry) {
	l.usage.change(e.Owner, -1, -e.Size(), true)
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	if err := l.store.Delete(ctx, e.Identity()); err != nil {
		l.pending.remove(e.Identity(), time.Time{})
		return
	}
	l.gone(e.Identity())
}

// gone tells that an entry was deleted.
func (l *lives) gone(id Identity) {
	l.tellWatches(id, nil)
	l.store.Announce([]string{id.ID})
}

// NotKept is the failure of a call whose entry can't be read or written, so that nothing is submitted.
func NotKept(err error) *run.Failure {
	advice := run.StorageAdvice(err)
	if unavailable, ok := errors.AsType[*Unavailable](err); ok && unavailable.Full {
		advice = "the operator of the bridge has to make its database writable"
	}
	return &run.Failure{
		Kind: run.Internal, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo, Retry: run.RetryIn(2*time.Second, 5), Cause: err,
		Message: "Internal error: the bridge can't use its database at the moment, in which it keeps the run of this call. Nothing was sent to the provider; " + advice,
	}
}
