package tasks

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/loads"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Config has the settings of [Tasks]. A zero value stands for the default.
//
// The Store holds at most four times MaxSize, 1 GiB with the defaults: it is trimmed to three times MaxSize when one more, or a quarter of
// Most, was written. What is written while it is trimmed comes in addition. So does what each of several instances writes, and what an
// owner has in open tasks beyond its share: they are not deleted by number or size as long as they are in memory or their run goes on.
type Config struct {
	// Store keeps the tasks after the end of the process, for all instances of the bridge. Nil: they are only in memory.
	Store run.Store
	// Most is how many tasks are kept at most, and MostPerOwner how many of one owner: 10000 and 1000. Both bounds hold
	// for memory and for the Store.
	Most, MostPerOwner int
	// MaxSize is the approximate size of all tasks in memory, in bytes: 256 MiB.
	MaxSize int64
	// TTL is the time for which a task is kept after its last change: 24 h.
	TTL time.Duration
	// Observer receives events and failures; nil: there is none.
	Observer Observer
	// Flush is the longest time between a change and its storing: 1 s.
	Flush time.Duration
}

// Observer receives events and failures of the Store. Its methods must not block, and must not call methods of the [Tasks].
type Observer interface {
	// Updated is called for each event that this instance has made of a task with webhooks, in order for each task. The event may not be stored yet:
	// [Tasks.Get] has to be called before a client sees an open task.
	Updated(u *task.Update)
	// StoreFailed is called when the Store can't be read or written, or has a damaged record.
	StoreFailed(err error)
}

// The errors of [Tasks].
var (
	// ErrNoTask is the error for a task that does not exist, is expired or belongs to another owner.
	ErrNoTask = errors.New("there is no such task")
	// ErrFull is the error if there is no place for a task, since too many are open.
	ErrFull = errors.New("too many tasks are open")
	// ErrBadToken is the error for a page token that [Tasks.List] has not made.
	ErrBadToken = errors.New("the page token is not valid")
	// ErrStorage is the error if the Store fails. It hides the text of its cause, which may contain paths, but wraps it.
	ErrStorage = errors.New("the storage of tasks failed")
	// ErrClosed is the error if the [Tasks] are closed.
	ErrClosed = errors.New("the tasks are closed")
)

// Tasks keeps tasks: in memory and, if there is one, in a [run.Store].
//
// A version of an open task is stored before clients see it, so that a crash never undoes a state that a client has seen. Clients
// see ended tasks at once. These are stored within [Config.Flush], most of the short ones only once and together with others.
// Tasks that do not fit into the memory are read from the Store.
type Tasks struct {
	config        Config
	memory        *memory
	writer        *writer
	locks         keyLocks // of tasks
	lists         keyLocks // of owners
	listed        summaries
	loads         *loads.Group
	subscriptions atomic.Int64

	ids     run.IDs
	once    sync.Once
	closing chan struct{}  // closed by Close
	ended   sync.WaitGroup // of the background goroutines
}

// New returns a Tasks with an empty memory. It uses a goroutine until [Tasks.Close].
func New(c Config) *Tasks {
	c.Most, c.MostPerOwner = cmp.Or(max(c.Most, 0), 10000), cmp.Or(max(c.MostPerOwner, 0), 1000)
	c.MaxSize, c.TTL, c.Flush = cmp.Or(max(c.MaxSize, 0), 256<<20), cmp.Or(max(c.TTL, 0), 24*time.Hour), cmp.Or(max(c.Flush, 0), time.Second)
	c.Flush = max(c.Flush, time.Millisecond)
	m := &memory{ttl: c.TTL, storing: c.Store != nil, room: newRoom(&c), claims: map[claim]*follower{}, queue: queue{kick: make(chan struct{}, 1)}}
	w := &writer{
		storage: c.Store, memory: m, observer: c.Observer, interval: c.Flush, batch: min(maxBatch, max(1, c.MostPerOwner/4)), most: max(1, c.Most/4), size: c.MaxSize, trim: make(chan struct{}, 1), used: make(chan struct{}), large: make(chan struct{}, largeWrites),
	}
	s := &Tasks{config: c, memory: m, writer: w, closing: make(chan struct{}), loads: loads.New()}
	s.ended.Go(func() { w.background(s.closing) })
	if c.Store != nil {
		bounds := run.Bounds{IDs: c.Most, IDsPerOwner: c.MostPerOwner, Bytes: storedFactor * c.MaxSize}
		s.ended.Go(func() { w.sweep(s.closing, bounds) })
		s.ended.Go(s.watch)
	}
	return s
}

