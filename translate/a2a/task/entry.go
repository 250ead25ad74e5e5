package task

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// entry is a task in memory: its current version, and all who follow it.
type entry struct {
	id, owner, name string // never change
	detached        bool   // not in memory: for one caller only; never changes
	place           place  // belongs to the lock of the Tasks

	mu     sync.Mutex
	now    *Task
	stored uint64  // the number of the newest version in the Store
	single bool    // a version was, or may have been, stored as a record of its own
	flight *flight // stores a version
	named  time.Time

	waiters     []*waiter
	subs        []*Subscription
	queue       []Update // not delivered yet, since the Store does not have them
	dispatching bool
}

// waiter waits for a version of a task. It is told once.
type waiter struct {
	until func(*Task) bool
	done  chan *Task // of capacity 1
}

// errExists says that the task is in memory.
var errExists = errors.New("the task exists")

// insert takes a new entry in. Its lock is held, or it is not shared yet.
func (s *Tasks) insert(e *entry, t *Task, at time.Time, foreign bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.room.entry(e.owner, e.id) != nil {
		return errExists
	}
	if err := s.room.insert(e, t, place{changed: at, foreign: foreign, stored: s.store == nil || e.stored >= t.Event}); err != nil {
		return err
	}
	s.soil(e, t)
	return nil
}

// remove drops an entry, if it is in memory.
func (s *Tasks) remove(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !e.place.gone && e.place.state != 0 {
		s.room.drop(e)
	}
}

// hold keeps an ended entry from being dropped until release. It reports whether the entry is still in memory.
func (s *Tasks) hold(e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.place.gone {
		return false
	}
	e.place.held = true
	s.room.put(e, s.room.owners[e.owner], e.place.state, e.place.size)
	return true
}

func (s *Tasks) release(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.room.owners[e.owner]
	e.place.held = false
	s.room.put(e, o, e.place.state, e.place.size)
	s.room.trim(o)
}

// settle counts a new version, if there is room for it. The lock of the entry is held.
func (s *Tasks) settle(e *entry, t *Task) error {
	size := sizeOf(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.place.gone { // it has expired meanwhile
		return nil
	}
	if err := s.room.grows(e, t, size); err != nil {
		return err
	}
	p, o := &e.place, s.room.owners[e.owner]
	p.changed, p.foreign, p.stored = time.Now(), false, s.store == nil
	s.room.put(e, o, t.Status.State, size)
	s.room.trim(o)
	s.soil(e, t)
	return nil
}

// show makes a version the current one. The lock of the entry is held.
func (s *Tasks) show(e *entry, t *Task, updates []Update) {
	e.now = t
	if s.config.Observer != nil {
		for i := range updates {
			s.config.Observer.Updated(&updates[i])
		}
	}
	e.wake()
	if len(e.subs) > 0 {
		e.queue = append(e.queue, updates...)
		s.deliver(e)
	}
}

// wake tells those who wait for the current version. The lock of the entry is held.
func (e *entry) wake() {
	if len(e.waiters) == 0 {
		return
	}
	e.waiters = slices.DeleteFunc(e.waiters, func(w *waiter) bool {
		done := w.until(e.now)
		if done {
			w.done <- e.now
		}
		return done
	})
}

// find returns the entry of a task, or nil, and whether this process follows the task.
func (s *Tasks) find(owner, id string) (e *entry, claimed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e = s.room.entry(owner, id)
	_, claimed = s.claims[claim{owner, id}]
	return e, claimed
}

// all returns the entries in memory.
func (s *Tasks) all() []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := make([]*entry, 0, s.room.count)
	for _, o := range s.room.owners {
		entries = slices.AppendSeq(entries, maps.Values(o.entries))
	}
	return entries
}

// expired reports whether the time of a task that has no follower is over. The lock of the Tasks is held.
func (s *Tasks) expired(e *entry, now time.Time) bool {
	if _, claimed := s.claims[claim{e.owner, e.id}]; claimed {
		return false
	}
	ttl := s.config.TTL
	if e.place.foreign {
		ttl += clockSlack
	}
	return now.Sub(e.place.changed) > ttl
}

// current returns the entry of a task, as the Store has it if another instance may have changed the task. An ended task that
// is not in memory stays out of it unless keep is set: then the entry is not shared.
func (s *Tasks) current(ctx context.Context, owner, id string, keep bool) (*entry, error) {
	e, claimed := s.find(owner, id)
	if e == nil {
		return s.load(ctx, owner, id, keep)
	}
	if !claimed {
		if err := s.refresh(ctx, e); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expired(e, time.Now()) {
		return nil, ErrNoTask
	}
	return e, nil
}

// tell returns the current version of a task, and stores it before if it is open.
func (s *Tasks) tell(ctx context.Context, e *entry) (*Task, error) {
	e.mu.Lock()
	t, told := e.now, s.mayTell(e)
	e.mu.Unlock()
	if told {
		return t, nil
	}
	if err := s.persist(ctx, e, t.Event); err != nil {
		return nil, err
	}
	return t, nil
}

// mayTell reports whether a client may learn of the current version. The lock of the entry is held.
func (s *Tasks) mayTell(e *entry) bool {
	return s.store == nil || e.stored >= e.now.Event || e.now.Status.State.Terminal()
}

// Wait returns the first version of a task for which until is true. If ctx ends before, it returns the current version with
// the error of ctx. The function until is called under the lock of the task: it must be quick.
func (s *Tasks) Wait(ctx context.Context, owner, id string, until func(*Task) bool) (*Task, error) {
	e, err := s.current(ctx, owner, id, false)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	if until(e.now) {
		e.mu.Unlock()
		return s.tell(ctx, e)
	}
	w := &waiter{until: until, done: make(chan *Task, 1)}
	e.waiters = append(e.waiters, w)
	e.mu.Unlock()
	select {
	case t := <-w.done:
		if s.store != nil && !t.Status.State.Terminal() {
			if err := s.persist(ctx, e, t.Event); err != nil {
				return nil, err
			}
		}
		return t, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.closing:
		err = ErrClosed
	}
	e.mu.Lock()
	e.waiters = slices.DeleteFunc(e.waiters, func(other *waiter) bool { return other == w })
	e.mu.Unlock()
	t, failed := s.tell(context.WithoutCancel(ctx), e)
	if failed != nil {
		return nil, failed
	}
	return t, err
}
