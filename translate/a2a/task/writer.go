package task

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// writeTimeout is how long the Store may take to write.
const writeTimeout = 30 * time.Second

// writer stores tasks. Clients see an open version only after it is stored.
type writer struct {
	storage  run.Store // nil: there is none
	memory   *memory
	observer Observer
	interval time.Duration // Config.Flush
	batch    int           // how many ended tasks are stored together at most
	// most and size are how much is written before the Store is trimmed.
	most int
	size int64
	trim chan struct{} // of capacity 1: so much was written
	used chan struct{} // closed by the first use
	use  sync.Once     // closes it

	mu       sync.Mutex
	failures int // in a row
	records  int // written since the Store was trimmed
	bytes    int64
}

// flight is one write of a version, which several callers wait for.
type flight struct {
	done chan struct{}
	err  error // once done is closed
}

// version is a version of a task that is written.
type version struct {
	e *entry
	t *Task
}

// visible reports whether clients may see the current version. The lock of the entry is held.
func (w *writer) visible(e *entry) bool {
	return w.storage == nil || e.stored >= e.now.Event || e.now.Status.State.Terminal()
}

// show returns the current version of a task for a client, after it was stored if it is open.
func (w *writer) show(ctx context.Context, e *entry) (*Task, error) {
	e.mu.Lock()
	t, visible := e.now, w.visible(e)
	e.mu.Unlock()
	if visible {
		return t, nil
	}
	if err := w.persist(ctx, e, t.Event); err != nil {
		return nil, err
	}
	return t, nil
}

// store stores the current version of a task if other instances know an earlier one.
func (w *writer) store(ctx context.Context, e *entry) error {
	for {
		e.mu.Lock()
		if e.stored == 0 || e.stored >= e.now.Event {
			e.mu.Unlock()
			return nil
		}
		if err := w.join(ctx, e); err != nil {
			return err
		}
	}
}

// persist stores a version of a task that is open, if neither it nor a later one is stored.
func (w *writer) persist(ctx context.Context, e *entry, event uint64) error {
	for {
		e.mu.Lock()
		if e.stored >= event || w.visible(e) {
			e.mu.Unlock()
			return nil
		}
		if err := w.join(ctx, e); err != nil {
			return err
		}
	}
}

// join waits for the write of an entry that is under way, or writes it. The lock of the entry is held, and is released.
func (w *writer) join(ctx context.Context, e *entry) error {
	f := e.flight
	if f == nil {
		return w.write(ctx, e).err
	}
	e.mu.Unlock()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write stores the current version of a task as a record of its own. The lock of the entry is held, and is released. No
// other write of the entry is under way.
func (w *writer) write(ctx context.Context, e *entry) *flight {
	f := &flight{done: make(chan struct{})}
	t := e.now
	e.flight, e.single = f, true
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout) // others wait for it, too
	defer cancel()
	size, err := w.put(ctx, version{e, t})
	if err != nil {
		f.err = w.failed(ctx, err)
	}
	e.mu.Lock()
	e.flight = nil
	if err == nil {
		w.wrote(e, t.Event, size)
	}
	e.mu.Unlock()
	close(f.done)
	return f
}

// recordBuffers pools the buffers of records that are written.
var recordBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxRecordBuffer is the largest buffer that is kept, in bytes.
const maxRecordBuffer = 2 << 20

// put stores versions of tasks of one owner, and returns their size. An ended task that can't be written is left out: it stays
// in memory as if it were stored.
func (w *writer) put(ctx context.Context, versions ...version) (int64, error) {
	records := make([]*run.Record, 0, len(versions))
	var size int64
	buffer := recordBuffers.Get().(*bytes.Buffer)
	defer func() {
		if buffer.Cap() <= maxRecordBuffer {
			buffer.Reset()
			recordBuffers.Put(buffer)
		}
	}()
	for _, v := range versions {
		r, err := encode(buffer, v.t, w.memory.changedAt(v.e))
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

// wrote counts a version that was stored. The lock of the entry is held.
func (w *writer) wrote(e *entry, event uint64, size int64) {
	e.stored = max(e.stored, event)
	if e.stored >= e.now.Event {
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

// storeNamed stores the first version of a task that has a name, and the name. The lock of the entry is held.
func (w *writer) storeNamed(ctx context.Context, e *entry, t *Task) error {
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
	w.wrote(e, t.Event, size)
	return nil
}

// storageError hides the text of a failure of the Store from clients.
type storageError struct{ cause error }

// Error implements error.
func (e *storageError) Error() string { return ErrStorage.Error() }

// Unwrap makes ErrStorage and the cause recognizable.
func (e *storageError) Unwrap() []error { return []error{ErrStorage, e.cause} }

// failed reports that the Store has failed, and returns the error for the caller.
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

// read reads a task from the Store. The error is ErrNoTask if there is none, or only a damaged one.
func (w *writer) read(ctx context.Context, owner, id string) (*Task, time.Time, error) {
	r, err := w.storage.Get(ctx, owner, id)
	if errors.Is(err, run.ErrNoRecord) {
		return nil, time.Time{}, ErrNoTask
	}
	var t *Task
	if err == nil {
		t, err = decode(r)
	}
	if err != nil {
		if err = w.damaged(ctx, err); err == nil {
			err = ErrNoTask
		}
		return nil, time.Time{}, err
	}
	return t, r.At, nil
}
