package run

import (
	"cmp"
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
	// Standing says whether further records follow.
	Standing Standing
}

// Standing says whether further records of an id follow, which decides about their deletion.
type Standing uint8

// The standings.
const (
	Running Standing = iota // the run goes on
	Waiting                 // the run waits for a message of the client or for the operator
	Final                   // the run has ended; several such records can be stored together
)

// Version identifies a record of an id.
type Version struct {
	Event    uint64
	Standing Standing
}

// Version returns the version of the record.
func (r *Record) Version() Version { return Version{r.Event, r.Standing} }

// Compare orders versions of an id, the older ones first. A final one is newer than all others, since a run that has ended does not go
// on: the event of another instance that did not know the end can have a higher number. Otherwise the event decides, and then the standing.
func (v Version) Compare(other Version) int {
	switch final := v.Standing == Final; {
	case final == (other.Standing == Final):
		return cmp.Or(cmp.Compare(v.Event, other.Event), cmp.Compare(v.Standing, other.Standing))
	case final:
		return 1
	}
	return -1
}

// Store keeps records for fronts whose runs outlive a request. Records survive restarts, and all instances of the bridge can read them. A record
// belongs to the principal that made it: for another one it does not exist. A record is written once and never changed,
// since storages have no compare-and-swap. The record with the newest [Version] has the current state.
type Store interface {
	// Put stores records of one owner. It does not keep their data.
	Put(ctx context.Context, records ...*Record) error
	// Get returns the newest record of an id. The error is [ErrNoRecord] if there is none.
	Get(ctx context.Context, owner, id string) (*Record, error)
	// Newer returns the newest record of an id if it is newer than a version; nil: there is none. It
	// costs one listing of the few records of the id, and reads nothing if there is none. A record that was stored together
	// with others is not found: later events of its id have to be stored alone.
	Newer(ctx context.Context, owner, id string, than Version) (*Record, error)
	// List returns the newest records of the newest ids of an owner, up to most of them, the newest first. It
	// reads only the records that are needed, by their id and version, until ctx ends. An error that is [ErrDamaged] is that of one record: the
	// others follow.
	List(ctx context.Context, owner string, most int, need func(id string, v Version) bool) iter.Seq2[*Record, error]
	// Name stores a name that the owner has given to an id.
	Name(ctx context.Context, owner, name, id string) error
	// Named returns the id of a name. The error is [ErrNoRecord] if there is none.
	Named(ctx context.Context, owner, name string) (id string, err error)
	// Lock waits until no other caller, on any instance, holds the lock of an id of an owner, and then holds it until unlock is
	// called. unlock also works after the context has ended; further calls have no effect. The lock expires some time after
	// its instance has died.
	Lock(ctx context.Context, owner, id string) (unlock func(), err error)
	// Trim deletes what is too old, and what is too much:
	//
	//   - the records of ids whose newest one was written before Bounds.Before, unless the id is open and spare is true for it, or
	//     goes on and another owner has newer records of it: so a front can keep notes about a run as long as the run;
	//   - records that two later events of the same id have made unnecessary;
	//   - records of runs that have ended or wait until the rest is within the bounds: of each owner that has too many ids, and then of
	//     the owner that has the most, by number and then by size. The oldest ended ones of an owner go first, and then its oldest
	//     ones that wait. Records that were stored together are deleted when none of them is within bounds;
	//   - names whose record is gone, and the oldest of ended runs until an owner has no more names than ids.
	//
	// Runs that go on, and waiting ones for which spare is true, are deleted only for their age: the caller bounds them. They do not
	// count as ids, but they count as bytes of their owner. An owner that has no more than its share of the bounds
	// loses nothing: its share is an equal part, and what others leave of theirs.
	Trim(ctx context.Context, b Bounds, spare func(id string) bool) error
}

// Bounds are how much a [Store] may hold.
type Bounds struct {
	IDs, IDsPerOwner int
	Bytes            int64
	// Before is the time before which records are too old; zero: none is.
	Before time.Time
}

// MaxRecord is the size of the largest [Record.Data], in bytes.
const MaxRecord = 32 << 20

// ErrNoRecord is the error for a record that does not exist, or belongs to another owner.
var ErrNoRecord = errors.New("there is no such record")

// ErrDamaged is the error for a record that can't be read since its content is damaged.
var ErrDamaged = errors.New("the record is damaged")
