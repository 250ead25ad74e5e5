package ledger

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	renewEvery, renewTimeout = 5 * time.Second, 4 * time.Second
	freshLease               = Lease - renewEvery // if it was renewed in this time, the others that live have their leases, too
	adoptEvery, adoptAtOnce  = 10 * time.Second, 50
	expireEvery              = time.Minute
	overdueAtOnce            = 100
	expireAtOnce             = 500
	statementTimeout         = 30 * time.Second
)

// instance is what a ledger does in the background.
type instance struct {
	*Ledger
	recalling *Query // the runs that may have been adopted without an answer; nil: none
}

// guarded calls a function, and reports its panic.
func (l *instance) guarded(f func()) {
	if bug := panics.Recovered(f); bug != nil {
		l.Panicked(context.Background(), bug, nil)
	}
}

// failed reports that the store has failed, unless the ledger is being closed.
func (l *instance) failed(err error) {
	if err != nil && l.closed.Err() == nil {
		l.trouble(err)
	}
}

// start begins the loops, which end with Close.
func (l *instance) start() {
	adopt := make(chan struct{}, 1)
	for _, loop := range []func(){
		l.polling, l.looking, l.writing,
		func() { l.every(renewEvery, nil, func() { l.renew(adopt) }) },
		func() { l.every(adoptEvery, adopt, l.adopt) },
		func() { l.every(expireEvery, nil, l.expire) },
	} {
		l.loops.Go(loop)
	}
}

// every calls a function at once, in an interval, and when a channel says so.
func (l *instance) every(interval time.Duration, now <-chan struct{}, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for l.closed.Err() == nil {
		l.guarded(do)
		select {
		case <-l.closed.Done():
		case <-ticker.C:
		case <-now:
		}
	}
}

// renew renews the lease of this instance. If it was lost, others follow the runs of this instance now, or it adopts them again.
func (l *instance) renew(adopt chan<- struct{}) {
	ctx, cancel := context.WithTimeout(l.closed, renewTimeout)
	defer cancel()
	began := time.Now()
	lost, err := l.store.Renew(ctx)
	if err != nil {
		l.failed(err)
		return
	}
	l.mu.Lock()
	first, waited := l.renewed.IsZero(), time.Since(l.renewed) >= Lease
	if !first && (lost || time.Since(l.renewed) >= freshLease) { // or the clock of the database was set: all leases have ended
		l.returned = time.Now()
	}
	if l.renewed, l.instance = began, l.store.Instance(); lost {
		for _, n := range l.all {
			l.tidy(n)
		}
	}
	if first {
		Wake(adopt)
	}
	l.mu.Unlock()
	if waited || lost {
		Wake(l.polls.wake)
	}
}

// adopt follows the runs of instances that are gone. If the database could not be reached, this instance waits until the others that live have renewed their
// leases, too, and written the ends that wait.
func (l *instance) adopt() {
	realms := l.followers.Served()
	l.mu.Lock()
	instance := l.instance
	if time.Since(l.renewed) >= freshLease || time.Since(l.returned) < Lease {
		realms = nil
	}
	l.mu.Unlock()
	for len(realms) > 0 && l.closed.Err() == nil {
		ctx, cancel := context.WithTimeout(l.closed, statementTimeout)
		adopted, err := l.store.Adopt(ctx, instance, realms, adoptAtOnce)
		cancel()
		if err != nil {
			l.recalling = &Query{States: []State{Accepted, Working}, Limit: adoptAtOnce}
			l.failed(err)
			return
		}
		ids := make([]string, len(adopted))
		for i, e := range adopted {
			ids[i] = e.ID
			l.learn(e, true)
			if e.State == Unknown {
				_, _ = l.write(e, l.advance(e, &run.Run{Ref: e.Ref, Failure: unknown(e)}))
			}
		}
		l.store.Announce(ids)
		if len(adopted) < adoptAtOnce {
			break
		}
	}
	l.recall()
}

// recall finds the runs that name this instance as their follower, though it does not know of them, since the answer that said so was lost.
func (l *instance) recall() {
	ctx, cancel := context.WithTimeout(l.closed, statementTimeout)
	defer cancel()
	for l.recalling != nil {
		page, next, err := l.store.List(ctx, l.recalling)
		if err != nil {
			return // it goes on with the next adoption
		}
		for _, e := range page {
			if l.Follows(e) && e.Ref.ExecutionID != "" { // else another build has written it: see Adopt
				l.learn(e, true)
			}
		}
		if l.recalling.Before = next; next == "" {
			l.recalling = nil
		}
	}
}

// expire ends the open runs for which the time is over, and deletes the ended ones.
func (l *instance) expire() {
	for more := true; more && l.closed.Err() == nil; {
		ctx, cancel := context.WithTimeout(l.closed, statementTimeout)
		deleted, err := l.store.Expire(ctx, expireAtOnce) // first, so that nothing can keep it from that
		open, failed := l.store.Overdue(ctx, overdueAtOnce)
		err = cmp.Or(err, failed)
		for _, e := range open {
			err = cmp.Or(err, l.endOverdue(ctx, e))
		}
		cancel()
		l.failed(err)
		more = err == nil && len(open) == overdueAtOnce || deleted == expireAtOnce
	}
}

// endOverdue ends an open run for which the time is over.
func (l *instance) endOverdue(ctx context.Context, e *Entry) error {
	o := ended(e)
	o.Failure = overdue(e)
	data, err := EncodeOutcome(&o)
	if err != nil {
		return err
	}
	_, leave := l.use(e.Identity(), 0)
	defer leave()
	l.learn(e, true) // what another build has written can't be read again
	_, err = l.Change(ctx, e.Identity(), func(next *Entry) error {
		if next.Version != e.Version { // it waits again
			return ErrUnchanged
		}
		before := *next
		if err := l.advance(e, &o)(next); err != nil && !errors.Is(err, ErrUnchanged) { // what its front has stored can't be changed, but must not be kept for ever
			*next = before
			l.failed(err)
		}
		if !next.State.Ended() {
			next.State, next.Outcome = Lost, data
		}
		return nil
	})
	if isOver(err) {
		err = nil
	}
	return err
}
