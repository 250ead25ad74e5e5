package tasks

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// writeTimeout bounds the duration of a write.
	writeTimeout = 30 * time.Second
	// largeWrites is the number of callers that store the large end of a task at a time.
	largeWrites = 4
	// largeEnd is the size of an ended task from which on its end is large, in bytes.
	largeEnd = 64 << 10
)

// writer stores tasks. Clients see an open version only after it is stored.
type writer struct {
	storage  run.Store // nil: there is none
	memory   *memory
	observer Observer
	interval time.Duration // Config.Flush
	batch    int           // the largest number of ended tasks that are stored together
	// most and size are the number and the size of written records after which the Store is trimmed.
	most int
	size int64
	trim chan struct{} // of capacity 1: so much was written
	used chan struct{} // closed by the first use
	use  sync.Once     // closes it

	large chan struct{} // of capacity largeWrites: the large ends that are being stored by those who have made them

	mu       sync.Mutex
	failures int // in a row
	records  int // written since the Store was trimmed
	bytes    int64
	buffers  task.Buffers // until the queue is empty
}

// flight is one exchange of a task with the Store, which several callers wait for.
type flight struct {
	done chan struct{}
	err  error // once done is closed
}

// version is a version of a task that is being written.
type version struct {
	e *entry
	t *task.Task
}

// visible reports whether clients may see the current version. The caller holds the lock of the entry.
func (w *writer) visible(e *entry) bool {
	return w.storage == nil || e.isStored() || e.now.Status.State.Terminal()
}

// show returns the current version of a task for a client, after it was stored if it is open.
func (w *writer) show(ctx context.Context, e *entry) (*task.Task, error) {
	return w.until(ctx, e, (*writer).visible)
}

// store stores the current version of a task if other instances know an earlier one.
func (w *writer) store(ctx context.Context, e *entry) error {
	_, err := w.until(ctx, e, func(_ *writer, e *entry) bool { return e.stored.Event == 0 || e.isStored() })
	return err
}

// storeLarge stores the current version of a task. A few callers do that at a time, since a record takes several times its size until
// it is stored.
func storeLarge(ctx context.Context, w *writer, e *entry) {
	ctx = context.WithoutCancel(ctx)
	w.large <- struct{}{}
	defer func() { <-w.large }()
	_, _ = w.until(ctx, e, func(_ *writer, e *entry) bool { return e.isStored() }) // errors were reported
}

// until stores a task until a condition holds, which is called under its lock, and returns the version for which it holds.
func (w *writer) until(ctx context.Context, e *entry, done func(*writer, *entry) bool) (*task.Task, error) {
	for {
		e.mu.Lock()
		if done(w, e) {
			t := e.now
			e.mu.Unlock() // a deferred call in a loop would be allocated
			return t, nil
		}
		var err error
		if f := e.flight; f != nil {
			e.mu.Unlock()
			err = f.wait(ctx)
		} else {
			err = w.exchange(ctx, e, true).err
		}
		if err != nil {
			return nil, err
		}
	}
}

// wait waits for the end of the exchange.
func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// exchange adopts what other instances have stored of a task, and then, if write is set, stores the current version as a record of
// its own. The lock of the entry is held, and is released. No other exchange of the entry is under way.
//
// Storages have no compare-and-swap. Two instances that store the same event number, each after it has found nothing newer and
// before the other's record is there, don't see each other. The newer [run.Version] holds, and the other instance adopts it with its next
// exchange. What only that one has changed is lost. So an end holds, also over later events that were stored before its record was there.
// Records of the same standing have the same key: the last one holds, and the other instance learns of it from the next event. That takes
// two changes within the time of one write. Messages and cancellations have no such window among each other, since they hold the lock of
// the task; followers of runs, which don't, make the same changes in both instances.
func (w *writer) exchange(ctx context.Context, e *entry, write bool) *flight {
	f := &flight{done: make(chan struct{})}
	e.flight = f
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout) // others wait for it, too
	defer cancel()
	for again := true; again; {
		t, known := e.now, e.stored
		e.single = e.single || write
		e.mu.Unlock()
		var theirs *task.Task
		var at time.Time
		var size int64
		if known.Event > 0 {
			if r, err := w.storage.Newer(ctx, e.owner, e.id, known); r != nil || err != nil {
				theirs, at, f.err = w.decoded(ctx, r, err)
			}
		}
		again = theirs != nil
		if write = write && f.err == nil; write && !again && t.Version().Compare(known) > 0 {
			if size, f.err = w.put(ctx, version{e, t}); f.err != nil {
				f.err = w.failed(ctx, f.err)
			}
		}
		e.mu.Lock()
		switch {
		case again:
			w.adopt(e, theirs, at)
			again = write && !e.isStored()
		case write && f.err == nil:
			w.wrote(e, t, size)
		}
	}
	e.flight = nil
	e.mu.Unlock()
	close(f.done)
	return f
}

