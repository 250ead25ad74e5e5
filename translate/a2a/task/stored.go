package task

import (
	"context"
	"errors"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// load reads a task from the Store. It is kept in memory if it is open, or if keep is set.
func (s *Tasks) load(ctx context.Context, owner, id string, keep bool) (*entry, error) {
	if s.config.Store == nil || !mayBeStored(id, s.config.TTL) {
		return nil, ErrNoTask
	}
	t, at, err := s.writer.read(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	if time.Since(at) > s.config.TTL+clockSlack {
		return nil, ErrNoTask
	}
	e := &entry{id: id, owner: owner, name: t.Name, now: t, stored: t.Event, single: true}
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

// refresh reads an open task again that another instance may have changed.
func (s *Tasks) refresh(ctx context.Context, e *entry) error {
	e.mu.Lock()
	known := s.config.Store == nil || e.detached || e.stored == 0 || e.now.Status.State.Terminal()
	e.mu.Unlock()
	if known {
		return nil
	}
	t, at, err := s.writer.read(ctx, e.owner, e.id)
	if errors.Is(err, ErrNoTask) {
		return nil
	}
	if err != nil {
		return err
	}
	s.adopt(e, t, at)
	return nil
}

// Refresh is [Tasks.Get] for callers that wait for what another instance does with a task. The Store is read for all of them once
// in a time.
func (s *Tasks) Refresh(ctx context.Context, owner, id string, every time.Duration) (*Task, error) {
	if e, _ := s.memory.find(owner, id); e != nil {
		e.mu.Lock()
		fresh := time.Since(e.read) < every
		if !fresh {
			e.read = time.Now()
		}
		e.mu.Unlock()
		if fresh {
			return s.writer.show(ctx, e)
		}
	}
	return s.Get(ctx, owner, id)
}

// adopt takes over a version that another instance has made, if it is newer. Subscriptions get the events that it shows.
func (s *Tasks) adopt(e *entry, t *Task, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.now
	if t.Event <= old.Event || old.Status.State.Terminal() && !t.Status.State.Terminal() {
		return
	}
	e.stored, e.single = t.Event, true
	var updates []Update
	news := t.Status.State != old.Status.State || !t.Status.At.Equal(old.Status.At)
	if t.Artifact != nil && old.Artifact == nil {
		u := Update{Number: t.Event, Task: t, Artifact: true}
		if news {
			u.Number-- // the status is a later event
		}
		updates = append(updates, u)
	}
	if news {
		updates = append(updates, Update{Number: t.Event, Task: t})
	}
	e.now = t
	s.memory.adopted(e, t, at)
	e.wake()
	if len(e.subs) > 0 {
		e.queue = append(e.queue, updates...)
		s.writer.deliver(e)
	}
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
