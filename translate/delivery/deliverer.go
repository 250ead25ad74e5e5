package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// ClaimTime is how long a claim lasts: longer than a request and the statement after it.
	ClaimTime = 30 * time.Second
	// maxTaken bounds the runs whose deliveries one statement takes, maxClaimed the due deliveries that one claims, and maxUnheard those of which one looks
	// for news that were not heard.
	maxTaken   = 256
	maxClaimed = 512
	maxUnheard = 5000
	// The store is looked at each lookEach; sooner if something was due, or more than one statement claims. At most one part in lookShare of the time is
	// spent with it.
	lookEach  = 10 * time.Second
	lookAgain = 5 * time.Second
	lookMore  = 250 * time.Millisecond
	// lookUnheard is the time in which this instance hears of a version that it has made itself: then it knows which events are new. One that another instance
	// has made is found by a look.
	lookUnheard = 50 * time.Millisecond
	lookShare   = 20
	// storeRetry is the time until the next attempt if something can't be read.
	storeRetry = 5 * time.Second
	// A change that can't be written is tried writeTries times, with writePause between. Then the claim ends by itself.
	writeTries   = 5
	writePause   = time.Second
	writeTimeout = 5 * time.Second
	// panicPause is the time until the next attempt after a panic.
	panicPause = 10 * time.Minute
)

// Runs are the entries of the ledger as they are stored: what is not stored yet must not be told. They are those of the [ledger.Store], not of the
// [ledger.Ledger], which also has ends that wait to be written.
type Runs interface {
	// Get returns the newest version of an entry. The error is [ledger.ErrNoEntry] if there is none.
	Get(ctx context.Context, id ledger.Identity) (*ledger.Entry, error)
}

// Deliverer sends events. It is kept over reloads, like the ledger.
type Deliverer struct {
	runs  Runs
	store Store

	ctx     context.Context //nolint:containedctx // the parent of all requests' contexts; Close ends it
	cancel  context.CancelFunc
	closing context.Context //nolint:containedctx // ended by the beginning of Close
	close   context.CancelFunc
	group   sync.WaitGroup
	kick    chan struct{} // of capacity 1: wakes the loop

	senders run.Serving[Served, *Sender]

	mu     sync.Mutex
	begun  bool
	lines  lines
	timer  *time.Timer // calls dispatch when a pause in the schedule ends
	lookAt time.Time   // when the store is looked at next
	rest   time.Time   // before that, it is not looked at

	unheard Key // where the next look for news begins; it belongs to the loop
}

// New returns a Deliverer. subscribe makes it hear versions of entries after they were stored: all that this instance makes, in their order for each entry
// (see [ledger.Ledger.Subscribe]). It sends nothing before the first [Deliverer.Begin].
func New(runs Runs, subscribe func(tell func(*ledger.Entry)), store Store) *Deliverer {
	d := &Deliverer{runs: runs, store: store, lines: lines{runs: map[ledger.Identity]*heard{}, places: places{of: map[place]int{}}}, kick: make(chan struct{}, 1)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.closing, d.close = context.WithCancel(d.ctx)
	d.timer = time.AfterFunc(time.Hour, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.dispatch()
	})
	d.timer.Stop()
	subscribe(d.hear)
	return d
}

// Begin makes the Deliverer use a Sender. The newest one that serves a run is used.
func (d *Deliverer) Begin(s *Sender) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing.Err() != nil {
		return
	}
	d.senders.Add(s.Served, s)
	d.look(0)
	if !d.begun {
		d.begun = true
		d.group.Go(d.loop)
	}
}

// End makes the Deliverer no longer use a Sender.
func (d *Deliverer) End(s *Sender) { d.senders.Remove(s.Served, s) }

// Close begins no more requests, waits for those in progress, and ends the claims of the others, until ctx ends. The store must be open.
func (d *Deliverer) Close(ctx context.Context) {
	d.mu.Lock()
	d.close()
	d.timer.Stop()
	d.mu.Unlock()
	stop := context.AfterFunc(ctx, d.cancel)
	d.group.Wait()
	stop()
	d.cancel()
	var left []*Delivery // nothing else runs
	for _, r := range d.lines.runs {
		for _, l := range r.lines {
			left = append(left, l.row)
		}
	}
	if len(left) > 0 {
		_ = d.store.Defer(ctx, left, make([]time.Duration, len(left))) // if it fails, the claims end by themselves
	}
}

// Add adds a receiver of a run, or replaces the one of its name. e is the version of the run to which it was added, and which may be an event for it.
func (d *Deliverer) Add(ctx context.Context, e *ledger.Entry, receiver *Delivery, most Bounds) error {
	if err := d.store.Add(ctx, receiver, most); err != nil {
		return err
	}
	d.hear(e)
	return nil
}

// Of returns the receivers of a run.
func (d *Deliverer) Of(ctx context.Context, run ledger.Identity) ([]*Delivery, error) {
	return d.store.Of(ctx, run)
}

// Remove removes a receiver of a run, if there is one. It may still get a request that is in progress.
func (d *Deliverer) Remove(ctx context.Context, k Key) error { return d.store.Remove(ctx, k) }

// hear queues a version of a run for its receivers. It does not block.
func (d *Deliverer) hear(e *ledger.Entry) {
	s := d.senders.Of(Served{e.Owner.Realm, e.Front})
	if s != nil && s.Hears(e) { // else the store is looked for news when there is a Sender
		d.want(e.Identity(), e)
	}
}

