package task

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Tasks are the tasks of a front.
type Tasks struct {
	// Ledger keeps the tasks, and follows their runs. It is required.
	Ledger ledger.Viewed

	mu      sync.Mutex
	readers map[version]*reader // of tasks that were read, while anyone uses them, so that all who read a version share it
}

// version identifies a version of a task. One that is not written yet has the number of that before.
type version struct {
	of     ledger.Identity
	number int64
	state  ledger.State
}

// reader has a task that was read. It is locked while that is read.
type reader struct {
	sync.Mutex
	task  weak.Pointer[Task]
	users int // who reads, and the task
}

// of returns the task of a version, which read returns unless someone has it.
func (f *Tasks) of(e *ledger.Entry, read func() (*Task, error)) (*Task, error) {
	key := version{e.Identity(), e.Version, e.State}
	r := f.enter(key)
	defer f.leave(key)
	r.Lock()
	defer r.Unlock()
	if t := r.task.Value(); t != nil {
		return t, nil
	}
	t, err := read()
	if err == nil {
		r.task = weak.Make(t)
		f.enter(key)
		runtime.AddCleanup(t, f.leave, key)
	}
	return t, err
}

func (f *Tasks) enter(key version) *reader {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.readers[key]
	if r == nil {
		r = new(reader)
		if f.readers == nil {
			f.readers = map[version]*reader{}
		}
		f.readers[key] = r
	}
	r.users++
	return r
}

func (f *Tasks) leave(key version) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.readers[key]; r.users == 1 {
		delete(f.readers, key)
	} else {
		r.users--
	}
}

// Read returns the task of an entry with its artifact. Before a long one is read from the database, reserve is called with its size. If it fails, the error is
// [run.ErrNoRoom].
func (f *Tasks) Read(ctx context.Context, e *ledger.Entry, reserve func(size int64) bool) (*Task, error) {
	return f.of(e, func() (*Task, error) {
		if e.Apart != 0 && e.Outcome == nil && !reserve(e.Apart) {
			return nil, run.ErrNoRoom
		}
		apart, err := f.Ledger.Stored(ctx, e)
		if err != nil {
			return nil, err
		}
		return FromEntry(e, apart)
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
	known *Task // a version that need not be decoded; nil: none is known

	mu   sync.Mutex
	task *Task
}

// change makes the next version of a task.
func (m *made) change(next *ledger.Entry, change func(*Task) error) error {
	t, err := changed(next, m.known, change)
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.task = t
	}
	return err
}

// of returns the task of a version, with its artifact if this change has made it.
func (m *made) of(f *Tasks, e *ledger.Entry) (*Task, error) {
	m.mu.Lock()
	t := m.task
	m.mu.Unlock()
	return f.of(e, func() (*Task, error) {
		if t == nil || t.Entry != e && !t.isOf(e) {
			return FromEntry(e, nil)
		}
		own := *t
		own.Entry = e
		return &own, nil
	})
}

// Keep is [ledger.Viewed.Keep].
func (f *Tasks) Keep(ctx context.Context, t *Task) (*Task, error) {
	e, err := f.Ledger.Keep(ctx, t.Entry)
	if err != nil {
		return nil, err
	}
	return (&made{task: t}).of(f, e)
}

// Change changes a task that has not ended. The error is [ledger.ErrEnded] if it has.
func (f *Tasks) Change(ctx context.Context, t *Task, change func(*Task) error) (*Task, error) {
	return f.change(ctx, t, func(next *ledger.Entry, m *made) error { return m.change(next, change) })
}

// change changes the entry of a task.
func (f *Tasks) change(ctx context.Context, t *Task, decide func(*ledger.Entry, *made) error) (*Task, error) {
	m := made{known: t}
	e, err := f.Ledger.Change(ctx, t.Entry.Identity(), func(next *ledger.Entry) error {
		size := len(next.Notes)
		if err := decide(next, &m); err != nil {
			return err
		}
		return NoPlace(f.Ledger.Fits(next.Owner, len(next.Notes)-size))
	})
	if err != nil {
		return nil, err
	}
	return m.of(f, e)
}

// Take is [Tasks.Change] for a message after which the skill may be invoked: it is the claim. It is sent until the database answers, and a version with its
// mark is the claim itself. If that is not known in time, the claim is undone in the background.
func (f *Tasks) Take(ctx context.Context, t *Task, change func(*Task) error) (*Task, error) {
	mark := []byte(f.Ledger.NewID())
	isMade := func(e *ledger.Entry) bool { return bytes.Equal(e.Args, mark) && e.State != ledger.Unknown }
	var taken *Task
	var final error // of an attempt that the database has answered
	perhaps, err := ledger.Insist(ctx, func(ctx context.Context) error {
		var decided, err error
		taken, err = f.change(ctx, t, func(next *ledger.Entry, m *made) error {
			if isMade(next) {
				return ledger.ErrUnchanged
			}
			next.Args, decided = mark, m.change(next, change)
			return decided
		})
		_, full := errors.AsType[*run.Failure](err)
		if final = nil; full || decided != nil && errors.Is(err, decided) || errors.Is(err, ledger.ErrEnded) || errors.Is(err, ledger.ErrNoEntry) {
			final, err = err, nil
		}
		return err
	})
	switch {
	case err == nil:
		return taken, final
	case perhaps:
		f.Ledger.WriteLater(t.Entry, func(next *ledger.Entry) error {
			if isMade(next) {
				next.Args = t.Entry.Args // so that it is undone once
				_, err := Change(next, func(now *Task) error { now.Undo(t); return nil })
				return err
			}
			if next.Version != t.Entry.Version {
				return ledger.ErrUnchanged
			}
			return nil // a claim that arrives late finds another version
		})
	}
	return nil, err
}

// NoPlace returns the error for a failure of the ledger: the failure in the words of this front, if there is no place for a task, or else its cause.
func NoPlace(failure *run.Failure) error {
	switch {
	case failure == nil:
		return nil
	case failure.Limit == nil:
		return failure.Cause
	}
	message := "Too many tasks are open here; try again when some have ended."
	if strings.HasPrefix(failure.Limit.Name, "bytes") {
		message = "The messages and outputs of the tasks here take too much place; try again when some have expired, or send less."
	}
	return run.TooMuch(run.PhaseInvoke, message, *failure.Limit, run.RetryIn(5*time.Second, 5))
}
