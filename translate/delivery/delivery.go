package delivery

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// Delivery is a receiver of the events of a run.
type Delivery struct {
	Run ledger.Identity
	// Receiver is its name. A run has one receiver of a name.
	Receiver string
	// Front is that of the run.
	Front string
	// Host is that of the URL, as webhook.HostOf returns it.
	Host string
	// Target is where the events go, in the words of the front.
	Target []byte
	// EndOnly says that only the end of the run is an event, or that the end can't be learned. Such a delivery is removed when nothing more is sent. Others
	// stay, with the Cursor Over, until they are removed or the run is.
	EndOnly bool
	// Cursor is the last version of the run that the receiver has got, or that had nothing for it.
	Cursor int64
	// Tries counts the requests that have failed since one was successful.
	Tries int
	// Version is set by the [Store]. It changes with each change and each claim.
	Version int64
	// Next is when the delivery is due or its claim ends, and Since is since when an event waits. No Next: nothing waits, and Since says nothing. The Store sets
	// them, as when it reads or claims the delivery.
	Next, Since time.Time
	// Claimed says that an instance is sending what waits. The Store sets it like Next.
	Claimed bool
}

// Over is the cursor of a delivery for which nothing more is sent.
const Over int64 = math.MaxInt64

// Bounds are the largest numbers of deliveries; 0: there is no bound. Of those that are added at once, some more may find a place.
type Bounds struct{ OfRun, OfOwner int }

// ErrTooMany is the error of an addition beyond the [Bounds].
var ErrTooMany = errors.New("there are too many receivers")

// Key identifies a delivery.
type Key struct {
	Run      ledger.Identity
	Receiver string
}

// Served are the runs of a front in a realm.
type Served struct{ Realm, Front string }

// Served returns what serves the delivery.
func (d *Delivery) Served() Served { return Served{d.Run.Owner.Realm, d.Front} }

// Idle is the time in [Store.Settle] of a delivery that is due when its run has news.
const Idle time.Duration = -1

// Store keeps deliveries in the database of the ledger, whose instances share it. Implementations are safe for concurrent use. Each method is one statement,
// or one transaction. An error says that it is not known whether it had an effect. All times are of the store's clock.
//
// A run has news for a delivery if it has a newer version than the Cursor, and has ended or is [ledger.Unknown] if the delivery is EndOnly. A
// delivery is either idle, due at a time, or claimed until a time, after which it is due.
type Store interface {
	// Add adds an idle delivery, or replaces the one of the run and receiver. The claim of that ends. The delivery is removed with its run, which must exist. The
	// error is [ErrTooMany] if it is a new one beyond the bounds.
	Add(ctx context.Context, d *Delivery, most Bounds) error
	// Remove removes a delivery, if there is one.
	Remove(ctx context.Context, k Key) error
	// Of returns the deliveries of a run, in the order of their receivers.
	Of(ctx context.Context, run ledger.Identity) ([]*Delivery, error)

	// Take claims, for a time, the deliveries of some runs that are idle or due, and for which the runs have news.
	Take(ctx context.Context, runs []ledger.Identity, claim time.Duration) ([]*Delivery, error)
	// Claim claims, for a time, the deliveries that have been due the longest, of those that are served, at most as many.
	Claim(ctx context.Context, served []Served, most int, claim time.Duration) ([]*Delivery, error)

	// Extend makes the claim of a delivery last for a time from now. ok is false if the delivery has another version.
	Extend(ctx context.Context, d *Delivery, claim time.Duration) (ok bool, err error)
	// Settle ends the claim of a delivery and stores its Cursor and Tries. It is due after a time, or [Idle]; but if it is idle and the run has news, it is
	// due at once, and due is true. If it has another version, Settle has no effect.
	Settle(ctx context.Context, d *Delivery, after time.Duration) (due bool, err error)
	// Defer ends the claims of deliveries, unless they have other versions, and makes each due after its time.
	Defer(ctx context.Context, ds []*Delivery, after []time.Duration) error
	// Done removes a delivery if it has its version.
	Done(ctx context.Context, d *Delivery) error

	// Unheard looks at a number of deliveries, those after one in the order of the store, and returns the runs of the idle ones that have news for them. next
	// is where the following look begins; the zero value: at the beginning.
	Unheard(ctx context.Context, after Key, looks int) (runs []ledger.Identity, next Key, err error)
	// Waiting returns the deliveries that are not idle.
	Waiting(ctx context.Context) (*Waiting, error)
}

// Waiting are events that are not delivered yet, for the operator.
type Waiting struct {
	// Waiting counts the deliveries with such events.
	Waiting int `json:"waiting"`
	// Oldest is since when the first one waits.
	Oldest time.Time `json:"oldest,omitzero"`
	// Receivers are those with the most, at most 100.
	Receivers []Receiver `json:"receivers"`
}

// MaxReceivers bounds Waiting.Receivers.
const MaxReceivers = 100

// Receiver is a host to which deliveries of one owner go.
type Receiver struct {
	Host      string    `json:"host"`
	Principal string    `json:"principal,omitempty"`
	Waiting   int       `json:"waiting"`
	Oldest    time.Time `json:"oldest"`
	// Next is when the next request is due; none: now.
	Next time.Time `json:"next,omitzero"`
}
