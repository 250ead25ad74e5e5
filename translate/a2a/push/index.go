package push

import (
	"context"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// IndexOwner is the owner of the records of the index in the storage of tasks. It can't be a principal, which has no control characters except line
	// breaks.
	IndexOwner = "\x00a2a push"
	// maxNoted bounds the tasks that an instance remembers to have noted. It writes the records of further ones again.
	maxNoted = 20_000
	// maxIndexed bounds the records that are read at once.
	maxIndexed = 100_000

	// leaseTimeout is how long an instance waits for the lock of another one to find out whether that one has ended. The
	// lock of a process that was killed expires within this time.
	leaseTimeout = 30 * time.Second
)

// index has a record of each task with webhooks, under the id of the task. The record has the instance that sends the events.
// Each instance holds a lock while it runs.
type index struct {
	store    run.Store
	instance string // a UUID

	mu     sync.Mutex
	noted  map[string]uint64 // the events of records, by task
	unlock func()            // nil: no lock is held yet
	closed bool
}

// entry is the content of a record.
type entry struct {
	Owner    string `json:"owner"`
	Instance string `json:"instance,omitzero"` // empty: all events were sent
}

func newIndex(store run.Store) *index {
	return &index{store: store, instance: uuid.Must(uuid.NewV7()).String(), noted: map[string]uint64{}}
}

// note writes a record that this instance sends the events of a task. If that fails, the next event tries again.
func (x *index) note(ctx context.Context, t *task.Task) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.noted[t.ID]; !ok && !x.closed {
		x.put(ctx, t.Owner, t.ID, t.Event)
	}
}

// served does what note does, before an event is sent. It reports whether another instance has followed the same run and has
// sent all events of the task.
func (x *index) served(ctx context.Context, t *task.Task) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.noted[t.ID]; ok || x.closed {
		return false
	}
	event := t.Event
	if r, err := x.store.Get(ctx, IndexOwner, t.ID); err == nil {
		var e entry
		if json.Unmarshal(r.Data, &e) == nil && e.Instance == "" {
			return true
		}
		event = max(event, r.Event+1)
	}
	x.put(ctx, t.Owner, t.ID, event)
	return false
}

// take does what note does, for a task whose record has another instance.
func (x *index) take(ctx context.Context, f found) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.closed {
		x.put(ctx, f.owner, f.record.ID, f.record.Event+1)
	}
}

// put writes a record. The caller holds the lock.
func (x *index) put(ctx context.Context, owner, id string, event uint64) {
	if x.unlock == nil {
		wait, cancel := context.WithTimeout(ctx, markTimeout)
		defer cancel()
		unlock, err := x.store.Lock(wait, IndexOwner, x.instance)
		if err != nil {
			return
		}
		x.unlock = unlock
	}
	if x.write(ctx, entry{owner, x.instance}, id, event) == nil {
		if len(x.noted) >= maxNoted {
			clear(x.noted)
		}
		x.noted[id] = event
	}
}

func (x *index) write(ctx context.Context, e entry, id string, event uint64) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	standing := run.Running // so that it is not deleted because there are many
	if e.Instance == "" {
		standing = run.Final
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()
	return x.store.Put(ctx, &run.Record{Owner: IndexOwner, ID: id, Event: event, At: time.Now(), Data: data, Standing: standing})
}

// done writes a record that all events of a task were sent. If that fails, another instance reads the task later, and finds nothing
// to send.
func (x *index) done(ctx context.Context, t *task.Task) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if event, ok := x.noted[t.ID]; ok {
		delete(x.noted, t.ID)
		_ = x.write(ctx, entry{Owner: t.Owner}, t.ID, max(event+1, t.Event)) // see above
	}
}

// drop does what done does, for a task that read has found.
func (x *index) drop(ctx context.Context, f found) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.noted, f.record.ID)
	_ = x.write(ctx, entry{Owner: f.owner}, f.record.ID, f.record.Event+1) // as above
}

func (x *index) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	if x.unlock != nil {
		x.unlock()
		x.unlock = nil
	}
}

// found is a record of a task that may have events to be sent.
type found struct {
	record *run.Record
	owner  string
}

// read returns the records of tasks that may have events to be sent, by instance. It skips the final records in seen, and returns
// these together with the final records that it has read.
func (x *index) read(ctx context.Context, seen map[string]run.Version) (open map[string][]found, final map[string]run.Version, err error) {
	open, final = map[string][]found{}, map[string]run.Version{}
	need := func(id string, v run.Version) bool {
		if seen[id] != v {
			return true
		}
		final[id] = v
		return false
	}
	for r, err := range x.store.List(ctx, IndexOwner, maxIndexed, need) {
		if err != nil {
			if r == nil && ctx.Err() != nil {
				return nil, nil, err
			}
			continue // a damaged record: the task is followed again when a client asks about it
		}
		var e entry
		if json.Unmarshal(r.Data, &e) != nil || e.Instance == "" {
			final[r.ID] = r.Version()
			continue
		}
		open[e.Instance] = append(open[e.Instance], found{r, e.Owner})
	}
	return open, final, nil
}

// ended calls use if an instance has ended. It prevents that another instance does so at the same time.
func (x *index) ended(ctx context.Context, instance string, use func()) {
	if instance != x.instance {
		wait, cancel := context.WithTimeout(ctx, leaseTimeout)
		defer cancel()
		unlock, err := x.store.Lock(wait, IndexOwner, instance)
		if err != nil {
			return
		}
		defer unlock()
	}
	use()
}
