package ledger

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Config has what a [Ledger] needs.
type Config struct {
	// Store keeps the entries. It is required.
	Store Store
	Settings
	// Trouble is called for failures of the Store that no caller learns.
	Trouble func(err error)
	// Panicked is called after a panic in the background: the value or the stack says where it was.
	Panicked func(ctx context.Context, value any, stack []byte)
}

// Settings are what a reload may change.
type Settings struct {
	// Keep is how long an entry is kept: while it is open, from its claim or its last question on; then from its end. Default: 24 hours.
	Keep time.Duration
	// Bounds are how much is kept. Zero fields have defaults.
	Bounds Bounds
}

// Follower follows runs without a request. It is a configuration of a handler.
type Follower interface {
	// Realm is the [Owner.Realm] of the runs that belong to the Follower.
	Realm() string
	// Poll asks the provider of a run once; see [Poll]. Failing says that the poll before has failed.
	Poll(ctx context.Context, e *Entry, failing bool) run.Run
	// Room returns the memory for an output that is read when no request waits for it; nil: there is no bound.
	Room(principal string) exchange.AnswerBudget
	// Granted goes on with the runs of a principal that wait for what its user has granted now.
	Granted(ctx context.Context, principal string)
	// View returns how a front shows its runs; nil: as the ledger keeps them.
	View(front string) View
}

// Ledger keeps the entries of a [Store]. There is one for each database of a process. It lives as long as the process, and configurations share it.
type Ledger struct {
	// Panicked reports a panic of what keeps a run in the background, like that of the [Config].
	Panicked func(ctx context.Context, value any, stack []byte)
	trouble  func(error)

	ids       run.IDs
	followers run.Serving[string, Follower] // by realm
	usage     usage
	keep      atomic.Int64 // nanoseconds
	lives

	begin  sync.Once
	closed context.Context //nolint:containedctx // of the loops
	close  context.CancelFunc
	loops  sync.WaitGroup
}

// New returns the ledger of a store. It does nothing before the first Begin.
func New(config Config) *Ledger {
	l := &Ledger{trouble: config.Trouble, Panicked: config.Panicked}
	l.store, l.all, l.named = config.Store, map[Identity]*live{}, map[string]*live{}
	l.usage.owners, l.usage.begun = map[Owner]*holding{}, map[Identity]int64{}
	l.closed, l.close = context.WithCancel(context.Background())
	l.usage.guarded, l.usage.count, l.polls.wake, l.pending.wake = (&instance{Ledger: l}).guarded, l.store.Count, make(chan struct{}, 1), make(chan struct{}, 1)
	l.pending.changes, l.pending.removals = map[Identity]*unwritten{}, map[Identity]time.Time{}
	l.Set(config.Settings)
	return l
}

// Set changes the settings.
func (l *Ledger) Set(s Settings) {
	l.usage.set(s.Bounds)
	l.keep.Store(int64(cmp.Or(s.Keep, 24*time.Hour)))
}

// Begin makes the ledger use a Follower. The newest one of a realm is used.
func (l *Ledger) Begin(f Follower) {
	l.followers.Add(f.Realm(), f)
	l.begin.Do((&instance{Ledger: l}).start)
}

// End makes the ledger no longer use a Follower.
func (l *Ledger) End(f Follower) { l.followers.Remove(f.Realm(), f) }

// Room returns the memory for an output that is read for an owner when no request waits for it; nil: there is no bound.
func (l *Ledger) Room(owner Owner) exchange.AnswerBudget {
	if f := l.followers.Of(owner.Realm); f != nil {
		return f.Room(owner.Principal)
	}
	return nil
}

// Granted says that the user of an owner has granted something: runs that wait for it go on, in the background.
func (l *Ledger) Granted(owner Owner) {
	if f := l.followers.Of(owner.Realm); f != nil {
		go (&instance{Ledger: l}).guarded(func() { f.Granted(l.closed, owner.Principal) })
	}
}

// Close ends the loops and the polls, and writes what could not be written yet, until the context ends. Calls in progress go on. The store must be open.
func (l *Ledger) Close(ctx context.Context) {
	l.close()
	l.loops.Wait()
	(&instance{Ledger: l}).writePending(ctx)
}

// Get returns an entry. The error is [ErrNoEntry] if there is none.
func (l *Ledger) Get(ctx context.Context, id Identity) (*Entry, error) {
	if u := l.pending.find(id); u != nil {
		return u.entry, nil
	}
	return l.read(l.store.Get(ctx, id))
}

// read makes an entry that was read the newest known version of it.
func (l *Ledger) read(e *Entry, err error) (*Entry, error) {
	if err == nil {
		l.learn(e, false)
	}
	return e, err
}

// Named returns the entry of a key. The error is [ErrNoEntry] if there is none.
func (l *Ledger) Named(ctx context.Context, owner Owner, key []byte) (*Entry, error) {
	if e := l.pending.named(owner, key); e != nil {
		return e, nil
	}
	return l.read(l.store.Named(ctx, owner, key))
}

// mostRead bounds the entries that are read for a page of a list.
const mostRead = 1000

// List returns entries that match, the newest ones first; nil: all do. next is the Before of the following page; empty: there is none. A page may have
// fewer entries than its limit, or none, although there is a next one.
func (l *Ledger) List(ctx context.Context, q *Query, match func(*Entry) bool) (page []*Entry, next string, err error) {
	part := *q
	for read := 0; read < mostRead; {
		part.Limit = min(max(q.Limit, 100), mostRead-read) // few may match
		found, after, err := l.store.List(ctx, &part)
		if err != nil {
			return nil, "", err
		}
		for i, e := range found {
			if u := l.pending.find(e.Identity()); u != nil {
				e = u.entry
			}
			if match != nil && !match(e) {
				continue
			}
			if page = append(page, e); len(page) == q.Limit && (i < len(found)-1 || after != "") {
				return page, e.ID, nil
			}
		}
		if after == "" || len(found) < part.Limit { // the store has looked at as many as it may
			return page, after, nil
		}
		read, part.Before = read+len(found), after
	}
	return page, part.Before, nil
}
