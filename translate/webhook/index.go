package webhook

import (
	"context"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// writeTimeout bounds how long an instance waits for its lock, and the time to write a record.
	writeTimeout = 5 * time.Second
	// maxNoted bounds the runs that an instance remembers to have noted. It writes the records of further ones again.
	maxNoted = 20_000
	// maxIndexed bounds the records that are read at once.
	maxIndexed = 100_000

	// leaseTimeout is how long an instance waits for the lock of another one to find out whether that one has ended. The
	// lock of a process that was killed expires within this time.
	leaseTimeout = 30 * time.Second
)

// Index has a record of each run or task with webhooks, under its id. The record has the instance that sends the requests.
// Each instance holds a lock while it runs.
type Index struct {
	store    run.Store
	owner    string // of the records
	instance string // a UUID

	mu     sync.Mutex
	noted  map[string]uint64 // the events of records, by id
	unlock func()            // nil: no lock is held yet
	closed bool
}

// entry is the content of a record.
type entry struct {
	Owner    string `json:"owner"`
	Instance string `json:"instance,omitzero"` // empty: everything was sent
	attempts
}

// attempts are the requests for a run that failed.
type attempts struct {
	Tries int       `json:"tries,omitzero"`
	Next  time.Time `json:"next,omitzero"` // when the next one is due; zero: at once
}

// NewIndex returns an index in a store, whose records have an owner.
func NewIndex(store run.Store, owner string) *Index {
	return &Index{store: store, owner: owner, instance: uuid.Must(uuid.NewV7()).String(), noted: map[string]uint64{}}
}

// Instance returns the name of this instance.
func (x *Index) Instance() string { return x.instance }

// Note writes a record that this instance sends the requests for a run, unless it has done so. event is at least that of the newest record.
func (x *Index) Note(ctx context.Context, owner, id string, event uint64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.noted[id]; ok || x.closed {
		return nil
	}
	return x.put(ctx, entry{Owner: owner}, id, event)
}

// Delay writes that a number of requests for a run failed, and when the next one is due.
func (x *Index) Delay(ctx context.Context, owner, id string, tries int, next time.Time) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil
	}
	return x.put(ctx, entry{Owner: owner, attempts: attempts{tries, next.UTC().Truncate(time.Second)}}, id, x.following(ctx, id))
}

// following returns the event for the next record of a run. The caller holds the lock.
func (x *Index) following(ctx context.Context, id string) uint64 {
	noted, ok := x.noted[id]
	if !ok {
		if r, err := x.store.Get(ctx, x.owner, id); err == nil {
			noted = r.Event
		}
	}
	return noted + 1
}

// Served does what Note does, before a request is sent. It reports whether another instance has followed the same run and has
// sent everything.
func (x *Index) Served(ctx context.Context, owner, id string, event uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.noted[id]; ok || x.closed {
		return false
	}
	e := entry{Owner: owner}
	if r, err := x.store.Get(ctx, x.owner, id); err == nil {
		if json.Unmarshal(r.Data, &e) == nil && e.Instance == "" {
			return true
		}
		event = max(event, r.Event+1)
	}
	_ = x.put(ctx, e, id, event) // if it fails, the next request tries it again
	return false
}

// Take does what Note does, for a run whose record has another instance.
func (x *Index) Take(ctx context.Context, f Found) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.closed {
		_ = x.put(ctx, entry{Owner: f.Owner, attempts: f.attempts}, f.ID, f.event+1) // if it fails, another look finds the run
	}
}

// put writes a record with this instance. The caller holds the lock.
func (x *Index) put(ctx context.Context, e entry, id string, event uint64) error {
	if x.unlock == nil {
		wait, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		unlock, err := x.store.Lock(wait, x.owner, x.instance)
		if err != nil {
			return err
		}
		x.unlock = unlock
	}
	e.Instance = x.instance
	if err := x.write(ctx, e, id, event); err != nil {
		return err
	}
	if len(x.noted) >= maxNoted {
		clear(x.noted)
	}
	x.noted[id] = event
	return nil
}

func (x *Index) write(ctx context.Context, e entry, id string, event uint64) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	standing := run.Running // so that it is not deleted because there are many
	if e.Instance == "" {
		standing = run.Final
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	return x.store.Put(ctx, &run.Record{Owner: x.owner, ID: id, Event: event, At: time.Now(), Data: data, Standing: standing})
}

// Done writes a record that everything for a run was sent. If that fails, another instance reads the run later, and finds nothing
// to send.
func (x *Index) Done(ctx context.Context, owner, id string, event uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if noted, ok := x.noted[id]; ok {
		delete(x.noted, id)
		_ = x.write(ctx, entry{Owner: owner}, id, max(noted+1, event)) // see above
	}
}

// Settle does what Done does, also for a run that this instance does not remember.
func (x *Index) Settle(ctx context.Context, owner, id string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	event := x.following(ctx, id)
	delete(x.noted, id)
	return x.write(ctx, entry{Owner: owner}, id, event)
}

// Drop does what Done does, for a run that Read has found.
func (x *Index) Drop(ctx context.Context, f Found) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.noted, f.ID)
	_ = x.write(ctx, entry{Owner: f.Owner}, f.ID, f.event+1) // as above
}

// Close ends the lock of this instance, so that others take over its runs. Nothing more is written that makes a run one of this instance.
func (x *Index) Close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	if x.unlock != nil {
		x.unlock()
		x.unlock = nil
	}
}

// Found is a run for which requests may have to be sent.
type Found struct {
	Owner, ID string
	attempts

	event uint64 // of the record
}

// Read returns the runs for which requests may have to be sent, by instance. It skips the final records in seen, and returns
// these together with the final records that it has read.
func (x *Index) Read(ctx context.Context, seen map[string]run.Version) (open map[string][]Found, final map[string]run.Version, err error) {
	open, final = map[string][]Found{}, map[string]run.Version{}
	need := func(id string, v run.Version) bool {
		if seen[id] != v {
			return true
		}
		final[id] = v
		return false
	}
	for r, err := range x.store.List(ctx, x.owner, maxIndexed, need) {
		if err != nil {
			if r == nil && ctx.Err() != nil {
				return nil, nil, err
			}
			continue // a damaged record
		}
		var e entry
		if json.Unmarshal(r.Data, &e) != nil || e.Instance == "" {
			final[r.ID] = r.Version()
			continue
		}
		open[e.Instance] = append(open[e.Instance], Found{e.Owner, r.ID, e.attempts, r.Event})
	}
	return open, final, nil
}

// Ended calls use if an instance has ended. It prevents that another instance does so at the same time.
func (x *Index) Ended(ctx context.Context, instance string, use func()) {
	if instance != x.instance {
		wait, cancel := context.WithTimeout(ctx, leaseTimeout)
		defer cancel()
		unlock, err := x.store.Lock(wait, x.owner, instance)
		if err != nil {
			return
		}
		defer unlock()
	}
	use()
}
