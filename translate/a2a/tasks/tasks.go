// Package tasks has tasks as views of entries of the ledger: it reads and changes them, gives them the states of their runs, and follows a run for the
// request that has begun it.
package tasks

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Tasks are the tasks of a front.
type Tasks struct {
	// Ledger keeps the tasks, and follows their runs. It is required.
	Ledger ledger.Viewed

	readers readers
}

// version identifies a version of a task. One that is not written yet has the number of that before.
type version struct {
	of     ledger.Identity
	number int64
	state  ledger.State
}

func versionOf(e *ledger.Entry) version { return version{e.Identity(), e.Version, e.State} }

// readers have the tasks that were read from entries, while anyone uses them, so that all who read a version share it.
type readers struct {
	mu      sync.Mutex
	all     map[version]weak.Pointer[task.Task]
	reading map[version]chan struct{} // closed when a task was read, or could not be
}

// of returns the task of a version, which read returns unless someone has it.
func (r *readers) of(e *ledger.Entry, read func() (*task.Task, error)) (*task.Task, error) {
	key := versionOf(e)
	for {
		t, other := r.enter(key)
		switch {
		case t != nil:
			return t, nil
		case other != nil:
			<-other
			continue
		}
		defer r.leave(key)
		t, err := read()
		if err != nil {
			return nil, err
		}
		return r.keep(key, t), nil
	}
}

// enter returns a task that someone has, or a channel that is closed when another caller has read it; nil: this caller has to read it, and then to leave.
func (r *readers) enter(key version) (*task.Task, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.all[key].Value(); t != nil {
		return t, nil
	}
	if other := r.reading[key]; other != nil {
		return nil, other
	}
	if r.reading == nil {
		r.reading = map[version]chan struct{}{}
	}
	r.reading[key] = make(chan struct{})
	return nil, nil
}

func (r *readers) leave(key version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.reading[key])
	delete(r.reading, key)
}

// keep adds a task, unless there is one.
func (r *readers) keep(key version, t *task.Task) *task.Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.all[key].Value(); other != nil {
		return other
	}
	if r.all == nil {
		r.all = map[version]weak.Pointer[task.Task]{}
	}
	r.all[key] = weak.Make(t)
	runtime.AddCleanup(t, func(key version) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.all[key].Value() == nil {
			delete(r.all, key)
		}
	}, key)
	return t
}

// Read returns the task of an entry with its artifact. Before a long one is read from the database, reserve is called with its size. If it fails, the error is
// [run.ErrNoRoom].
func (f *Tasks) Read(ctx context.Context, e *ledger.Entry, reserve func(size int64) bool) (*task.Task, error) {
	return f.readers.of(e, func() (*task.Task, error) {
		if e.Apart == 0 || e.Outcome != nil {
			return task.FromEntry(e, nil)
		}
		if !reserve(e.Apart) {
			return nil, run.ErrNoRoom
		}
		apart, err := f.Ledger.Stored(ctx, e)
		if err != nil {
			return nil, err
		}
		return task.FromEntry(e, apart)
	})
}

// Given ends a task whose invocation was lost with its instance. The skill is not invoked again, since it may have been executed.
func (f *Tasks) Given(e *ledger.Entry) (*ledger.Entry, error) {
	now, err := f.Ledger.Write(e, func(next *ledger.Entry) error {
		if next.State != ledger.Unknown {
			return ledger.ErrUnchanged
		}
		return f.Advance(next, new(run.Run))
	})
	if errors.Is(err, ledger.ErrEnded) {
		err = nil
	}
	return now, err
}

// made is the task that a change has made, which is called again if another one came first.
type made struct {
	mu   sync.Mutex
	task *task.Task
}

// change makes the next version of a task.
func (m *made) change(next *ledger.Entry, change func(*task.Task) error) error {
	t, err := task.Change(next, change)
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.task = t
	}
	return err
}

// of returns the task of a version, with its artifact if this change has made it.
func (m *made) of(f *Tasks, e *ledger.Entry) (*task.Task, error) {
	m.mu.Lock()
	t := m.task
	m.mu.Unlock()
	if t == nil || t.Entry != e {
		return f.readers.of(e, func() (*task.Task, error) { return task.FromEntry(e, nil) })
	}
	return f.readers.keep(versionOf(e), t), nil
}

// Change changes a task that has not ended. The error is [ledger.ErrEnded] if it has.
func (f *Tasks) Change(ctx context.Context, t *task.Task, change func(*task.Task) error) (*task.Task, error) {
	return f.change(ctx, t, func(next *ledger.Entry, m *made) error { return m.change(next, change) })
}

// change changes the entry of a task.
func (f *Tasks) change(ctx context.Context, t *task.Task, decide func(*ledger.Entry, *made) error) (*task.Task, error) {
	var m made
	e, err := f.Ledger.Change(ctx, t.Entry.Identity(), func(next *ledger.Entry) error {
		size := len(next.Notes)
		if err := decide(next, &m); err != nil {
			return err
		}
		if full := f.Ledger.Fits(next.Owner, len(next.Notes)-size); full != nil {
			return NoPlace(full)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m.of(f, e)
}

// FullError is the error if there is no place for a task.
type FullError struct{ Failure *run.Failure }

// Error implements error.
func (e FullError) Error() string { return e.Failure.Message }

// NoPlace returns the error for a failure of the ledger, in the words of this front.
func NoPlace(failure *run.Failure) error {
	if failure.Limit == nil {
		return failure.Cause
	}
	message := "Too many tasks are open here; try again when some have ended."
	if strings.HasPrefix(failure.Limit.Name, "bytes") {
		message = "The messages and outputs of the tasks here take too much place; try again when some have expired, or send less."
	}
	return FullError{&run.Failure{
		Kind: run.RateLimited, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo, Message: message, Limit: failure.Limit, Retry: run.RetryIn(5*time.Second, 5),
	}}
}
