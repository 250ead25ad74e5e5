package push

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// IndexOwner is the owner of the records of the index in the storage of tasks. It can't be a principal, which has no control characters except line
// breaks.
const IndexOwner = "\x00a2a push"

// Deliverer sends the events of tasks to their webhooks.
type Deliverer struct {
	tasks    *tasks.Tasks
	index    *webhook.Index // nil: tasks are only in memory
	webhooks run.Owners[*Webhooks]

	ctx     context.Context //nolint:containedctx // the parent of all requests' contexts; Close ends it
	cancel  context.CancelFunc
	closing context.Context //nolint:containedctx // ended by the beginning of Close
	close   context.CancelFunc
	group   sync.WaitGroup
	kick    chan struct{} // of capacity 1: makes watch read the index soon

	mu       sync.Mutex
	closed   bool
	begun    bool // watch runs
	lines    map[lineKey]*line
	schedule webhook.Schedule[*line]
	events   int   // in all lines
	held     int64 // memory of these events, in bytes
	missed   bool  // an event was not queued, for want of a line or of a configuration: watch looks for its task
}

// New returns a Deliverer for the tasks in a store; nil: the tasks are only in memory. [Deliverer.Bind] has to be called before the
// Deliverer is used.
func New(store run.Store) *Deliverer {
	d := &Deliverer{lines: map[lineKey]*line{}, kick: make(chan struct{}, 1)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.closing, d.close = context.WithCancel(d.ctx)
	if store != nil {
		d.index = webhook.NewIndex(store, IndexOwner)
	}
	return d
}

// Bind sets the tasks whose events are delivered. They have to call [Deliverer.Updated].
func (d *Deliverer) Bind(tasks *tasks.Tasks) { d.tasks = tasks }

// Close begins no more requests, and waits for those in progress until ctx ends. The next process finds the remaining events in
// the storage.
func (d *Deliverer) Close(ctx context.Context) {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		for _, l := range d.lines {
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
	if d.index != nil {
		d.index.Close()
	}
}

// Updated queues an event for all webhooks of its task. As [tasks.Observer] requires, it does not block.
func (d *Deliverer) Updated(u *task.Update) {
	if len(u.Task.Push) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	if d.webhooks.Empty() {
		d.missed = true
		return
	}
	for i := range u.Task.Push {
		p := &u.Task.Push[i]
		if p.Lost >= task.MaxLost || u.Number <= p.Sent {
			continue
		}
		if l := d.line(u.Task, p); l != nil {
			d.grow(l.add(u, d.events < maxEvents && d.held < maxHeld))
			d.wake(l, 0)
		}
	}
	d.dispatch()
}

// catchUp queues the newest state of a task for all webhooks that it was not delivered to.
func (d *Deliverer) catchUp(t *task.Task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	for i := range t.Push {
		p := &t.Push[i]
		if !p.Pending(t) {
			continue
		}
		if l := d.line(t, p); l != nil && len(l.items) == 0 && l.state != active {
			l.Size = task.Size(t)
			d.grow(l.newest(t.Told))
			d.wake(l, 0)
		}
	}
	d.dispatch()
}

// line returns the line of a webhook, or nil if there are maxLines others. The caller holds the lock, also for the methods below.
func (d *Deliverer) line(t *task.Task, p *task.PushConfig) *line {
	key := lineKey{t.Owner, t.ID, p.ID}
	l := d.lines[key]
	if l == nil {
		if len(d.lines) >= maxLines {
			d.missed = true
			return nil
		}
		l = &line{Place: webhook.Place{Owner: t.Owner}, key: key}
		d.lines[key] = l
	}
	if l.state == resting {
		l.Host = webhook.HostOf(p.URL)
	}
	return l
}

func (d *Deliverer) grow(events int, held int64) {
	d.events += events
	d.held += held
}

// wake queues a line that has events, after a time, and not before its rate allows a request.
func (d *Deliverer) wake(l *line, after time.Duration) {
	if l.state == queued || l.state == pausing {
		return
	}
	if l.state == active {
		return // its goroutine calls wake later
	}
	after = max(after, l.rate.Wait(time.Now()))
	if after <= 0 {
		l.state = queued
		d.schedule.Add(l)
		return
	}
	d.pause(l, pausing, after, func() {
		l.state = queued
		d.schedule.Add(l)
		d.dispatch()
	})
}

// pause calls a function after a time, unless the state of the line changes before.
func (d *Deliverer) pause(l *line, in lineState, after time.Duration, then func()) {
	if l.timer != nil {
		l.timer.Stop()
	}
	var own *time.Timer
	own = time.AfterFunc(after, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !d.closed && l.state == in && l.timer == own {
			l.timer = nil
			then()
		}
	})
	l.state, l.timer = in, own
}

// dispatch begins as many requests as are possible.
func (d *Deliverer) dispatch() {
	for !d.closed {
		l, ok := d.schedule.Next(time.Now())
		if !ok {
			return
		}
		l.state = active
		d.group.Go(func() { d.serve(l) })
	}
}

// serve sends the first event of a line.
func (d *Deliverer) serve(l *line) {
	r := d.guarded(l)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.schedule.Done(l)
	l.state = resting
	switch {
	case d.closed:
	case r.drop:
		d.remove(l)
	case len(l.items) > 0:
		d.wake(l, r.after)
	default:
		d.rest(l)
	}
	d.dispatch()
}

// rest keeps a line without events until its rate allows a full burst again, and then removes it.
func (d *Deliverer) rest(l *line) {
	after := l.rate.Rest(time.Now())
	if after <= 0 {
		d.remove(l)
		return
	}
	d.pause(l, resting, after, func() { d.remove(l) })
}

func (d *Deliverer) remove(l *line) {
	for _, i := range l.items {
		d.grow(-1, -i.held)
	}
	l.items = nil
	delete(d.lines, l.key)
}

// guarded calls deliver, and recovers and reports a panic.
func (d *Deliverer) guarded(l *line) (r result) {
	defer func() {
		if value := recover(); value != nil {
			r = result{drop: true}
			if w := d.webhooks.Of(l.key.owner); w != nil && w.Panicked != nil {
				w.Panicked(d.ctx, value, debug.Stack())
			}
		}
	}()
	return d.deliver(l)
}

// attach adds a configuration.
func (d *Deliverer) attach(w *Webhooks) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.webhooks.Add(w, w.Owns)
	if d.index == nil {
		return
	}
	if !d.begun {
		d.begun = true
		d.group.Go(d.watch)
	}
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// Stats are the figures of a [Deliverer].
type Stats struct {
	Webhooks int   // webhooks with events that are not delivered yet, or that got requests in the last seconds
	Events   int   // events that are not delivered yet
	Held     int64 // memory of these events, in bytes
	Requests int   // requests in progress
}

// Stats returns the current figures.
func (d *Deliverer) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Stats{len(d.lines), d.events, d.held, d.schedule.Active()}
}
