package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Owner is whose run it is. For another owner it does not exist.
type Owner struct {
	// Realm tells principals of the same name at different handlers apart.
	Realm string
	// Principal is the authenticated user; empty: anonymous callers. A view that divides these into groups, so that each has its own bounds, begins the names
	// of the groups with Group.
	Principal string
}

// Group begins the names of groups of anonymous callers, and no name of a user.
const Group = "\t"

// State is the state of an entry, as a [Store] keeps it: the numbers must not change.
type State uint8

// The states.
const (
	// Submitting is the state of a claim: the provider has not answered the submission yet.
	Submitting State = 0
	// Unknown is the state of a submission whose instance is gone: it is not known whether the skill was executed. The instance may still write
	// the end, if it was only paused.
	Unknown State = 1
	// Waiting is the state of a run that waits for a message of the client or for the operator. It is not followed.
	Waiting State = 2
	// Accepted and Working are the states of a run that its provider has accepted. It is followed.
	Accepted State = 3
	Working  State = 4

	// Completed is the first state that has ended, and never changes.
	Completed State = 16
	Failed    State = 17
	TimedOut  State = 18
	Canceled  State = 19
	// Lost is the state of a run whose end can't be learned.
	Lost State = 20
)

var stateNames = map[State]string{
	Submitting: "submitting", Unknown: "unknown", Waiting: "waiting", Accepted: "accepted", Working: "working",
	Completed: "completed", Failed: "failed", TimedOut: "timed_out", Canceled: "canceled", Lost: "lost",
}

// States returns all states, in their order.
func States() []State { return slices.Sorted(maps.Keys(stateNames)) }

// String returns the name of the state for operators; one of a newer build has its number.
func (s State) String() string { return cmp.Or(stateNames[s], fmt.Sprint("state ", uint8(s))) }

// Ended reports whether the state is final.
func (s State) Ended() bool { return s >= Completed }

// Followed reports whether an instance follows a run in this state.
func (s State) Followed() bool { return s == Accepted || s == Working }

// Entry is a run that outlives its request. An Entry that a [Store] has returned is not changed, but copied.
type Entry struct {
	Owner Owner
	// ID is a UUID of version 7 (RFC 9562), whose time is that of the instance that has made it, for people and for the order of lists.
	ID string
	// Key is a digest of the name that the owner has given to the run, such as an idempotency key; nil: it has none. An owner has one run of a key.
	Key []byte
	// Front is the name of the front that keeps the run.
	Front string
	// Skill is the name under which the skill is listed, and Asked the name in the call.
	Skill, Asked string
	// Ref has no execution id while the provider has not accepted the run. Its Kept is the ID.
	Ref   run.Ref
	State State
	// Follower is the instance that submits or follows the run; empty: none does. Only the Store's Adopt gives it to another one.
	Follower string
	// Args is a digest of the arguments of the call, to tell whether a later call with the key is the same.
	Args []byte
	// Single says that the provider has no URL for asking about the run: its answer to the submission is the only one.
	Single bool
	// Notes are those of the front.
	Notes []byte
	// Label is by what the front lists its entries; the zero value: they are listed by their ids only.
	Label Label
	// Outcome is how the run has ended, as [EncodeOutcome] writes it; nil: it has not, or the outcome is stored apart, or not at all.
	Outcome []byte
	// Apart is the size of an outcome that is stored apart from the entry, in bytes, so that lists don't read it; 0: there is none.
	Apart int64

	// Receiver is to whom the events of the run are delivered from its claim on; nil: to no receiver yet. The claim stores it, and what reads or changes an entry does
	// not have it.
	Receiver *Receiver

	// Version, Created, Changed and Expires are set by the Store, the times by its clock. The version counts from 1.
	Version          int64
	Created, Changed time.Time
	// Expires is when an ended entry is deleted, and when an open one is to be ended.
	Expires time.Time
}

// Receiver is to whom the events of a run are delivered: see package delivery, whose Delivery has what is said here only in short.
type Receiver struct {
	// Name is its name. A run has one receiver of a name.
	Name string
	// Host is that of the URL, and Target is where the events go, in the words of the front.
	Host   string
	Target []byte
	// EndOnly says that only the end of the run is an event.
	EndOnly bool
}

// Label is by what a front lists its entries.
type Label struct {
	// Group is that of entries that belong together, in the words of the front.
	Group string
	// State is the state in the words of the front, and not 0.
	State uint8
	// At is since when, by the clock of the database, in milliseconds.
	At time.Time
}

// MaxInline is the size of the largest outcome that is stored in its entry, in bytes.
const MaxInline = 16 << 10

// Identity identifies an entry.
type Identity struct {
	Owner Owner
	ID    string
}

// Size returns what the entry counts for, in bytes: its notes and its outcome.
func (e *Entry) Size() int64 { return int64(len(e.Notes)) + int64(len(e.Outcome)) + e.Apart }

// Identity returns the identity of the entry.
func (e *Entry) Identity() Identity { return Identity{e.Owner, e.ID} }
