package keeping

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// ledgers are the ledgers of the process: one for each database.
var ledgers = lifetime.NewPool[*Ledger]()

// Ledger is the ledger of a database, with what delivers the events of its runs. All configurations of the process share it.
type Ledger struct {
	*ledger.Ledger
	DB        *store.DB
	Deliverer *delivery.Deliverer
	Streams   *share.Pool // of tasks of A2A

	mu       sync.Mutex
	settings map[ledger.Follower]ledger.Settings
}

// Ledgers returns all ledgers of the process.
func Ledgers() iter.Seq[*Ledger] { return ledgers.All() }

// HoldLedger takes the ledger of a database from the pool.
func HoldLedger(db *store.DB) (*Ledger, func(), error) {
	warnings := observe.NewWarnings(db.Logger, 2)
	return ledgers.Hold(db, func() (*Ledger, error) {
		runs := db.Runs()
		l := ledger.New(ledger.Config{
			Store:    runs,
			Panicked: func(_ context.Context, value any, stack []byte) { observe.LogPanic(db.Logger(), value, stack) },
			Trouble: func(err error) {
				if _, ok := errors.AsType[*ledger.Unavailable](err); !ok { // the database logs these itself
					warnings.Warn("what is kept about a run can't be read or written", err)
				}
			},
		})
		return &Ledger{Ledger: l, DB: db, Deliverer: delivery.New(runs, l.Subscribe, db.Deliveries()), Streams: new(share.Pool), settings: map[ledger.Follower]ledger.Settings{}}, nil
	})
}

// closeTimeout bounds how long a ledger waits for its last writes, and a deliverer for the requests in progress.
const closeTimeout = 5 * time.Second

// Destruct implements caddy.Destructor. The database is still open: its holders release it later.
func (l *Ledger) Destruct() error {
	for _, end := range []func(context.Context){l.Deliverer.Close, l.Close} {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		end(ctx)
		cancel()
	}
	return nil
}

// FollowWith makes the ledger follow runs by a configuration, from its start until it is used no longer. No other configuration has an equal Follower.
func (l *Ledger) FollowWith(ctx caddy.Context, f ledger.Follower, s ledger.Settings) error {
	if err := lifetime.OnStart(ctx, func() {
		l.set(func() { l.settings[f] = s })
		l.Begin(f)
	}); err != nil {
		return err
	}
	context.AfterFunc(ctx, func() {
		l.End(f)
		l.set(func() { delete(l.settings, f) })
	})
	return nil
}

// set changes the settings, and applies them. Of handlers that share the database, the one that keeps the most decides.
func (l *Ledger) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	var most ledger.Settings
	for _, s := range l.settings {
		most.Keep = max(most.Keep, s.Keep)
		most.Bounds.Runs, most.Bounds.RunsOfOne = max(most.Bounds.Runs, s.Bounds.Runs), max(most.Bounds.RunsOfOne, s.Bounds.RunsOfOne)
	}
	if len(l.settings) > 0 {
		l.Set(most)
	}
}

// Followers returns the configurations that follow runs.
func (l *Ledger) Followers() []ledger.Follower {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.settings))
}
