package fronts

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// ledgers are the ledgers of the process: one for each database.
var ledgers = lifetime.NewPool[*pooledLedger]()

// pooledLedger is the ledger of a database, with what delivers the events of its runs. All configurations of the process share it.
type pooledLedger struct {
	*ledger.Ledger
	db        *store.DB
	deliverer *delivery.Deliverer
	streams   *share.Pool // of tasks of A2A

	mu       sync.Mutex
	settings map[*runFollower]ledger.Settings
}

// closeTimeout bounds how long a ledger waits for its last writes, and a deliverer for the requests in progress.
const closeTimeout = 5 * time.Second

// Destruct implements caddy.Destructor. The database is still open: its holders release it later.
func (l *pooledLedger) Destruct() error {
	for _, end := range []func(context.Context){l.deliverer.Close, l.Close} {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		end(ctx)
		cancel()
	}
	return nil
}

// begin makes the ledger follow runs by a configuration.
func (l *pooledLedger) begin(f *runFollower, s ledger.Settings) {
	l.mu.Lock()
	l.settings[f] = s
	l.set()
	l.mu.Unlock()
	l.Begin(f)
}

// end ends that.
func (l *pooledLedger) end(f *runFollower) {
	l.End(f)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.settings, f)
	l.set()
}

// set applies the settings. Of handlers that share the database, the one that keeps the most decides.
func (l *pooledLedger) set() {
	var most ledger.Settings
	for s := range maps.Values(l.settings) {
		most.Keep = max(most.Keep, s.Keep)
		most.Bounds.Runs, most.Bounds.RunsOfOne = max(most.Bounds.Runs, s.Bounds.Runs), max(most.Bounds.RunsOfOne, s.Bounds.RunsOfOne)
	}
	if len(l.settings) > 0 {
		l.Set(most)
	}
}

// KeptRuns are the runs of a handler in the ledger of its database.
type KeptRuns struct {
	*skillsprotocol.KeptRuns

	deliverer *delivery.Deliverer
	streams   *share.Pool
	follower  *runFollower
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
	warnings := observe.NewWarnings(ctx.Logger(), 2)
	kept, release, err := ledgers.Hold(db, func() (*pooledLedger, error) {
		runs := db.Runs()
		l := ledger.New(ledger.Config{
			Store: runs, Panicked: s.Observer.Panicked,
			Trouble: func(err error) {
				if _, ok := errors.AsType[*ledger.Unavailable](err); !ok { // the database logs these itself
					warnings.Warn("what is kept about a run can't be read or written", err)
				}
			},
		})
		return &pooledLedger{Ledger: l, db: db, deliverer: delivery.New(runs, l.Subscribe, db.Deliveries()), streams: new(share.Pool), settings: map[*runFollower]ledger.Settings{}}, nil
	})
	if err != nil {
		return nil, nil, err
	}
	f := &runFollower{bridge: s.Bridge, name: s.Name, realm: s.Realm, server: server}
	s.Canceled.Kept = &keptRunStates{kept.Ledger, f}
	if err := lifetime.OnStart(ctx, func() { kept.begin(f, s.Keeping) }); err != nil {
		release()
		return nil, nil, err
	}
	context.AfterFunc(ctx, func() { kept.end(f) }) // no run is followed with a configuration that is used no longer
	return &KeptRuns{&skillsprotocol.KeptRuns{Ledger: kept.Ledger, Owner: f.owner}, kept.deliverer, kept.streams, f}, release, nil
}

// runFollower follows the kept runs of a handler.
type runFollower struct {
	bridge *translate.Bridge
	name   string // of the handler
	realm  string
	server func() *jsonrpc.Server
	tasks  ledger.View // of A2A; nil: it is not served
}

var _ ledger.Follower = (*runFollower)(nil)

func (f *runFollower) owner(principal string) ledger.Owner {
	return ledger.Owner{Realm: f.realm, Principal: principal}
}

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
	if front == a2a.Name {
		return f.tasks
	}
	return nil
}

// keptRunStates are the states of the kept runs of a handler.
type keptRunStates struct {
	runs     *ledger.Ledger
	follower *runFollower
}

var _ runtoken.KeptRuns = (*keptRunStates)(nil)

// State implements [runtoken.KeptRuns].
func (s *keptRunStates) State(ctx context.Context, principal string, ref *run.Ref) (state run.State, since time.Time) {
	e, err := s.runs.Of(ctx, s.follower.owner(principal), ref)
	if err != nil {
		return 0, time.Time{}
	}
	return e.State.Run(), e.Changed
}

// Cancel implements [runtoken.KeptRuns].
func (s *keptRunStates) Cancel(ctx context.Context, principal string, ref *run.Ref) (run.State, error) {
	e, err := s.runs.Of(ctx, s.follower.owner(principal), ref)
	if err == nil {
		defer s.runs.OnChange(e, func(*ledger.Entry) {})() // so that it is not read again
		e, err = s.runs.Cancel(context.WithoutCancel(ctx), e.Identity())
	}
	switch {
	case errors.Is(err, ledger.ErrNoEntry):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return e.State.Run(), nil
}