// put stores versions of tasks of one owner, and returns their size. An ended task that can't be written is left out: it stays
// in memory as if it were stored.
func (w *writer) put(ctx context.Context, versions ...version) (int64, error) {
	records := make([]*run.Record, 0, len(versions))
	var size int64
	buffer := w.buffers.Take()
	defer w.buffers.GiveBack(buffer)
	buffer.Grow(min(len(versions)*int(task.Size(versions[0].t)), batchSize)) // about as much as it takes
	for _, v := range versions {
		r, err := task.Encode(buffer, v.t, w.memory.changedAt(v.e))
		switch {
		case err == nil:
			size += int64(len(r.Data))
			records = append(records, r)
		case v.t.Status.State.Terminal():
			w.report(err)
		default:
			return 0, err
		}
	}
	if len(records) == 0 {
		return 0, nil
	}
	data := buffer.Bytes() // the buffer may have moved
	for _, r := range records {
		r.Data = data[:len(r.Data):len(r.Data)]
		data = data[len(r.Data):]
	}
	return size, w.storage.Put(ctx, records...)
}

// wrote counts a version that was stored. The caller holds the lock of the entry.
func (w *writer) wrote(e *entry, t *task.Task, size int64) {
	if v := t.Version(); v.Compare(e.stored) > 0 {
		e.stored = v
	}
	e.pending = slices.DeleteFunc(e.pending, func(p pending) bool { return p.before.Event < e.stored.Event })
	if e.isStored() {
		w.memory.written(e)
	}
	w.deliver(e)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records++
	w.bytes += size
	if w.records >= w.most || w.bytes >= w.size {
		w.records, w.bytes = 0, 0
		select {
		case w.trim <- struct{}{}:
		default:
		}
	}
}

// storeNamed stores the first version of a task that has a name, and the name. The caller holds the lock of the entry.
func (w *writer) storeNamed(ctx context.Context, e *entry, t *task.Task) error {
	e.single = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout) // else it may be stored, but not known
	defer cancel()
	size, err := w.put(ctx, version{e, t})
	if err == nil {
		err = w.storage.Name(ctx, t.Owner, t.Name, t.ID)
	}
	if err != nil {
		return w.failed(ctx, err)
	}
	w.wrote(e, t, size)
	return nil
}

// storageError is a failure of the Store. It hides the text of its cause from clients.
type storageError struct{ cause error }

// Error implements error.
func (e *storageError) Error() string { return ErrStorage.Error() }

// Unwrap returns ErrStorage and the cause.
func (e *storageError) Unwrap() []error { return []error{ErrStorage, e.cause} }

// failed reports a failure of the Store, and returns the error for the caller.
func (w *writer) failed(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	w.report(err)
	return &storageError{err}
}

// damaged reports a failure to read. It returns nil if only a record is damaged.
func (w *writer) damaged(ctx context.Context, err error) error {
	if errors.Is(err, run.ErrDamaged) {
		w.report(err)
		return nil
	}
	return w.failed(ctx, err)
}

// report calls the Observer.
func (w *writer) report(err error) {
	if w.observer != nil {
		w.observer.StoreFailed(err)
	}
}

// read reads a task from the Store. The error is ErrNoTask if there is none, or only a damaged one, and [run.ErrNoRoom] if there is no
// memory for it.
func (w *writer) read(ctx context.Context, owner, id string) (*task.Task, time.Time, error) {
	r, err := w.storage.Get(ctx, owner, id)
	switch {
	case errors.Is(err, run.ErrNoRecord):
		return nil, time.Time{}, ErrNoTask
	case errors.Is(err, run.ErrNoRoom):
		return nil, time.Time{}, run.ErrNoRoom
	}
	t, at, err := w.decoded(ctx, r, err)
	if t == nil && err == nil {
		err = ErrNoTask
	}
	return t, at, err
}

// decoded returns the task of a record that was read, or nil if the record is damaged.
func (w *writer) decoded(ctx context.Context, r *run.Record, err error) (t *task.Task, at time.Time, failed error) {
	if err == nil {
		t, err = task.Decode(r)
	}
	if err != nil {
		return nil, time.Time{}, w.damaged(ctx, err)
	}
	return t, r.At, nil
}
