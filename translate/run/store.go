package run

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Record is the state of a run after one of its events, as a [Store] keeps it for the owner of the run.
type Record struct {
	Owner string // the principal; empty: anonymous callers
	ID    string // a UUID of version 7 (RFC 9562), which contains the time of the first record
	Event uint64 // the number of the event, from 1
	// At is when the event happened.
	At time.Time
	// Data is a JSON value of the front that made the record.
	Data jsontext.Value
	// Final says that the run has ended. Of such records several can be stored together.
	Final bool
}

// Store keeps records for fronts whose runs outlive a request. Records survive restarts, and all instances of the bridge can read them. A record
// belongs to the principal that made it: for another one it does not exist. A record is written once and never changed,
// since storages have no compare-and-swap. The record with the highest event has the current state.
type Store interface {
	// Put stores records of one owner. It does not keep their data.
	Put(ctx context.Context, records ...*Record) error
	// Get returns the record with the highest event of an id. The error is [ErrNoRecord] if there is none.
	Get(ctx context.Context, owner, id string) (*Record, error)
	// Newer returns the record with the highest event of an id if that event is higher than a number; nil: there is none. It
	// costs one listing of the few records of the id, and reads nothing if there is none. A record that was only stored together
	// with others, by one call of Put, is not found: no further event of its id may be stored so.
	Newer(ctx context.Context, owner, id string, than uint64) (*Record, error)
	// List returns the records with the highest event of the newest ids of an owner, up to most of them, the newest first. It
	// reads only the records that are needed, by their id and event. An error that is [ErrDamaged] is that of one record: the
	// others follow.
	List(ctx context.Context, owner string, most int, need func(id string, event uint64) bool) iter.Seq2[*Record, error]
	// Name stores a name that the owner has given to an id.
	Name(ctx context.Context, owner, name, id string) error
	// Named returns the id of a name. The error is [ErrNoRecord] if there is none.
	Named(ctx context.Context, owner, name string) (id string, err error)
	// Lock waits until no other caller, on any instance, holds the lock of an id of an owner, and then holds it until unlock is
	// called. unlock also works after the context has ended; further calls have no effect. The lock expires some time after
	// its instance has died.
	Lock(ctx context.Context, owner, id string) (unlock func(), err error)
	// Sweep deletes the names that were written before a time, and the records of all days that ended before it.
	Sweep(ctx context.Context, before time.Time) error
	// Trim deletes records until the rest is within bounds: records that two later events of the same id have made
	// unnecessary, then the oldest ids of the owners that have too many, then the oldest ones of the owner that has the most. It
	// leaves the ids alone for which spare is true. Records that were stored together are deleted when none of them is within bounds.
	Trim(ctx context.Context, b Bounds, spare func(id string) bool) error
}

// Bounds are how much a [Store] may hold.
type Bounds struct {
	IDs, IDsPerOwner int
	Bytes            int64
}

// MaxRecord is the size of the largest [Record.Data], in bytes.
const MaxRecord = 32 << 20

// ErrNoRecord is the error for a record that does not exist, or belongs to another owner.
var ErrNoRecord = errors.New("there is no such record")

// ErrDamaged is the error for a record that can't be read since its content is damaged.
var ErrDamaged = errors.New("the record is damaged")
