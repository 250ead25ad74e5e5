package tasks

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

// Reader is a request that reads tasks. An ended task that is only in the Store is read once for all readers that have it at a
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

// WithReader returns a context for the methods of [Tasks] that makes r hold what they read.
func WithReader(ctx context.Context, r *Reader) context.Context {
	return context.WithValue(ctx, readerKey{}, r)
}

// Holds reports whether the reader has a task that is only in the Store.
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

// loads are the tasks that are read from the Store, or that readers hold.
type loads struct {
	mu     sync.Mutex
	of     map[claim]*loaded
	single *loaded       // the one large task for which no memory is reserved
	large  chan struct{} // of capacity largeLoads: the large records that are read
}

// loaded is a task that is read from the Store.
type loaded struct {
	claim claim
	done  chan struct{}
	// task, at and err are set before done is closed.
	task *task.Task
	at   time.Time // of the record
	err  error

	readers int    // protected by the lock of the loads
	size    int64  // of the last file that was read
	release func() // frees the reserved memory; nil: there is none
}

// read returns a task by a function that reads it from the Store, unless another caller reads it at the moment, or a reader holds it.
func (l *loads) read(ctx context.Context, c claim, from func(context.Context) (*task.Task, time.Time, error)) (*task.Task, time.Time, error) {
	reader, _ := ctx.Value(readerKey{}).(*Reader)
	for {
		it, first := l.enter(c)
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

func (l *loads) enter(c claim) (it *loaded, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if it = l.of[c]; it == nil {
		it, first = &loaded{claim: c, done: make(chan struct{}), err: ErrNoTask}, true
		if l.of == nil {
			l.of = map[claim]*loaded{}
		}
		l.of[c] = it
	}
	it.readers++
	return it, first
}

func (l *loads) leave(it *loaded) {
	l.mu.Lock()
	it.readers--
	last := it.readers == 0
	if last && l.of[it.claim] == it {
		delete(l.of, it.claim)
	}
	l.mu.Unlock()
	if last {
		l.free(it)
	}
}

// forget makes later callers read a task again.
func (l *loads) forget(c claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, c)
}

// fill reads a task for all its readers.
func (l *loads) fill(ctx context.Context, it *loaded, reader *Reader, from func(context.Context) (*task.Task, time.Time, error)) {
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
	if l.of[it.claim] == it {
		delete(l.of, it.claim) // the next caller finds it in memory, or tries again
	}
}

// queue reads a task. Large records are read a few at a time. reserve is called for each before it is read.
func (l *loads) queue(ctx context.Context, from func(context.Context) (*task.Task, time.Time, error), reserve func(size int64) error) (*task.Task, time.Time, error) {
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
func (l *loads) reserve(it *loaded, reader *Reader, size int64) error {
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
func (l *loads) alone(it *loaded) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.single == nil {
		l.single = it
	}
	return l.single == it
}

// free frees the memory that is reserved for a task.
func (l *loads) free(it *loaded) {
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