// want makes the loop take the deliveries of a run.
func (d *Deliverer) want(id ledger.Identity, e *ledger.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing.Err() != nil {
		return
	}
	d.lines.want(id, e)
	ledger.Wake(d.kick)
}

// look makes the loop look at the store after a time, unless it does so before. The caller holds the lock, as for the methods below.
func (d *Deliverer) look(after time.Duration) {
	if at := time.Now().Add(max(after, time.Until(d.rest))); at.Before(d.lookAt) || d.lookAt.IsZero() {
		d.lookAt = at
		ledger.Wake(d.kick)
	}
}

// dispatch begins as many requests as are possible.
func (d *Deliverer) dispatch() {
	for d.closing.Err() == nil {
		now := time.Now()
		l, ok := d.lines.schedule.Next(now)
		if !ok {
			if pause := d.lines.schedule.Wait(now); pause > 0 {
				d.timer.Reset(pause)
			}
			return
		}
		l.active = true
		d.group.Go(func() { d.serve(l) })
	}
}

// serve sends the next event of a line.
func (d *Deliverer) serve(l *line) {
	next := d.deliver(l)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines.schedule.Done(l)
	l.active, l.cursor = false, l.row.Cursor
	if l.next != nil {
		d.lines.replace(l)
		next = again
	}
	id := l.row.Run
	heard := d.lines.after(id, l.row.Cursor) != nil // that a version was stored while the delivery was settled
	switch {
	case d.closing.Err() != nil || next != over && next != news:
	case heard:
		d.lines.want(id, nil)
		ledger.Wake(d.kick)
	case next == news:
		d.look(lookUnheard)
	}
	switch next {
	case again:
		d.lines.schedule.Add(l)
		d.lines.forget(id)
	case paused:
		d.lines.schedule.AddLater(l, l.until)
		d.lines.forget(id)
	default:
		d.lines.remove(l)
	}
	d.dispatch()
}

// deliver sends the next event of a line, and recovers and reports a panic.
func (d *Deliverer) deliver(l *line) (next step) {
	s := d.senders.Of(l.row.Served())
	if s == nil {
		return d.settle(l, 0)
	}
	if bug := panics.Recovered(func() { next = (&turn{d, l, s}).send() }); bug != nil {
		s.Panicked(d.ctx, bug, nil)
		next = d.settle(l, panicPause)
	}
	return next
}

// loop takes deliveries and looks at the store until the Deliverer is closed.
func (d *Deliverer) loop() {
	for {
		err := d.take()
		d.mu.Lock()
		at := d.lookAt
		d.mu.Unlock()
		if !at.After(time.Now()) {
			at = d.claim()
		}
		pause := time.Until(at)
		kick := d.kick
		if err != nil {
			pause, kick = min(pause, storeRetry), nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-d.closing.Done():
			timer.Stop()
			return
		case <-kick:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// take claims the deliveries of the runs that are wanted.
func (d *Deliverer) take() error {
	for {
		d.mu.Lock()
		ids := d.lines.take(maxTaken)
		d.mu.Unlock()
		if len(ids) == 0 {
			return nil
		}
		began := time.Now()
		rows, err := d.store.Take(d.closing, ids, ClaimTime)
		if err == nil {
			d.queue(rows, began)
		}
		d.mu.Lock()
		for _, id := range ids {
			if err != nil {
				d.lines.retry(id)
			}
			d.lines.forget(id)
		}
		d.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// queue queues claimed deliveries, and defers those for which there is no place.
func (d *Deliverer) queue(rows []*Delivery, claimed time.Time) {
	var deferred []*Delivery
	var after []time.Duration
	d.mu.Lock()
	for _, row := range rows {
		if wait := d.lines.add(row, claimed); wait > 0 {
			deferred, after = append(deferred, row), append(after, wait)
			d.look(wait)
		}
	}
	d.dispatch()
	d.mu.Unlock()
	if len(deferred) > 0 {
		_ = d.store.Defer(d.closing, deferred, after) // if it fails, the claims end by themselves
	}
}

// claim claims due deliveries and finds news that no instance has handled, and returns when it has to be called again.
func (d *Deliverer) claim() time.Time {
	began := time.Now()
	d.mu.Lock()
	d.lookAt = began.Add(lookEach)
	d.mu.Unlock()
	served := d.senders.Served()
	var rows []*Delivery
	var err error
	if len(served) > 0 {
		if rows, err = d.store.Claim(d.closing, served, maxClaimed, ClaimTime); err == nil {
			d.queue(rows, began)
		}
	}
	if err == nil && len(rows) < maxClaimed {
		var unheard []ledger.Identity
		unheard, d.unheard, err = d.store.Unheard(d.closing, d.unheard, maxUnheard)
		for _, id := range unheard {
			d.want(id, nil)
		}
	}
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil { // else it may have waited for what hung, which is no load
		d.rest = now.Add(lookShare * now.Sub(began))
	}
	switch {
	case err != nil:
		d.look(storeRetry)
	case len(rows) == maxClaimed:
		d.look(lookMore)
	case len(rows) > 0:
		d.look(lookAgain)
	}
	if d.lookAt.Before(d.rest) {
		d.lookAt = d.rest
	}
	return d.lookAt
}
