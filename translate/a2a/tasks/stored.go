package tasks

import (
	"context"
	"errors"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// NewID returns an id for a new task.
func (s *Tasks) NewID() string { return s.ids.Next(time.Now()) }

// maxLife bounds the time from the first version of a task to its last one, for tasks that are not in memory. It is longer than TTL:
// operators may allow longer runs, and a client may answer the questions of a task again and again.
const maxLife = 31 * 24 * time.Hour

// mayBeStored reports whether the Store may have a task of this id, so that most guessed ids cost no look into it.
func mayBeStored(id string, ttl time.Duration) bool {
	made, ok := run.TimeOfID(id)
	age := time.Since(made)
	return ok && age > -24*time.Hour && age < maxLife+ttl
}

// load reads a task from the Store. It adds the task to the memory if it is open, or if keep is set.
func (s *Tasks) load(ctx context.Context, owner, id string, keep bool) (*entry, error) {
	if s.config.Store == nil || !mayBeStored(id, s.config.TTL) {
		return nil, ErrNoTask
	}
	read := func(ctx context.Context) (*task.Task, time.Time, error) { return s.writer.read(ctx, owner, id) }
	var t *task.Task
	var at time.Time
	var err error
	if keep { // it may be changed, so it has to be the newest version
		s.loads.Forget(owner, id)
		t, at, err = s.loads.Queue(ctx, read)
	} else {
		t, at, err = s.loads.Read(ctx, owner, id, read)
	}
	if err != nil {
		return nil, err
	}
	if time.Since(at) > s.config.TTL+task.ClockSkew {
		return nil, ErrNoTask
	}
	e := &entry{id: id, owner: owner, name: t.Name, now: t, stored: t.Version(), single: true}
	if keep || !t.Status.State.Terminal() {
		err := s.memory.insert(e, t, at, true)
		switch {
		case err == nil:
			return e, nil
		case errors.Is(err, errExists): // another request has read it
			if other, _ := s.memory.find(owner, id); other != nil {
				return other, nil
			}
			return s.load(ctx, owner, id, keep) // and it was dropped again
		case keep:
			return nil, err
		}
	}
	e.detached, e.place = true, place{changed: at, foreign: true, gone: true}
	return e, nil
}

// refresh reads an open task again if another instance may have changed it.
func (w *writer) refresh(ctx context.Context, e *entry) error {
	for waited := false; ; waited = true {
		e.mu.Lock()
		if e.detached || e.stored.Event == 0 || e.now.Status.State.Terminal() {
			e.mu.Unlock()
			return nil
		}
		f := e.flight
		if f == nil {
			return w.exchange(ctx, e, false).err
		}
		e.mu.Unlock()
		if err := f.wait(ctx); err != nil || waited { // the second one has begun since, so it reads what the caller has to know
			return err
		}
	}
}

// adopt takes over a version that another instance has stored, if it is newer than the one that this instance has in the Store, and makes
// the pending changes again, on top of it. Subscriptions get the events that it shows. The lock of the entry is held.
func (w *writer) adopt(e *entry, t *task.Task, at time.Time) {
	if t.Version().Compare(e.stored) <= 0 {
		return
	}
	told, changes := e.now, e.pending
	if len(changes) > 0 {
		told = changes[0].before
	}
	stored, end := e.stored, told.Status.State.Terminal() && !t.Status.State.Terminal()
	e.stored, e.single, e.pending = t.Version(), true, nil
	if end || t.Event <= stored.Event { // two instances wrote at once (see exchange): what holds gets a later number than both
		t = t.Copy()
		t.Event = max(t.Event, stored.Event) + 1
		t.Told = t.Event
		if end {
			t.Status, t.Artifact = told.Status, told.Artifact
		}
	}
	list := newsOf(told, t)
	for _, p := range changes {
		if then, events, err := task.Next(t, p.change); err == nil { // else the change is none any more: the task has ended
			e.pending = append(e.pending, pending{t, p.change})
			list = append(list, task.Updates(then, events)...)
			t = then
		}
	}
	e.now = t
	w.memory.adopted(e, t, at)
	e.wake()
	if t.Status.State.Terminal() {
		w.memory.unfollow(claim{e.owner, e.id})
	}
	if len(e.subs) > 0 {
		e.queue = list
		w.deliver(e)
	}
}

// newsOf returns the events between a version that subscribers have got and a version of another instance.
func newsOf(told, t *task.Task) []task.Update {
	var list []task.Update
	news := t.Status.State != told.Status.State || !t.Status.At.Equal(told.Status.At)
	if t.Artifact != nil && told.Artifact == nil {
		u := task.Update{Number: t.Event, Task: t, Artifact: true}
		if news {
			u.Number-- // the status is a later event
		}
		list = append(list, u)
	}
	if news {
		list = append(list, task.Update{Number: t.Event, Task: t})
	}
	return list
}

// idOf returns the id of the newest task to which an owner has given a name.
func (s *Tasks) idOf(ctx context.Context, owner, name string) (string, error) {
	id := s.memory.named(owner, name)
	if s.config.Store == nil {
		if id == "" {
			return "", ErrNoTask
		}
		return id, nil
	}
	stored, err := s.config.Store.Named(ctx, owner, name)
	switch {
	case err == nil:
		return stored, nil
	case id != "": // known here, while the Store has failed or its name was swept
		return id, nil
	case errors.Is(err, run.ErrNoRecord):
		return "", ErrNoTask
	}
	if err = s.writer.damaged(ctx, err); err == nil {
		err = ErrNoTask
	}
	return "", err
}
