package push

import (
	"context"
	"errors"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

const (
	// firstRead is the time from the beginning of a configuration to its first reading of the index, and nextRead the time between
	// two later ones. afterMiss is the time from an event that could not be queued to a reading.
	firstRead = 2 * time.Second
	nextRead  = 10 * time.Minute
	afterMiss = time.Minute
	// between is the pause between two tasks that are taken over, so that the requests to providers do not come all at once.
	between = 10 * time.Millisecond
	// maxTaken bounds the tasks that were taken over and that an instance remembers. It finds further ones by the index.
	maxTaken = 20_000
)

// watcher takes over the webhooks of tasks whose instance has ended.
type watcher struct {
	*Deliverer
	seen  map[string]run.Version // the final records
	taken map[string]lineKey     // the tasks that were taken over, by id, while they are open
}

// watch reads the index again and again until the Deliverer is closed.
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
		missed := d.missed && !d.webhooks.Empty()
		if missed {
			d.missed = false
		}
		d.mu.Unlock()
		w.look(d.closing, missed)
		d.mu.Lock()
		missed = d.missed && !d.webhooks.Empty()
		d.mu.Unlock()
		if missed {
			timer.Reset(afterMiss)
		} else {
			timer.Reset(nextRead)
		}
	}
}

// look reads the index and takes over the tasks of instances that have ended. With own, it also looks at the tasks of this
// instance, since some of their events could not be queued.
func (w *watcher) look(ctx context.Context, own bool) {
	for id, key := range w.taken {
		if t, err := w.tasks.Get(ctx, key.owner, key.id); errors.Is(err, tasks.ErrNoTask) || err == nil && t.Status.State.Terminal() {
			delete(w.taken, id)
		} else if err == nil {
			w.resume(ctx, t)
		}
	}
	open, final, err := w.index.Read(ctx, w.seen)
	if err != nil {
		return
	}
	w.seen = final
	for instance, records := range open {
		if instance == w.index.Instance() && !own {
			continue
		}
		w.index.Ended(ctx, instance, func() {
			for _, r := range records {
				w.take(ctx, r)
			}
		})
	}
}

// take takes over a task.
func (w *watcher) take(ctx context.Context, f webhook.Found) {
	if ctx.Err() != nil || w.webhooks.Of(f.Owner) == nil {
		return
	}
	t, err := w.tasks.Get(ctx, f.Owner, f.ID)
	switch {
	case errors.Is(err, tasks.ErrNoTask):
		w.index.Drop(ctx, f)
		return
	case err != nil:
		return
	case settled(t):
		w.index.Drop(ctx, f)
		return
	}
	w.index.Take(ctx, f)
	w.catchUp(t)
	w.resume(ctx, t)
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
	if len(w.taken) < maxTaken {
		w.taken[t.ID] = lineKey{owner: t.Owner, id: t.ID}
	}
	if c := w.webhooks.Of(t.Owner); c != nil {
		c.follow(ctx, t)
	}
	pause := time.NewTimer(between)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
}
