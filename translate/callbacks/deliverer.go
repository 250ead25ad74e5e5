package callbacks

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/keptruns"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// indexOwner is the owner of the records of the index in the storage of kept runs. It can't be the owner of runs, which has no control
// characters except line breaks.
const indexOwner = "\x00callbacks"

// Deliverer sends call-backs.
type Deliverer struct {
	runs    *keptruns.Runs
	index   *webhook.Index
	configs run.Owners[*Callbacks]

	ctx     context.Context //nolint:containedctx // the parent of all requests' contexts; Close ends it
	cancel  context.CancelFunc
	closing context.Context //nolint:containedctx // ended by the beginning of Close
	close   context.CancelFunc
	group   sync.WaitGroup
	kick    chan struct{} // of capacity 1: makes watch read the index soon

	mu      sync.Mutex
	closed  bool
	begun   bool // watch runs
	lines   lines
	pausing bool // a timer calls dispatch, when the rate of a receiver allows a request
}

// New returns a Deliverer for kept runs, and for the store that has their records. The [keptruns.Follower] of the runs has to
// call [Deliverer.Ended].
func New(runs *keptruns.Runs, store run.Store) *Deliverer {
	d := &Deliverer{runs: runs, index: webhook.NewIndex(store, indexOwner), lines: newLines(), kick: make(chan struct{}, 1)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.closing, d.close = context.WithCancel(d.ctx)
	return d
}

// Close begins no more requests, and waits for those in progress until ctx ends. The next process finds the remaining call-backs in
// the storage.
func (d *Deliverer) Close(ctx context.Context) {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		for _, l := range d.lines.all {
			if l.timer != nil {
				l.timer.Stop()
			}
		}
		d.close()
	}
	d.mu.Unlock()
	stop := context.AfterFunc(ctx, d.cancel)
	d.group.Wait()
	stop()
	d.cancel()
	d.index.Close()
}

// Ended queues the call-back of a run that has ended, if it has one. It does not block.
func (d *Deliverer) Ended(r *keptruns.Record) {
	if targetOf(r).URL != "" {
		d.queue(r, 0, time.Time{})
	}
}

// queue queues a call-back for a time, after a number of requests, unless it is queued.
func (d *Deliverer) queue(r *keptruns.Record, tries int, next time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, host := time.Now(), webhook.HostOf(targetOf(r).URL)
	switch {
	case d.closed || d.lines.all[lineKey{r.Owner, r.ID}] != nil:
		return
	case d.configs.Empty() || !d.lines.admit(r.Owner, host, now):
		d.lines.miss()
		return
	}
	l := &line{Place: webhook.Place{Owner: r.Owner, Host: host, Size: maxOutcome}, id: r.ID, tries: tries, since: r.Ended}
	if l.since.IsZero() {
		l.since = now // its process ended before the run was accepted
	}
	d.lines.add(l)
	d.begin(l, next.Sub(now))
}

// begin makes a line wait for a time, and then for its turn. The caller holds the lock, as for the methods below.
func (d *Deliverer) begin(l *line, after time.Duration) {
	if after <= 0 {
		d.lines.schedule.Add(l)
		d.dispatch()
		return
	}
	d.lines.rest(l, after, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.lines.wake(l) {
			d.begin(l, 0)
		}
	})
}

// dispatch begins as many requests as are possible.
func (d *Deliverer) dispatch() {
	for !d.closed {
		now := time.Now()
		l, ok := d.lines.schedule.Next(now)
		if !ok {
			d.wait(d.lines.schedule.Wait(now))
			return
		}
		d.group.Go(func() { d.serve(l) })
	}
}

// wait calls dispatch after a time, unless that is zero.
func (d *Deliverer) wait(pause time.Duration) {
	if pause == 0 || d.pausing {
		return
	}
	d.pausing = true
	time.AfterFunc(pause, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.pausing = false
		d.dispatch()
	})
}

// serve sends a call-back, and queues it again if it was not delivered.
func (d *Deliverer) serve(l *line) {
	r := d.guarded(l)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines.schedule.Done(l)
	switch {
	case d.closed:
	case r.drop:
		d.lines.remove(l)
	default:
		d.begin(l, r.after)
	}
	d.dispatch()
}

// guarded calls deliver, and recovers and reports a panic.
func (d *Deliverer) guarded(l *line) (r result) {
	defer func() {
		if value := recover(); value != nil {
			r = result{drop: true}
			if c := d.configs.Of(l.Owner); c != nil && c.Panicked != nil {
				c.Panicked(d.ctx, value, debug.Stack())
			}
		}
	}()
	return d.deliver(l)
}

// miss notes that a call-back can't be sent at the moment.
func (d *Deliverer) miss() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines.miss()
}

// attach adds a configuration.
func (d *Deliverer) attach(c *Callbacks) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.configs.Add(c, c.Owns)
	if !d.begun {
		d.begun = true
		d.group.Go(d.watch)
	}
	select {
	case d.kick <- struct{}{}:
	default:
	}
}
