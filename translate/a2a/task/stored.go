package task

import (
	"context"
	"errors"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// load reads a task from the Store. It is kept in memory if it is open, or if keep is set.
func (s *Tasks) load(ctx context.Context, owner, id string, keep bool) (*entry, error) {
	if !s.mayBeStored(id) {
		return nil, ErrNoTask
	}
	t, at, err := s.read(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	if time.Since(at) > s.config.TTL+clockSlack {
		return nil, ErrNoTask
	}
	e := &entry{id: id, owner: owner, name: t.Name, now: t, stored: t.Event, single: true}
	if keep || !t.Status.State.Terminal() {
		err := s.insert(e, t, at, true)
		switch {
		case err == nil:
			return e, nil
		case errors.Is(err, errExists): // another request has read it
			if other, _ := s.find(owner, id); other != nil {
				return other, nil
			}
		case keep:
			return nil, err
		}
	}
	e.detached, e.place = true, place{changed: at, foreign: true, gone: true}
	return e, nil
}

// read reads a task from the Store. The error is ErrNoTask if there is none, or only a damaged one.
func (s *Tasks) read(ctx context.Context, owner, id string) (*Task, time.Time, error) {
	r, err := s.store.Get(ctx, owner, id)
	if errors.Is(err, run.ErrNoRecord) {
		return nil, time.Time{}, ErrNoTask
	}
	var t *Task
	if err == nil {
		t, err = decode(r)
	}
	if err != nil {
		if err = s.damaged(ctx, err); err == nil {
			err = ErrNoTask
		}
		return nil, time.Time{}, err
	}
	return t, r.At, nil
}

// damaged reports a failure to read. It returns nil if only a record is damaged.
func (s *Tasks) damaged(ctx context.Context, err error) error {
	if errors.Is(err, run.ErrDamaged) {
		s.report(err)
		return nil
	}
	return s.failed(ctx, err)
}

// refresh reads an open task again that another instance may have changed.
func (s *Tasks) refresh(ctx context.Context, e *entry) error {
	e.mu.Lock()
	known := s.store == nil || e.detached || e.stored == 0 || e.now.Status.State.Terminal()
	e.mu.Unlock()
	if known {
		return nil
	}
	t, at, err := s.read(ctx, e.owner, e.id)
	if errors.Is(err, ErrNoTask) {
		return nil
	}
	if err != nil {
		return err
	}
	s.adopt(e, t, at)
	return nil
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
	s.mu.Lock()
	if p := &e.place; !p.gone {
		p.changed, p.foreign, p.stored = at, true, true
		o := s.room.owners[e.owner]
		s.room.put(e, o, t.Status.State, sizeOf(t))
		s.room.trim(o)
	}
	s.mu.Unlock()
	e.wake()
	if len(e.subs) > 0 {
		e.queue = append(e.queue, updates...)
		s.deliver(e)
	}
}

// storeNamed stores the first version of a task that has a name, and the name. The lock of the entry is held.
func (s *Tasks) storeNamed(ctx context.Context, e *entry, t *Task) error {
	e.single = true
	size, err := s.put(ctx, []version{{e, t}})
	if err == nil {
		err = s.store.Name(ctx, t.Owner, t.Name, t.ID)
	}
	if err != nil {
		return s.failed(ctx, err)
	}
	s.wrote(e, t.Event, size)
	return nil
}

// idOf returns the id of the newest task to which an owner has given a name.
func (s *Tasks) idOf(ctx context.Context, owner, name string) (string, error) {
	s.mu.Lock()
	var id string
	if o := s.room.owners[owner]; o != nil {
		id = o.names[name]
	}
	s.mu.Unlock()
	if s.store == nil {
		if id == "" {
			return "", ErrNoTask
		}
		return id, nil
	}
	stored, err := s.store.Named(ctx, owner, name)
	switch {
	case err == nil:
		return stored, nil
	case id != "": // known here, while the Store has failed or its name was swept
		return id, nil
	case errors.Is(err, run.ErrNoRecord):
		return "", ErrNoTask
	}
	if err = s.damaged(ctx, err); err == nil {
		err = ErrNoTask
	}
	return "", err
}

const (
	// sweepEvery is the time between two sweeps of the Store.
	sweepEvery = time.Hour
	// storedFactor is how much more than memory the Store may hold, in bytes.
	storedFactor = 4
)

// sweep deletes from the Store what is older than TTL, each hour.
func (s *Tasks) sweep() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-tick.C:
		}
		err := s.store.Sweep(ctx, time.Now().Add(-s.config.TTL-2*clockSlack))
		if err != nil && ctx.Err() == nil {
			s.report(err)
		}
	}
}
