package push

import (
	"context"
	"errors"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
)

const (
	// firstRead is how long after its begin a configuration looks for tasks of instances that have ended, and nextRead how
	// often it does that later. afterMiss is when it looks for tasks whose events found no place.
	firstRead = 2 * time.Second
	nextRead  = 10 * time.Minute
	afterMiss = time.Minute
	// between is the time between two tasks that are continued, so that not all providers are asked at once.
	between = 10 * time.Millisecond
)

// watcher looks for tasks that no instance serves.
type watcher struct {
	*Deliverer
	seen  map[string]uint64  // events of records that will not change
	taken map[string]lineKey // tasks of instances that have ended, by id, while they are open
}

// watch looks for tasks that no instance serves, until the Deliverer is closed.
func (d *Deliverer) watch() {
	w := watcher{Deliverer: d, taken: map[string]lineKey{}}
	timer := time.NewTimer(nextRead)
	defer timer.Stop()
	for {
		select {
		case <-d.closing.Done():
			return
		case <-d.kick:
			timer.Reset(firstRead)
			continue
		case <-timer.C:
		}
		d.mu.Lock()
		missed := d.missed && len(d.webhooks) > 0
		if missed {
			d.missed = false
		}
		d.mu.Unlock()
		w.look(d.closing, missed)
		d.mu.Lock()
		missed = d.missed && len(d.webhooks) > 0
		d.mu.Unlock()
		if missed {
			timer.Reset(afterMiss)
		} else {
			timer.Reset(nextRead)
		}
	}
}

// look reads the index and goes on with the tasks of instances that have ended; with those of this one, too, if own is set.
func (w *watcher) look(ctx context.Context, own bool) {
	for id, key := range w.taken {
		if t, err := w.tasks.Get(ctx, key.owner, key.id); errors.Is(err, task.ErrNoTask) || err == nil && t.Status.State.Terminal() {
			delete(w.taken, id)
		} else if err == nil {
			w.resume(ctx, t)
		}
	}
	open, final, err := w.index.read(ctx, w.seen)
	if err != nil {
		return
	}
	w.seen = final
	for instance, records := range open {
		if instance == w.index.instance && !own {
			continue
		}
		w.index.ended(ctx, instance, func() {
			for _, r := range records {
				w.take(ctx, r)
			}
		})
	}
}

// take goes on with a task that no instance serves.
func (w *watcher) take(ctx context.Context, f found) {
	if ctx.Err() != nil || w.of(f.owner) == nil {
		return
	}
	t, err := w.tasks.Get(ctx, f.owner, f.record.ID)
	switch {
	case errors.Is(err, task.ErrNoTask):
		w.index.drop(ctx, f)
		return
	case err != nil:
		return
	case settled(t):
		w.index.drop(ctx, f)
		return
	}
	w.index.take(ctx, f)
	w.catchUp(t)
	w.resume(ctx, t)
}

// ContinueLater follows the run of a task after a time, with the newest configuration, unless this process does then. It is for runs
// whose state can't be read for the moment. A task has at most one timer.
func (d *Deliverer) ContinueLater(t *task.Task, after time.Duration) {
	key := lineKey{owner: t.Owner, id: t.ID}
	d.mu.Lock()
	_, waits := d.later[key]
	if !waits && !d.closed {
		d.later[key] = struct{}{}
	}
	waits = waits || d.closed
	d.mu.Unlock()
	if waits {
		return
	}
	time.AfterFunc(after, func() {
		d.mu.Lock()
		delete(d.later, key)
		closed := d.closed
		d.mu.Unlock()
		if closed {
			return
		}
		now, err := d.tasks.Get(d.closing, key.owner, key.id)
		switch c := d.of(key.owner); {
		case errors.Is(err, task.ErrNoTask):
		case err != nil:
			d.ContinueLater(t, after)
		case c != nil:
			c.follow(d.closing, now)
		}
	})
}

// follow follows the run of a task that has webhooks, unless this process does.
func (w *Webhooks) follow(ctx context.Context, t *task.Task) {
	if s := t.Status.State; w.Continue != nil && (s == task.Submitted || s == task.Working) {
		w.Continue(context.WithoutCancel(ctx), t)
	}
}

// resume follows the run of a task, unless this process does.
func (w *watcher) resume(ctx context.Context, t *task.Task) {
	if s := t.Status.State; s != task.Submitted && s != task.Working {
		return
	}
	if len(w.taken) < maxNoted {
		w.taken[t.ID] = lineKey{owner: t.Owner, id: t.ID}
	}
	if c := w.of(t.Owner); c != nil {
		c.follow(ctx, t)
	}
	pause := time.NewTimer(between)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
}
