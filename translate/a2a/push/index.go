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
	// indexOwner owns the records of the index. It is no principal: those have no control characters but line breaks.
	indexOwner = "\x00a2a push"
	// maxNoted is how many tasks an instance remembers to have noted. It notes those beyond it again.
	maxNoted = 20_000
	// maxIndexed is how many records are read.
	maxIndexed = 100_000

	// leaseTimeout is how long an instance waits for the lock of another one, to see whether that one has ended. The
	// lock of a process that was killed expires within this time.
	leaseTimeout = 30 * time.Second
)

// index has a record of each task with webhooks, by the id of the task, which says which instance sends its events. Each instance
// holds a lock as long as it lives.
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
	Instance string `json:"instance,omitzero"` // empty: nothing is left to be sent
}

func newIndex(store run.Store) *index {
	return &index{store: store, instance: uuid.Must(uuid.NewV7()).String(), noted: map[string]uint64{}}
}

// note notes that this instance sends the events of a task. If that fails, it is tried again with the next event.
func (x *index) note(ctx context.Context, t *task.Task) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.noted[t.ID]; !ok && !x.closed {
		x.put(ctx, t.Owner, t.ID, t.Event)
	}
}

// served is note for an event that is to be sent. It reports whether another instance has followed the same run, and has sent all
// events of the task.
func (x *index) served(ctx context.Context, t *task.Task) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.noted[t.ID]; ok || x.closed {
		return false
	}
	event := t.Event
	if r, err := x.store.Get(ctx, indexOwner, t.ID); err == nil {
		var e entry
		if json.Unmarshal(r.Data, &e) == nil && e.Instance == "" {
			return true
		}
		event = max(event, r.Event+1)
	}
	x.put(ctx, t.Owner, t.ID, event)
	return false
}

// take is note for a task that another instance had noted.
func (x *index) take(ctx context.Context, f found) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.closed {
		x.put(ctx, f.owner, f.record.ID, f.record.Event+1)
	}
}

// put writes a record. The lock is held.
func (x *index) put(ctx context.Context, owner, id string, event uint64) {
	if x.unlock == nil {
		wait, cancel := context.WithTimeout(ctx, markTimeout)
		defer cancel()
		unlock, err := x.store.Lock(wait, indexOwner, x.instance)
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
	return x.store.Put(ctx, &run.Record{Owner: indexOwner, ID: id, Event: event, At: time.Now(), Data: data, Standing: standing})
}

// done notes that nothing is left to be sent for a task. If that fails, another instance looks at the task in vain.
func (x *index) done(ctx context.Context, t *task.Task) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if event, ok := x.noted[t.ID]; ok {
		delete(x.noted, t.ID)
		_ = x.write(ctx, entry{Owner: t.Owner}, t.ID, max(event+1, t.Event)) // see above
	}
}

// drop notes that a task that was found is gone, or that nothing is left to be sent for it.
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

// found is a record of a task for which something may be left to be sent.
type found struct {
	record *run.Record
	owner  string
}

// read returns the records of tasks for which something may be left to be sent, by instance. It does not read those in seen, which
// it returns with the further ones that will not change.
func (x *index) read(ctx context.Context, seen map[string]uint64) (open map[string][]found, final map[string]uint64, err error) {
	open, final = map[string][]found{}, map[string]uint64{}
	need := func(id string, event uint64) bool {
		if seen[id] != event {
			return true
		}
		final[id] = event
		return false
	}
	for r, err := range x.store.List(ctx, indexOwner, maxIndexed, need) {
		if err != nil {
			if r == nil && ctx.Err() != nil {
				return nil, nil, err
			}
			continue // a damaged record: its task is found when a client asks about it
		}
		var e entry
		if json.Unmarshal(r.Data, &e) != nil || e.Instance == "" {
			final[r.ID] = r.Event
			continue
		}
		open[e.Instance] = append(open[e.Instance], found{r, e.Owner})
	}
	return open, final, nil
}

// ended calls use if an instance has ended. No other instance calls use for it at the same time.
func (x *index) ended(ctx context.Context, instance string, use func()) {
	if instance != x.instance {
		wait, cancel := context.WithTimeout(ctx, leaseTimeout)
		defer cancel()
		unlock, err := x.store.Lock(wait, indexOwner, instance)
		if err != nil {
			return
		}
		defer unlock()
	}
	use()
}
