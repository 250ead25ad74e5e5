package run

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Record is what a [Store] keeps of a run for its owner: its state at one event of its history.
type Record struct {
	Owner string // the principal; empty: anonymous callers
	ID    string // a UUID of version 7 (RFC 9562), so that it tells when the first record was made
	Event uint64 // the number of the event, from 1
	// At is when the event happened.
	At time.Time
	// Data is a JSON value of the front that made the record.
	Data jsontext.Value
}

// Store keeps records for fronts whose runs outlive a request, also over restarts and for other instances of the bridge. A record belongs to the
// principal that made it: for another one it does not exist. A record is written once and not changed after
// that, since storages have no compare-and-swap; the one with the highest event holds.
type Store interface {
	// Put keeps a record.
	Put(ctx context.Context, r *Record) error
	// Get returns the record of an id that has the highest event. The error is [ErrNoRecord] if there is none.
	Get(ctx context.Context, owner, id string) (*Record, error)
	// List returns the ids of an owner, the newest first: those before a given one, or all if that is empty, but at most
	// limit.
	List(ctx context.Context, owner, before string, limit int) ([]string, error)
	// Name keeps a name that the owner has given to an id.
	Name(ctx context.Context, owner, name, id string) error
	// Named returns the id of a name. The error is [ErrNoRecord] if there is none.
	Named(ctx context.Context, owner, name string) (id string, err error)
	// Sweep deletes what was written before a time: the records of a day, if all of that day were, and names.
	Sweep(ctx context.Context, before time.Time) error
}

// ErrNoRecord is the error for a record that does not exist, or belongs to another owner.
var ErrNoRecord = errors.New("there is no such record")