// Close stores all tasks, and ends all subscriptions and the background goroutines. Later changes are stored at once.
func (s *Tasks) Close(ctx context.Context) {
	s.once.Do(func() { close(s.closing) })
	ended := make(chan struct{})
	go func() {
		s.ended.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		return
	}
	if s.config.Store != nil {
		s.writer.flush(ctx, true)
	}
	endSubscriptions(s.memory.all())
}

// isClosed reports whether a channel is closed that never gets values.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Add makes a task, whose first status was set by [task.Task.SetStatus]. The caller must not change it any more. If the task has
// a name, it is stored before Add returns. The error is [ErrFull] if there is no place and no ended task that can be dropped.
func (s *Tasks) Add(ctx context.Context, t *task.Task) error {
	if t.Created.IsZero() {
		t.Created = time.Now()
	}
	events := t.Begin()
	s.writer.use.Do(s.writer.begin)
	e := &entry{id: t.ID, owner: t.Owner, name: t.Name, now: t}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := s.memory.insert(e, t, time.Now(), false); err != nil {
		return err
	}
	if t.Name != "" && s.config.Store != nil {
		if err := s.writer.storeNamed(ctx, e, t); err != nil {
			s.memory.remove(e)
			return err
		}
	}
	s.writer.publish(e, t, events)
	return nil
}

// Change makes the next version of a task, under the lock of the task. If change returns an error, nothing changes.
// A change without a new status or artifact is no event, but has a number. If another instance has stored a version meanwhile,
// change is called again later, on top of that version, also after Change has returned: it must only use what does not change.
// The end of a task that has more than 64 KiB is stored before Change returns, or that has failed: those who have many large outputs
// wait for the Store, so that the memory is enough for what it does not have.
func (s *Tasks) Change(ctx context.Context, owner, id string, change func(*task.Task) error) (*task.Task, error) {
	for range 3 {
		e, err := s.current(ctx, owner, id, true)
		if err != nil {
			return nil, err
		}
		t, err := changeEntry(s, e, change)
		if errors.Is(err, errGone) {
			continue
		}
		if err == nil && s.config.Store != nil && t.Status.State.Terminal() && task.Size(t) > largeEnd {
			storeLarge(ctx, s.writer, e) // if it fails, the background goroutine tries again
		}
		if err == nil && s.config.Store != nil && isClosed(s.closing) {
			s.writer.flush(ctx, true)
		}
		return t, err
	}
	return nil, ErrFull // it is dropped as soon as it is read from the Store
}

// errGone says that an entry was dropped from memory before it could be locked.
var errGone = errors.New("the task was dropped from memory")

func changeEntry(s *Tasks, e *entry, change func(*task.Task) error) (*task.Task, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if state := e.now.Status.State; state.Terminal() || state.Interrupted() {
		defer s.loads.Forget(e.owner, e.id)
		if !s.memory.hold(e) {
			return nil, errGone
		}
		defer s.memory.release(e)
	}
	t, events, err := task.Next(e.now, change)
	if err != nil {
		return nil, err
	}
	if err := s.memory.settle(e, t); err != nil {
		return nil, err
	}
	if e.single {
		e.pending = append(e.pending[max(0, len(e.pending)-maxPending+1):], pending{e.now, change})
	}
	s.writer.publish(e, t, events)
	return t, nil
}

// Get returns a task. If it is open, it is stored before. The error is [ErrNoTask] if it does not exist, is expired or belongs to another owner.
func (s *Tasks) Get(ctx context.Context, owner, id string) (*task.Task, error) {
	e, err := s.current(ctx, owner, id, false)
	if err != nil {
		return nil, err
	}
	return s.writer.show(ctx, e)
}

// Named returns the newest task with a name that the owner has given.
func (s *Tasks) Named(ctx context.Context, owner, name string) (*task.Task, error) {
	id, err := s.idOf(ctx, owner, name)
	if err != nil {
		return nil, err
	}
	t, err := s.Get(ctx, owner, id)
	if err == nil && t.Name != name {
		return nil, ErrNoTask
	}
	return t, err
}

// Stats counts the tasks in memory by state, the subscriptions, and the approximate size of the tasks in bytes.
func (s *Tasks) Stats() (byState map[task.State]int, subscriptions int, bytes int64) {
	byState, bytes = s.memory.stats()
	return byState, int(s.subscriptions.Load()), bytes
}

// Drop removes a task from memory, for a client that got its output in another form than a task. If the task was stored
// meanwhile, it stays in the Store until it expires.
func (s *Tasks) Drop(owner, id string) {
	if e, _ := s.memory.find(owner, id); e != nil {
		s.memory.remove(e)
	}
}
