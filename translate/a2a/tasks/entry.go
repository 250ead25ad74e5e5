package tasks

import (
	"context"
	"slices"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// entry is a task in memory: its current version, the callers that wait for later ones, and the subscriptions.
type entry struct {
	id, owner, name string // never change
	detached        bool   // not in memory: for one caller only; never changes
	place           place  // protected by the lock of the memory

	mu      sync.Mutex
	now     *task.Task
	stored  run.Version // the newest version in the Store; zero: there is none
	single  bool        // a version was, or may have been, stored as a record of its own: other instances may know it
	pending []pending   // the changes since the version that is in the Store, if single is set
	flight  *flight     // reads or stores a version

	waiters     []*waiter
	subs        []*Subscription
	queue       []task.Update // events that are not delivered yet, since the Store does not have them
	dispatching bool
}

// isStored reports whether the current version is in the Store. The caller holds the lock of the entry.
func (e *entry) isStored() bool { return e.stored.Compare(e.now.Version()) >= 0 }

// pending is a change that the Store does not have.
type pending struct {
	before *task.Task
	change func(*task.Task) error
}

// maxPending bounds the changes that an entry keeps while the Store fails. If another instance has changed the task meanwhile, older
// changes are lost.
const maxPending = 64

// waiter is a caller that waits for a version of a task.
type waiter struct {
	until func(*task.Task) bool
	done  chan *task.Task // of capacity 1
}

// publish makes a version the current one. The caller holds the lock of the entry.
func (w *writer) publish(e *entry, t *task.Task, events []task.Event) {
	e.now = t
	e.wake()
	observed := w.observer != nil && len(t.Push) > 0
	if !observed && len(e.subs) == 0 {
		return
	}
	list := task.Updates(t, events)
	if observed {
		for i := range list {
			w.observer.Updated(&list[i])
		}
	}
	if len(e.subs) > 0 {
		e.queue = append(e.queue, list...)
		w.deliver(e)
	}
}

// wake gives the current version to the callers that wait for it. The caller holds the lock of the entry.
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

// current returns the entry of a task. It reads the Store if the task is not in memory, or if another instance may have changed
// it. If that fails and this process follows the task, it returns the version in memory. Unless keep is set, the entry of an ended
// task that is read from the Store is for this caller only.
func (s *Tasks) current(ctx context.Context, owner, id string, keep bool) (*entry, error) {
	s.writer.use.Do(s.writer.begin)
	e, claimed := s.memory.find(owner, id)
	if e == nil {
		return s.load(ctx, owner, id, keep)
	}
	if err := s.writer.refresh(ctx, e); err != nil && !claimed {
		return nil, err
	}
	if s.memory.isExpired(e) {
		return nil, ErrNoTask
	}
	return e, nil
}

// Wait returns the first version of a task for which until is true. If ctx ends before, it returns the current version with
// the error of ctx. The function until is called under the lock of the task, so it must not block.
func (s *Tasks) Wait(ctx context.Context, owner, id string, until func(*task.Task) bool) (*task.Task, error) {
	e, err := s.current(ctx, owner, id, false)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	if until(e.now) {
		e.mu.Unlock()
		return s.writer.show(ctx, e)
	}
	w := &waiter{until: until, done: make(chan *task.Task, 1)}
	e.waiters = append(e.waiters, w)
	e.mu.Unlock()
	select {
	case t := <-w.done:
		if !t.Status.State.Terminal() {
			_, err = s.writer.show(ctx, e)
		}
		if err != nil {
			return nil, err
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
	t, failed := s.writer.show(context.WithoutCancel(ctx), e)
	if failed != nil {
		return nil, failed
	}
	return t, err
}
