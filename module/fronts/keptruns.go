package fronts

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/keeping"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/module/store/marks"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// KeptRuns are the runs of a handler in the ledger of its database.
type KeptRuns struct {
	*skillsprotocol.KeptRuns

	deliverer *delivery.Deliverer
	streams   *share.Pool
	follower  *runFollower
	db        *store.DB
}

// Granted says that the user of a principal has connected an account, which is stored: calls and tasks that wait for that go on, at all instances. It
// returns at once.
func (k *KeptRuns) Granted(principal string) {
	if k != nil {
		k.db.Granted()
		k.Ledger.Granted(k.Owner(principal))
	}
}

// Front returns the runs for the front; nil: there are none.
func (k *KeptRuns) Front() *skillsprotocol.KeptRuns {
	if k == nil {
		return nil
	}
	return k.KeptRuns
}

// KeepRuns returns the runs of calls with idempotency keys, and a function that releases them; nil: there is no database. server returns the
// server of the front, whose memory the outputs take while they are read.
func KeepRuns(ctx caddy.Context, s *Setup, db *store.DB, server func() *jsonrpc.Server) (*KeptRuns, func(), error) {
	if db == nil {
		return nil, func() {}, nil
	}
	kept, release, err := keeping.HoldLedger(db)
	if err != nil {
		return nil, nil, err
	}
	f := &runFollower{bridge: s.Bridge, name: s.Name, realm: s.Realm, server: server}
	s.Canceled.Ledger = kept.Ledger
	if err := kept.FollowWith(ctx, f, s.Keeping); err != nil {
		release()
		return nil, nil, err
	}
	return &KeptRuns{&skillsprotocol.KeptRuns{Ledger: kept.Ledger, Owner: f.owner}, kept.Deliverer, kept.Streams, f, db}, release, nil
}

// runFollower follows the kept runs of a handler.
type runFollower struct {
	bridge *translate.Bridge
	name   string // of the handler
	realm  string
	server func() *jsonrpc.Server
	tasks  *a2a.Front // nil: it is not served
}

func (f *runFollower) owner(principal string) ledger.Owner {
	return ledger.Owner{Realm: f.realm, Principal: principal}
}

// Name is that of the handler.
func (f *runFollower) Name() string { return f.name }

// Realm implements [ledger.Follower].
func (f *runFollower) Realm() string { return f.realm }

// Poll implements [ledger.Follower].
func (f *runFollower) Poll(ctx context.Context, e *ledger.Entry, failing bool) run.Run {
	return ledger.Poll(ctx, f.bridge, e, failing, f.Room(e.Owner.Principal))
}

// Room implements [ledger.Follower].
func (f *runFollower) Room(principal string) exchange.AnswerBudget {
	return f.server().Room(principal)
}

// View implements [ledger.Follower].
func (f *runFollower) View(front string) ledger.View {
	if front == a2a.Name && f.tasks != nil {
		return f.tasks
	}
	return nil
}

// Granted implements [ledger.Follower].
func (f *runFollower) Granted(ctx context.Context, principal string) {
	if f.tasks != nil {
		f.tasks.Granted(ctx, principal)
	}
}

// CanceledRuns returns the runs that callers have canceled, for all mounts of a handler whose principals have a realm, and whose run tokens are valid
// for a time. Without a database they are only in memory.
func CanceledRuns(db *store.DB, valid time.Duration, realm string) *ledger.Cancellations {
	if db == nil {
		return &ledger.Cancellations{Realm: realm}
	}
	return &ledger.Cancellations{Realm: realm, Marks: &canceledRuns{db.Marks(), valid, realm, observe.NewWarnings(db.Logger, 2)}}
}

// cancelTimeout bounds how long a call waits until a canceled run is stored. After that, it is stored later.
const cancelTimeout = 2 * time.Second

// canceledRuns are the runs without entries in the ledger that were canceled: marks in the database.
type canceledRuns struct {
	marks    *marks.Marks
	valid    time.Duration
	realm    string
	warnings *observe.Warnings
}

// names returns the names of a principal and of a run. The same principal may be another caller at another handler, and a provider may use an execution
// id again, for another run.
func (c *canceledRuns) names(principal string, ref *run.Ref) (owner, name string) {
	accepted := strconv.FormatInt(ref.Accepted.UnixMilli(), 10)
	return lifetime.NewDigest(c.realm, principal).String(), lifetime.NewDigest(ref.Source, ref.SkillID, accepted, ref.ExecutionID).String()
}

