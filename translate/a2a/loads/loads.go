package loads

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// smallRecord is the size up to which records are read at once, and without reserved memory, in bytes.
	smallRecord = 64 << 10
	// largeLoads is the number of larger records that are read at a time. Until it is decoded, a record takes about three times its size.
	largeLoads = 4
)

// Read reads a task from the storage. It returns the time of its record, too.
type Read func(context.Context) (*task.Task, time.Time, error)

// Reader is a request that reads tasks. An ended task that is only in the storage is read once for all readers that have it at a
// time. A reader has what it has read until [Reader.End].
type Reader struct {
	// Room reserves memory for a task before it is read, until release is called. If there is none, ok is false, and the error of
	// the reading is [run.ErrNoRoom]. One task at a time is read without. Nil: there is no bound.
	Room func(size int64) (release func(), ok bool)

	mu    sync.Mutex
	held  map[*loaded]func() // the functions that end the holding
	ended bool
}

type readerKey struct{}

// WithReader returns a context for [Group.Read] that makes r hold what they read.
func WithReader(ctx context.Context, r *Reader) context.Context {
	return context.WithValue(ctx, readerKey{}, r)
}

// Holds reports whether the reader has a task that is only in the storage.
func (r *Reader) Holds() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.held) > 0
}

// End says that the request uses no task any more.
func (r *Reader) End() {
	r.mu.Lock()
	held := r.held
	r.held, r.ended = nil, true
	r.mu.Unlock()
	for _, leave := range held {
		leave()
	}
}

// hold makes the reader hold a task, and calls leave in the end: at once, if the reader has ended or holds it already.
func (r *Reader) hold(l *loaded, leave func()) {
	if r == nil || !r.add(l, leave) {
		leave()
	}
}

func (r *Reader) add(l *loaded, leave func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.held[l] != nil {
		return false
	}
	if r.held == nil {
		r.held = map[*loaded]func(){}
	}
	r.held[l] = leave
	return true
}

// Group has the tasks that are read from the storage, or that readers hold.
type Group struct {
	mu     sync.Mutex
	of     map[key]*loaded
	single *loaded       // the one large task for which no memory is reserved
	large  chan struct{} // of capacity largeLoads: the large records that are read
}

// New returns an empty group.
func New() *Group { return &Group{of: map[key]*loaded{}, large: make(chan struct{}, largeLoads)} }

// key identifies a task of an owner.
type key struct{ owner, id string }

// errUnread is the error of a task whose reader has panicked.
var errUnread = errors.New("the task was not read")

// loaded is a task that is read from the storage.
type loaded struct {
	key  key
	done chan struct{}
	// task, at and err are set before done is closed.
	task *task.Task
	at   time.Time // of the record
	err  error

	readers int    // protected by the lock of the group
	size    int64  // of the last file that was read
	release func() // frees the reserved memory; nil: there is none
}

// Read returns a task by a function that reads it, unless another caller reads it at the moment, or a reader holds it.
func (l *Group) Read(ctx context.Context, owner, id string, from Read) (*task.Task, time.Time, error) {
	reader, _ := ctx.Value(readerKey{}).(*Reader)
	for {
		it, first := l.enter(key{owner, id})
		if first {
			l.fill(ctx, it, reader, from)
		} else {
			select {
			case <-it.done:
			case <-ctx.Done():
				l.leave(it)
				return nil, time.Time{}, ctx.Err()
			}
		}
		if it.err == nil && it.task.Status.State.Terminal() {
			reader.hold(it, func() { l.leave(it) })
			return it.task, it.at, nil
		}
		l.leave(it)
		if first || ctx.Err() != nil || !errors.Is(it.err, context.Canceled) && !errors.Is(it.err, context.DeadlineExceeded) {
			return it.task, it.at, it.err
		} // else the request that read it was canceled
	}
}

func (l *Group) enter(of key) (it *loaded, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if it = l.of[of]; it == nil {
		it, first = &loaded{key: of, done: make(chan struct{}), err: errUnread}, true
		l.of[of] = it
	}
	it.readers++
	return it, first
}

func (l *Group) leave(it *loaded) {
	l.mu.Lock()
	it.readers--
	last := it.readers == 0
	if last && l.of[it.key] == it {
		delete(l.of, it.key)
	}
	l.mu.Unlock()
	if last {
		l.free(it)
	}
}

// Forget makes later callers read a task again.
func (l *Group) Forget(owner, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, key{owner, id})
}

// fill reads a task for all its readers.
func (l *Group) fill(ctx context.Context, it *loaded, reader *Reader, from Read) {
	defer close(it.done)
	it.task, it.at, it.err = l.queue(ctx, from, func(size int64) error { return l.reserve(it, reader, size) })
	if it.err == nil && it.task.Status.State.Terminal() {
		if size := task.Size(it.task); size < it.size { // the record was stored together with others
			it.err = l.reserve(it, reader, size)
		}
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[it.key] == it {
		delete(l.of, it.key) // the next caller finds it in memory, or tries again
	}
}

// Queue reads a task for one caller. The error is that of from.
func (l *Group) Queue(ctx context.Context, from Read) (*task.Task, time.Time, error) {
	return l.queue(ctx, from, func(int64) error { return nil })
}

// queue reads a task. Large records are read a few at a time. reserve is called for each before it is read.
func (l *Group) queue(ctx context.Context, from Read, reserve func(size int64) error) (*task.Task, time.Time, error) {
	reads := false
	defer func() {
		if reads {
			<-l.large
		}
	}()
	return from(run.WithRoom(ctx, func(size int64) error {
		if size > smallRecord && !reads {
			select {
			case l.large <- struct{}{}:
				reads = true
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return reserve(size)
	}))
}

// reserve reserves memory for a task, instead of what was reserved for it before.
func (l *Group) reserve(it *loaded, reader *Reader, size int64) error {
	l.free(it)
	it.size = size
	if size <= smallRecord || reader == nil || reader.Room == nil || l.alone(it) {
		return nil
	}
	release, ok := reader.Room(size)
	if !ok {
		return run.ErrNoRoom
	}
	it.release = release
	return nil
}

// alone makes a task the one that needs no memory reserved, if there is none.
func (l *Group) alone(it *loaded) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.single == nil {
		l.single = it
	}
	return l.single == it
}

// free frees the memory that is reserved for a task.
func (l *Group) free(it *loaded) {
	l.mu.Lock()
	if l.single == it {
		l.single = nil
	}
	l.mu.Unlock()
	if it.release != nil {
		it.release()
		it.release = nil
	}
}
