// Package keptcallstest has instances of the bridge whose runs are kept. It is for tests.
package keptcallstest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptcalls"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Instance is an instance of the bridge with its ledger.
type Instance struct {
	*ledger.Ledger
	T      *testing.T
	Bridge *translate.Bridge
	Store  *ledgertest.Store
	Polls  atomic.Int64 // which its ledger has made

	Canceled *ledger.Cancellations

	mu    sync.Mutex
	ended []string // states of runs that this instance has ended
}

// Lifetime is a little more than the time for which runs are kept.
const Lifetime = 24*time.Hour + time.Millisecond

// The owners of runs.
var (
	Ada = ledger.Owner{Realm: "realm", Principal: "ada"}
	Bob = ledger.Owner{Realm: "realm", Principal: "bob"}
)

// Start starts an instance of a bridge to a provider of the skills sum and add, which have any inputs.
func Start(t *testing.T, p *providertest.Provider, s *ledgertest.DB, change func(*ledger.Config)) *Instance {
	t.Helper()
	return StartWith(t, p, s, change, func(*translate.Config) {})
}

// StartWith is Start with changes of the configuration of the bridge.
func StartWith(t *testing.T, p *providertest.Provider, s *ledgertest.DB, change func(*ledger.Config), bridged func(*translate.Config)) *Instance {
	t.Helper()
	config := providertest.Config(t, p.Source(t, "acme"), catalog.Source{
		Namespace: "other", URL: p.Source(t, "other").URL, Transport: p,
	})
	config.Sources = config.Sources[:1]
	canceled := &ledger.Cancellations{Realm: "realm"}
	config.Kept = canceled.Follow
	bridged(&config)
	bridge, err := translate.New(config)
	if err != nil {
		t.Fatal(err)
	}
	store := s.Instance(true)
	own := ledger.Config{Store: store, Trouble: func(err error) { t.Error(err) }, Panicked: func(_ context.Context, value any, stack []byte) { t.Errorf("%v\n%s", value, stack) }}
	if change != nil {
		change(&own)
	}
	i := &Instance{Ledger: ledger.New(own), T: t, Bridge: bridge, Store: store, Canceled: canceled}
	canceled.Ledger = i.Ledger
	i.Subscribe(func(e *ledger.Entry) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if e.State.Ended() {
			i.ended = append(i.ended, e.State.Run().String())
		}
	})
	i.Begin(i)
	t.Cleanup(func() { i.Close(t.Context()) })
	return i
}

// Provider returns a provider of the skills acme/sum and acme/add.
func Provider() *providertest.Provider {
	p := providertest.New()
	p.Publish(
		providertest.Skill("acme/sum", nil, providertest.Input("a", "integer", nil), providertest.Input("b", "integer", nil)),
		providertest.Skill("acme/add", nil),
	)
	return p
}

// Realm implements [ledger.Follower].
func (i *Instance) Realm() string { return "realm" }

// Poll implements [ledger.Follower].
func (i *Instance) Poll(ctx context.Context, e *ledger.Entry, failing bool) run.Run {
	i.Polls.Add(1)
	return ledger.Poll(ctx, i.Bridge, e, failing, nil)
}

// Granted implements [ledger.Follower].
func (*Instance) Granted(context.Context, string) {}

// View implements [ledger.Follower].
func (i *Instance) View(string) ledger.View { return nil }

// Room implements [ledger.Follower].
func (i *Instance) Room(string) exchange.AnswerBudget { return nil }

// Call executes a skill with a key and arguments.
func (i *Instance) Call(key, skill, args string, change ...func(*keptcalls.Request)) keptcalls.Answer {
	return i.CallIn(context.Background(), key, skill, args, change...)
}

// CallIn is Call with a context.
func (i *Instance) CallIn(ctx context.Context, key, skill, args string, change ...func(*keptcalls.Request)) keptcalls.Answer {
	q := &keptcalls.Request{Owner: Ada, Key: key, Call: translate.Call{
		Caller: run.Caller{Principal: "ada", Front: "test", Method: "execute"}, Name: skill, Inputs: jsonrpc.Object{Text: jsontext.Value(args)},
	}}
	for _, c := range change {
		c(q)
	}
	return keptcalls.Execute(ctx, i.Ledger, i.Bridge, q)
}

// Waits makes a call wait for its run as long.
func Waits(d time.Duration) func(*keptcalls.Request) {
	return func(q *keptcalls.Request) { q.Call.Wait = &d }
}

// Expect fails the test unless an answer has an output.
func Expect(t *testing.T, a keptcalls.Answer, output string, joined bool) {
	t.Helper()
	if a.Failure != nil || a.State != run.Completed || string(a.Output) != output || a.Joined != joined {
		t.Errorf("state %s, output %s, joined %t, failure %v; want %s, joined %t", a.State, a.Output, a.Joined, a.Failure, output, joined)
	}
}

// Ended returns the states of the runs that the instance has ended.
func (i *Instance) Ended() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.ended)
}