// Add implements [ledger.Marks].
func (c *canceledRuns) Add(ctx context.Context, principal string, ref *run.Ref) *run.Limit {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	owner, name := c.names(principal, ref)
	full, err := c.marks.Add(ctx, owner, name, c.valid)
	if err != nil {
		c.warnings.Warn("a canceled run can't be stored yet: until the database can be used, other instances do not know that it was canceled, nor does this one after a restart", err)
	}
	if full > 0 {
		return &run.Limit{Name: "canceled runs", Max: int64(full)}
	}
	return nil
}

// When implements [ledger.Marks].
func (c *canceledRuns) When(ctx context.Context, principal string, ref *run.Ref) time.Time {
	owner, name := c.names(principal, ref)
	until := c.marks.Until(ctx, owner, name)
	if until.IsZero() {
		return until
	}
	return until.Add(-c.valid)
}

// Next implements [ledger.Marks].
func (c *canceledRuns) Next() <-chan struct{} { return c.marks.Next() }

// WaitingNotifications returns what webhooks of callers were not told yet, of all databases of this process.
func WaitingNotifications(ctx context.Context) (all *delivery.Waiting, unread []Unread) {
	all = &delivery.Waiting{Receivers: []delivery.Receiver{}}
	for kept := range keeping.Ledgers() {
		of, err := kept.DB.Deliveries().Waiting(ctx)
		if err != nil {
			unread = append(unread, Unread{kept.DB, err})
			continue
		}
		all.Waiting += of.Waiting
		if all.Oldest.IsZero() || !of.Oldest.IsZero() && of.Oldest.Before(all.Oldest) {
			all.Oldest = of.Oldest
		}
		all.Receivers = append(all.Receivers, of.Receivers...)
	}
	slices.SortStableFunc(all.Receivers, func(a, b delivery.Receiver) int {
		return cmp.Or(b.Waiting-a.Waiting, strings.Compare(a.Host, b.Host))
	})
	all.Receivers = all.Receivers[:min(len(all.Receivers), delivery.MaxReceivers)]
	return all, unread
}

// Unread is a database that can't be read.
type Unread struct {
	DB  *store.DB
	Err error
}

// Runs returns the runs of a principal (nil: of all owners) in all databases of this process, the newest first, and the Before of the following page; empty:
// there is none.
func Runs(ctx context.Context, q *ledger.Query, principal *string) (page []*ledger.Entry, next string, unread []Unread) {
	for kept := range keeping.Ledgers() {
		owners, err := []*ledger.Owner{nil}, error(nil)
		if principal != nil { // each has an index
			owners, err = kept.DB.Runs().Owners(ctx, *principal)
		}
		for _, owner := range owners {
			list := *q
			list.Owner = owner
			of, after, e := kept.List(ctx, &list, nil)
			page, next, err = append(page, of...), max(next, after), cmp.Or(err, e)
		}
		if err != nil {
			unread = append(unread, Unread{kept.DB, err})
		}
	}
	// What comes after the end of one page is of the following page, also if it is of another one.
	page = slices.DeleteFunc(page, func(e *ledger.Entry) bool { return e.ID < next })
	slices.SortFunc(page, func(a, b *ledger.Entry) int { return strings.Compare(b.ID, a.ID) })
	if len(page) > q.Limit {
		page = page[:q.Limit]
		next = page[q.Limit-1].ID
	}
	return page, next, unread
}

// BridgeNames returns the names of the handlers that keep runs, by their realms.
func BridgeNames() map[string]string {
	names := map[string]string{}
	for kept := range keeping.Ledgers() {
		for _, f := range kept.Followers() {
			if named, ok := f.(interface{ Name() string }); ok {
				names[f.Realm()] = named.Name()
			}
		}
	}
	return names
}

// Receivers returns what the events of a run are delivered to, as far as the databases can be read.
func Receivers(ctx context.Context, run ledger.Identity) (all []*delivery.Delivery) {
	for kept := range keeping.Ledgers() {
		of, _ := kept.DB.Deliveries().Of(ctx, run) // the answer about the run says which can't be read
		all = append(all, of...)
	}
	return all
}
