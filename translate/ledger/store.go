package ledger

import (
	"context"
	"errors"
	"time"
)

// Store keeps entries in a database that instances share. Implementations are safe for concurrent use. Each method is one statement, or one transaction,
// and returns when its writes are durable. An error says that it is not known whether the statement had an effect, unless it is one of the errors below
// or [Unavailable]. The Ref.NotBefore of an entry is by the clock of this instance; it is stored by that of the database.
type Store interface {
	// Instance is the id of this instance, as entries name their followers. It is another one after a lease was lost.
	Instance() string

	// Now returns the time by the clock of the database, as the last renewal of the lease has told it: those of instances may differ by minutes.
	Now() time.Time

	// Claim adds an entry in the state Submitting or a later one, with this instance as its follower, for a time to keep it. If the owner has an entry of
	// its key that is in use, the entry is not added, and present is that one. An entry that has ended and has expired is replaced. To send a claim
	// again after an error is safe: the entry with the same ID is the claim itself, and then present is nil and e has its version. The Receiver is stored
	// with the entry, or neither is. If the database can be read but not written, present is found, too.
	Claim(ctx context.Context, e *Entry, keep time.Duration) (present *Entry, err error)
	// Change replaces the entry that has e.Version, and sets the version and the times of e. ok is false if the entry has another version or is gone, or
	// has ended. Owner, ID, Key, Front and Created never change. An entry that no instance has to submit or follow gets no Follower. outcome is what is to be stored apart; nil: nothing. The time to keep it counts from
	// the change if the entry has ended, is Waiting or was so; else Expires stays as it is, so that what a provider reports does not prolong a run.
	Change(ctx context.Context, e *Entry, outcome []byte, keep time.Duration) (ok bool, err error)
	// Delete deletes a claim of this owner that is Submitting or Unknown, or Waiting as it was claimed. Only who has made the claim may do so, if certainly nothing was executed.
	Delete(ctx context.Context, id Identity) error

	// Get returns an entry. The error is [ErrNoEntry] if there is none. It may have expired, if it is not deleted yet: then there is none, too.
	Get(ctx context.Context, id Identity) (*Entry, error)
	// Named returns the entry of a key of an owner. The error is [ErrNoEntry] if there is none.
	Named(ctx context.Context, owner Owner, key []byte) (*Entry, error)
	// Outcome returns the outcome that is stored apart. Its size is that of the entry. The error is [ErrNoEntry] if there is none.
	Outcome(ctx context.Context, id Identity) ([]byte, error)
	// List returns entries, the newest ids first. next is the Before of the following page; empty: there are no more. A page may have fewer entries than
	// the limit, or none, and a next one: it looks at 1,000 entries at most.
	List(ctx context.Context, q *Query) (page []*Entry, next string, err error)
	// Labelled returns the entries with labels that match, those with the newest At first, and of those with the same At the greatest id.
	Labelled(ctx context.Context, q *LabelQuery) (*LabelPage, error)
	// Unname removes the key of an entry that has ended, so that another entry can have it.
	Unname(ctx context.Context, id Identity) error
	// Evict deletes ended entries with labels of an owner, the oldest ids first, at most as many. Those with events that were not delivered stay for an hour.
	Evict(ctx context.Context, owner Owner, most int) (int, error)
	// Newer returns those of the entries that have another version than the given one, which is older if the database was restored, or that are gone: these have
	// the version 0. It is one statement for all that are waited for. There has to be one at least.
	Newer(ctx context.Context, known map[Identity]int64) ([]*Entry, error)
	// Count counts what an owner has; nil: all owners.
	Count(ctx context.Context, owner *Owner) (Usage, error)

	// Renew renews the lease of this instance. lost says that it had ended: others may have adopted its runs, and Instance is another one now.
	Renew(ctx context.Context) (lost bool, err error)
	// Adopt makes an instance, which is this one, the follower of runs of some realms whose instances are gone, at most as many, and returns them. Submissions
	// are Unknown then, and have no follower. An instance can follow only the runs of the handlers that it has. It gets none if its own lease has less than its
	// half left when the statement is executed: then the database could not be reached for a while, and others that live may have had no time to renew theirs.
	// Nor does it if this instance has become another one since the caller looked at its lease.
	Adopt(ctx context.Context, instance string, realms []string, most int) ([]*Entry, error)
	// Overdue returns open entries that have expired, which have to be ended, at most as many.
	Overdue(ctx context.Context, most int) ([]*Entry, error)
	// Expire deletes ended entries that have expired, at most as many, and returns how many it has deleted.
	Expire(ctx context.Context, most int) (int, error)

	// Announce tells other instances which entries have changed, by their ids, as far as the database can. It does not wait. ok is false if they don't hear
	// it, as far as this instance can say.
	Announce(ids []string) (ok bool)
	// Changes returns a channel of the ids of entries that other instances have announced. They are hints: ids that no request waits for are among them. A nil
	// slice says that some may have been missed, so that all that are waited for have to be looked at. The channel is never closed.
	Changes() <-chan []string
}

// Query selects entries for a list.
type Query struct {
	// Owner is whose entries are listed; nil: those of all owners, which is for the operator only. An index serves that, too.
	Owner *Owner
	// Operator selects among the entries of all owners.
	Operator Selection
	// Before is the id after which the page begins, since the newest ones are first; empty: with the newest.
	Before string
	// States are the wanted states; empty: all.
	States []State
	// Fronts are the wanted fronts; empty: all.
	Fronts []string
	// Limit is how many entries are returned at most.
	Limit int
}

// Selection selects entries of all owners; its zero fields select all.
type Selection struct {
	ID    string
	Skill string // the name under which it is listed
}

// Usage is how much is stored.
type Usage struct {
	Entries int
	Bytes   int64 // of notes and outcomes
}

// ErrNoEntry is the error for an entry that does not exist, has expired, or belongs to another owner.
var ErrNoEntry = errors.New("there is no such run")

// Unavailable is the error of a [Store] whose database can't be used: nothing was read or written.
type Unavailable struct { //nolint:errname // it is a state of the database first
	// Advice says what the operator has to do.
	Advice string
	// Full says that the database can be read but not written, since it is read-only or full.
	Full bool
	Err  error
}

// Error implements error.
func (u *Unavailable) Error() string { return u.Err.Error() }

// Unwrap returns the error of the database.
func (u *Unavailable) Unwrap() error { return u.Err }
