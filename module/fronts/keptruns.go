package fronts

import (
	"context"
	"iter"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/storage"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/callbacks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptruns"
	"github.com/skill-bridge/caddy-skill-bridge/translate/recent"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// keptRunsPool keeps the kept runs over reloads. Its keys are digests of the storage and the identity of the handler.
var keptRunsPool = lifetime.NewPool[*pooledRuns]()

// pooledRuns are the kept runs of a handler in the pool.
type pooledRuns struct {
	*keptruns.Runs
	deliverer *callbacks.Deliverer // of the ends of runs; shared by all configurations
}

// Destruct implements caddy.Destructor.
func (r *pooledRuns) Destruct() error {
	r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), pushTimeout)
	defer cancel()
	r.deliverer.Close(ctx)
	return nil
}

// KeptRuns are the kept runs of a handler.
type KeptRuns struct {
	*skillsprotocol.KeptRuns

	deliverer *callbacks.Deliverer
	follower  *runFollower
}

// Front returns the runs for the front; nil: there are none.
func (k *KeptRuns) Front() *skillsprotocol.KeptRuns {
	if k == nil {
		return nil
	}
	return k.KeptRuns
}

// KeepRuns returns the runs of calls with idempotency keys, and a function that releases them; nil: there is no storage. server returns the
// server of the front, whose memory the outputs take while they are read.
func KeepRuns(ctx caddy.Context, s *Setup, server func() *jsonrpc.Server) (*KeptRuns, func(), error) {
	kept := storage.Of(ctx)
	if kept == nil {
		return nil, func() {}, nil
	}
	warnings := observe.NewWarnings(ctx.Logger(), 2)
	runs, release, err := keptRunsPool.Hold(lifetime.NewDigest(storeIdentity(kept), s.Identity).String(), func() (*pooledRuns, error) {
		store := storage.NewKeptRuns(kept)
		runs := keptruns.New(keptruns.Config{
			Store: store, Running: func(ctx context.Context) iter.Seq2[*run.Record, error] { return storage.Running(ctx, store) }, Panicked: s.Observer.Panicked,
			Trouble: func(err error) {
				warnings.Warn("the record of a run with an idempotency key or a call-back can't be stored or deleted", err)
			},
		})
		return &pooledRuns{runs, callbacks.New(runs, store)}, nil
	})
	if err != nil {
		return nil, nil, err
	}
	runs.Limit(s.Bounds)
	s.Canceled.Kept = &keptRunStates{runs.Runs, s.Realm}
	f := &runFollower{bridge: s.Bridge, realm: s.Realm, server: server, canceled: s.Canceled, deliverer: runs.deliverer}
	if err := lifetime.OnStart(ctx, func() { runs.Begin(f) }); err != nil {
		release()
		return nil, nil, err
	}
	context.AfterFunc(ctx, func() { runs.End(f) }) // no run is followed with a configuration that is used no longer
	return &KeptRuns{&skillsprotocol.KeptRuns{Runs: runs.Runs, Owner: f.owner}, runs.deliverer, f}, release, nil
}

// runFollower follows the kept runs of a handler.
type runFollower struct {
	bridge *translate.Bridge
	realm  func() string
	server func() *jsonrpc.Server

	deliverer *callbacks.Deliverer

	canceled *recent.Canceled
}

var _ keptruns.Follower = (*runFollower)(nil)

func (f *runFollower) owner(principal string) string { return f.realm() + "\n" + principal }

// Owns implements [keptruns.Follower].
func (f *runFollower) Owns(owner string) bool { return strings.HasPrefix(owner, f.realm()+"\n") }

// Resume implements [keptruns.Follower].
func (f *runFollower) Resume(ctx context.Context, ref run.Ref, call translate.Call) translate.Execution {
	return f.bridge.Resume(ctx, ref, call)
}

// Room implements [keptruns.Follower].
func (f *runFollower) Room(principal string) exchange.AnswerBudget {
	return f.server().Room(principal)
}

// Canceled implements [keptruns.Follower].
func (f *runFollower) Canceled(ctx context.Context, principal string, ref *run.Ref) bool {
	return !f.canceled.When(ctx, principal, ref).IsZero()
}

// Ended implements [keptruns.Follower].
func (f *runFollower) Ended(_ context.Context, r *keptruns.Record, _ *run.Run) { f.deliverer.Ended(r) }

// keptRunStates are the states of the kept runs of a handler.
type keptRunStates struct {
	runs  *keptruns.Runs
	realm func() string
}

var _ recent.KeptRuns = (*keptRunStates)(nil)

// State implements [recent.KeptRuns].
func (s *keptRunStates) State(ctx context.Context, principal string, ref *run.Ref) run.State {
	return s.runs.State(ctx, s.realm()+"\n"+principal, ref)
}

// Cancel implements [recent.KeptRuns].
func (s *keptRunStates) Cancel(ctx context.Context, principal string, ref *run.Ref) run.State {
	return s.runs.Cancel(ctx, s.realm()+"\n"+principal, ref)
}
