package push

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// pauses are the times between the requests for one event. After the last one, the event is lost.
var pauses = [...]time.Duration{1 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}

const (
	// storageRetry is the time until the next attempt if a task or a key can't be read or stored.
	storageRetry = 5 * time.Second
	// markTimeout bounds how long mark waits for the lock of a task, which messages to the task hold.
	markTimeout = 5 * time.Second
)

// result says what serve does with a line after a request.
type result struct {
	drop  bool          // the line is removed
	after time.Duration // the least time until the next request
}

// deliver sends the first event of a line.
func (d *Deliverer) deliver(l *line) result {
	w := d.webhooks.Of(l.key.owner)
	if w == nil { // no configuration allows webhooks
		d.mu.Lock()
		d.missed = true
		d.mu.Unlock()
		return result{drop: true}
	}
	t, err := d.tasks.Get(d.ctx, l.key.owner, l.key.id) // it stores an open task, so that no webhook gets a state that a crash could undo
	switch {
	case errors.Is(err, tasks.ErrNoTask), d.ctx.Err() != nil:
		return result{drop: true}
	case err != nil:
		return result{after: storageRetry}
	}
	if d.index != nil && d.index.Served(d.ctx, t.Owner, t.ID, t.Event) {
		return result{drop: true}
	}
	i := slices.IndexFunc(t.Push, func(p task.PushConfig) bool { return p.ID == l.key.webhook })
	if i < 0 || t.Push[i].Lost >= task.MaxLost {
		return result{drop: true}
	}
	p := t.Push[i]
	secrets, old, err := w.open(d.ctx, t.Owner, t.ID, p.Secrets)
	if err != nil && !errors.Is(err, runtoken.ErrInvalid) {
		return result{after: storageRetry}
	}
	e, ok := d.first(l, t, &p)
	if !ok {
		return result{}
	}
	a := &Attempt{Task: t.ID, Skill: t.Skill, Webhook: p.ID, Version: p.Version, Event: e.number, Try: e.try}
	if err == nil {
		w.post(d.ctx, a, &p, secrets, e.body)
	} else { // the key that sealed the secrets has been removed
		a.Outcome, a.Problem, a.GivenUp = webhook.Failed, "its secrets can't be decrypted any more", true
	}
	if d.ctx.Err() != nil { // the process ends: the event will be sent again
		return result{drop: true}
	}
	if !old {
		secrets = Secrets{}
	}
	return d.judge(w, l, t, &p, &e, a, secrets)
}

// event is the event of a request.
type event struct {
	number uint64
	state  task.State // of the task after it
	try    int
	body   []byte
}

// first returns the first event of a line for a webhook. ok is false if there is none, or if the line has to be queued for
// another host.
func (d *Deliverer) first(l *line, t *task.Task, p *task.PushConfig) (e event, ok bool) {
	d.mu.Lock()
	d.grow(l.skip(p.Sent))
	host := webhook.HostOf(p.URL)
	if len(l.items) == 0 || l.Host != host {
		l.Host = host // the client has replaced the webhook: the line is queued for the new host
		d.mu.Unlock()
		return event{}, false
	}
	l.tries++
	l.rate.Spend(time.Now())
	i := l.items[0]
	e = event{number: i.number, try: l.tries}
	d.mu.Unlock()
	u := i.update
	if u == nil {
		u = &task.Update{Number: t.Told, Task: t}
		e.number = t.Told
	}
	e.state = u.Task.Status.State
	switch v := versionOf(p.Version); {
	case v != wire.V10:
		e.body = wire.AppendTask(nil, v, u.Task, nil, true)
	case i.update == nil || u.Number == 1:
		e.body = wire.AppendTaskEvent(nil, v, u.Task)
	default:
		e.body = wire.AppendUpdate(nil, v, u, false)
	}
	return e, true
}

// versionOf returns the version with a name.
func versionOf(name string) wire.Version {
	for v := wire.V01; v < wire.V10; v++ {
		if v.String() == name {
			return v
		}
	}
	return wire.V10
}

// judge evaluates an attempt. It stores in the task which events were delivered, but only when an event is lost, and when all
// events of a task are delivered that has ended or waits for the client: each such change is stored.
func (d *Deliverer) judge(w *Webhooks, l *line, t *task.Task, p *task.PushConfig, e *event, a *Attempt, renew Secrets) result {
	lost := 0
	switch {
	case a.GivenUp:
		lost = task.MaxLost
	case a.Outcome != webhook.Delivered && e.try <= len(pauses):
		a.Retry = pauses[e.try-1]
		w.attempted(a)
		return result{after: a.Retry}
	case a.Outcome != webhook.Delivered:
		lost = p.Lost + 1
		a.GivenUp = lost >= task.MaxLost
	}
	a.Lost = lost > 0
	w.attempted(a)
	d.mu.Lock()
	l.tries = 0
	d.grow(l.skip(e.number))
	more := len(l.items) > 0
	d.mu.Unlock()
	if lost != p.Lost || !more && (e.state.Terminal() || e.state.Interrupted()) {
		if renew != (Secrets{}) {
			if sealed, err := w.Seal(d.ctx, t.Owner, t.ID, renew); err == nil {
				p.Secrets = sealed
			}
		}
		d.mark(t, p, e.number, lost)
	}
	return result{drop: lost >= task.MaxLost}
}

// errReplaced means that a webhook has been replaced or deleted.
var errReplaced = errors.New("the webhook is another one now")

// mark stores in a task the number of the last event that a webhook got or lost, and how many events in a row it lost.
func (d *Deliverer) mark(t *task.Task, p *task.PushConfig, sent uint64, lost int) {
	ctx := context.WithoutCancel(d.ctx)
	open := !t.Status.State.Terminal()
	if open { // other instances may change it, too
		wait, cancel := context.WithTimeout(ctx, markTimeout)
		defer cancel()
		unlock, err := d.tasks.Lock(wait, t.Owner, t.ID)
		if err != nil {
			return // the event may be sent again after a restart
		}
		defer unlock()
	}
	now, err := d.tasks.Change(ctx, t.Owner, t.ID, func(t *task.Task) error {
		i := slices.IndexFunc(t.Push, func(q task.PushConfig) bool { return q.ID == p.ID })
		if i < 0 || t.Push[i].URL != p.URL || t.Push[i].Set != p.Set {
			return errReplaced
		}
		t.Push = slices.Clone(t.Push)
		q := &t.Push[i]
		q.Sent, q.Lost, q.Secrets = max(q.Sent, sent), lost, p.Secrets
		return nil
	})
	if err != nil {
		return // the event may be sent again after a restart
	}
	if open {
		_, _ = d.tasks.Get(ctx, t.Owner, t.ID) // it stores the change; if it fails, the event may be sent again after a restart
	}
	if d.index != nil && settled(now) {
		d.index.Done(ctx, now.Owner, now.ID, now.Event)
	}
}

// settled reports whether a task has ended and its webhooks have got all events, or were given up.
func settled(t *task.Task) bool {
	return t.Status.State.Terminal() && !slices.ContainsFunc(t.Push, func(p task.PushConfig) bool { return p.Pending(t) })
}
