package ledger_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/internal/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// instance is an instance of the bridge with its ledger.
type instance struct {
	*ledger.Ledger
	t      *testing.T
	bridge *translate.Bridge
	store  *ledgertest.Store

	polls atomic.Int64

	mu    sync.Mutex
	ended []string // states of runs that this instance has ended
}

const lifetime = 24*time.Hour + time.Millisecond

var owner, bob = ledger.Owner{Realm: "realm", Principal: "ada"}, ledger.Owner{Realm: "realm", Principal: "bob"}

// start starts an instance of a bridge to a provider of the skills sum and add, which have any inputs.
func start(t *testing.T, p *providertest.Provider, s *ledgertest.DB, change func(*ledger.Config)) *instance {
	t.Helper()
	config := providertest.Config(t, p.Source(t, "acme"), catalog.Source{
		Namespace: "other", URL: p.Source(t, "other").URL, Transport: p,
	})
	config.Sources = config.Sources[:1]
	var i *instance
	config.Kept = func(ctx context.Context, ref *run.Ref, call *translate.Call) (context.Context, *run.Run, func(run.Run) run.Run) {
		return i.Follow(ctx, ledger.Owner{Realm: "realm", Principal: call.Principal}, ref, call)
	}
	bridge, err := translate.New(config)
	if err != nil {
		t.Fatal(err)
	}
	store := s.Instance(true)
	own := ledger.Config{Store: store, Trouble: func(err error) { t.Error(err) }, Panicked: func(_ context.Context, value any, stack []byte) { t.Errorf("%v\n%s", value, stack) }}
	if change != nil {
		change(&own)
	}
	i = &instance{Ledger: ledger.New(own), t: t, bridge: bridge, store: store}
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

func provider() *providertest.Provider {
	p := providertest.New()
	p.Publish(
		providertest.Skill("acme/sum", nil, providertest.Input("a", "integer", nil), providertest.Input("b", "integer", nil)),
		providertest.Skill("acme/add", nil),
	)
	return p
}

// Realm implements [ledger.Follower].
func (i *instance) Realm() string { return "realm" }

// Poll implements [ledger.Follower].
func (i *instance) Poll(ctx context.Context, e *ledger.Entry) run.Run {
	i.polls.Add(1)
	return ledger.Poll(ctx, i.bridge, e, nil)
}

// Room implements [ledger.Follower].
func (i *instance) Room(string) exchange.AnswerBudget { return nil }

// call executes a skill with a key and arguments.
func (i *instance) call(key, skill, args string, change ...func(*ledger.Request)) ledger.Answer {
	return i.callIn(context.Background(), key, skill, args, change...)
}

func (i *instance) callIn(ctx context.Context, key, skill, args string, change ...func(*ledger.Request)) ledger.Answer {
	q := &ledger.Request{Owner: owner, Key: key, Call: translate.Call{
		Caller: run.Caller{Principal: "ada", Front: "test", Method: "execute"}, Name: skill, Inputs: jsonrpc.Object{Text: jsontext.Value(args)},
	}}
	for _, c := range change {
		c(q)
	}
	return i.Execute(ctx, i.bridge, q)
}

func waits(d time.Duration) func(*ledger.Request) {
	return func(q *ledger.Request) { q.Call.Wait = &d }
}

// expect fails the test unless an answer has an output.
func expect(t *testing.T, a ledger.Answer, output string, joined bool) {
	t.Helper()
	if a.Failure != nil || a.State != run.Completed || string(a.Output) != output || a.Joined != joined {
		t.Errorf("state %s, output %s, joined %t, failure %v; want %s, joined %t", a.State, a.Output, a.Joined, a.Failure, output, joined)
	}
}

// A call that joins a run waits no longer than its own timeout, and fails then as the first one does, unless it says how long it waits.
func TestJoinedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider()
		end := p.Accept("sum")
		i := start(t, p, ledgertest.New(), nil)
		i.call("k", "acme.sum", "", waits(0))
		for name, c := range map[string]struct {
			timeout, wait time.Duration // negative: none
			took          time.Duration
			late          bool
		}{
			"timeout":                  {2 * time.Second, -1, 2 * time.Second, true},
			"neither":                  {-1, -1, 25 * time.Second, true},
			"wait":                     {-1, 3 * time.Second, 3 * time.Second, false},
			"timeout, and longer wait": {2 * time.Second, 3 * time.Second, 2 * time.Second, false},
			"wait, and longer timeout": {4 * time.Second, 3 * time.Second, 3 * time.Second, false},
		} {
			began := time.Now()
			a := i.call("k", "acme.sum", "", func(q *ledger.Request) {
				q.Call.Arrived = time.Now()
				if q.Call.Timeout = max(c.timeout, 0); c.wait >= 0 {
					q.Call.Wait = &c.wait
				}
			})
			if took := time.Since(began); took.Round(time.Second) != c.took || a.ExecutionID != "x-sum" || !a.Joined {
				t.Errorf("%s: after %s: %+v", name, took, a)
			}
			if f := a.Failure; (f != nil) != c.late || f != nil && (f.Kind != run.DeadlineExceeded || f.Timeout != c.took || f.Next() != run.NextFollowRun) {
				t.Errorf("%s: %+v", name, f)
			}
		}
		end(3)
		expect(t, i.call("k", "acme.sum", ""), "3", true)
		time.Sleep(time.Minute)
	})
}

// The outcome of a call is that of each further call with its key.
func TestRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		i := start(t, p, s, nil)
		expect(t, i.call("k", "acme.sum", `{"a":1,"b":2}`), `{"a":1,"b":2}`, false)
		expect(t, i.call("k", "acme.sum", ` {"b" : 2, "\u0061":1}`), `{"a":1,"b":2}`, true)
		expect(t, i.call("k", "acme/sum", `{"a":1,"b":2}`), `{"a":1,"b":2}`, true) // the same skill under another name
		expect(t, start(t, p, s, nil).call("k", "acme.sum", `{"a":1,"b":2}`), `{"a":1,"b":2}`, true)
		p.Received(t, "POST /run/sum", 1)
		expect(t, i.call("other", "acme.sum", `{"a":1,"b":2}`), `{"a":1,"b":2}`, false)
		bob := i.call("k", "acme.sum", `{"a":1,"b":2}`, func(q *ledger.Request) { q.Owner = bob })
		expect(t, bob, `{"a":1,"b":2}`, false)
		p.Received(t, "POST /run/sum", 3)
	})
}

// A run that has failed is an outcome, with what the provider has said.
func TestRepeatedFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		failed := providertest.Response("e1", "failed", nil)
		failed["error"] = providertest.Object{"code": "NO_PAPER", "message": "There is no paper.", "details": providertest.Object{"tray": 2}}
		p.On("POST /run/add", providertest.Answer(http.StatusOK, failed))
		first := start(t, p, s, nil).call("k", "acme.add", "")
		again := start(t, p, s, nil).call("k", "acme.add", "{}")
		if f := again.Failure; f == nil || f.Kind != run.RunFailed || f.Message != first.Failure.Message || f.ProviderSaid().Code != "NO_PAPER" ||
			string(f.ProviderSaid().Details) != `{"tray":2}` || f.Next() != first.Failure.Next() || again.ExecutionID != "e1" || !again.Joined {
			t.Errorf("%+v %+v, want that of %+v", again.Run, f, first.Failure)
		}
		p.Received(t, "POST /run/add", 1)
	})
}

// A key belongs to the skill and the arguments of its first call.
func TestReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider()
		i := start(t, p, ledgertest.New(), nil)
		expect(t, i.call("k", "acme.sum", `{"a":9007199254740993}`), `{"a":9007199254740993}`, false)
		for _, c := range []struct{ skill, args, version string }{
			{"acme.sum", `{"a":9007199254740992}`, ""}, {"acme.sum", `{}`, ""}, {"acme.add", `{"a":9007199254740993}`, ""}, {"acme.sum", `{"a":9007199254740993}`, "2.0.0"},
		} {
			a := i.call("k", c.skill, c.args, func(q *ledger.Request) { q.Call.Version = c.version })
			f := a.Failure
			if f == nil || f.Kind != run.InvalidArguments || f.Argument.Reason != ledger.ReasonKeyReused || f.Argument.Name != "idempotency_key" || f.Executed != run.ExecutedNo {
				t.Errorf("%+v: %+v", c, a)
			}
		}
		a := i.call("k", "acme.nothing", `{"a":9007199254740993}`)
		if a.Failure == nil || a.Failure.Kind != run.SkillNotFound {
			t.Errorf("an unknown name: %+v", a)
		}
		expect(t, i.call("k", "acme.sum", `{"a":9007199254740993}`, func(q *ledger.Request) { q.Call.Version = "1.2.3" }), `{"a":9007199254740993}`, true)
		if n := p.Count("POST"); n != 1 {
			t.Errorf("%d invocations", n)
		}
	})
}

// Of calls with one key at the same instant, at two instances, one is executed.
func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		p.On("POST /run/sum", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			providertest.Answer(http.StatusAccepted, providertest.Response("x-sum", "accepted", nil))(w, r)
		})
		p.On("GET /status/x-sum", providertest.Answer(http.StatusOK, providertest.Response("x-sum", "running", nil)))
		instances := []*instance{start(t, p, s, nil), start(t, p, s, nil)}
		var group sync.WaitGroup
		var joined atomic.Int64
		for n := range 10 {
			group.Go(func() {
				a := instances[n%2].call("k", "acme.sum", `{"a":1}`)
				if a.Joined {
					joined.Add(1)
				}
				expect(t, a, `3`, a.Joined)
			})
		}
		time.Sleep(3 * time.Second)
		p.On("GET /status/x-sum", providertest.Completed("x-sum", 3))
		p.On("GET /result/x-sum", providertest.Completed("x-sum", 3))
		group.Wait()
		p.Received(t, "POST /run/sum", 1)
		if joined.Load() != 9 {
			t.Errorf("%d calls have joined the run", joined.Load())
		}
	})
}

// A call that waits for the submission of an earlier one with its key does so no longer than its timeout.
func TestSlowSubmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider()
		p.On("POST /run/sum", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(5 * time.Second)
			providertest.Completed("e1", 3)(w, r)
		})
		i := start(t, p, ledgertest.New(), nil)
		go i.call("k", "acme.sum", "")
		synctest.Wait()
		a := i.call("k", "acme.sum", "", func(q *ledger.Request) { q.Call.Timeout = time.Second })
		if f := a.Failure; f == nil || f.Kind != run.DeadlineExceeded || f.Executed != run.ExecutedMaybe || f.Retry == nil {
			t.Errorf("%+v", a)
		}
		expect(t, i.call("k", "acme.sum", ""), "3", true)
		p.Received(t, "POST /run/sum", 1)
	})
}

// A submission that was certainly not executed frees its key.
func TestNotExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider()
		p.On("POST /run/sum", providertest.Refused(http.StatusUnauthorized, "AUTH_REQUIRED"), providertest.Completed("e1", 3))
		i := start(t, p, ledgertest.New(), nil)
		for _, args := range []string{`{"a":"x"}`, `{}`} { // the provider refuses the second call
			if a := i.call("k", "acme.sum", args); a.Failure == nil || a.Failure.Executed != run.ExecutedNo || a.Joined {
				t.Errorf("%+v", a)
			}
		}
		expect(t, i.call("k", "acme.sum", `{"a":5}`), "3", false) // also with other arguments
		p.Received(t, "POST /run/sum", 2)
	})
}

// If it is not known whether a submission was executed, the key stays in use, and each call with it says so.
func TestMaybeExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		p.On("POST /run/sum", providertest.Answer(http.StatusOK, `{"execution_id":`), providertest.Completed("e1", 3))
		first := start(t, p, s, nil).call("k", "acme.sum", "")
		if first.Failure == nil || first.Failure.Executed == run.ExecutedNo {
			t.Fatalf("%+v", first)
		}
		again := start(t, p, s, nil).call("k", "acme.sum", "")
		if f := again.Failure; f == nil || f.Executed != first.Failure.Executed || f.Kind != first.Failure.Kind || f.Message != first.Failure.Message || !again.Joined {
			t.Errorf("%+v, want %+v", again, first.Failure)
		}
		p.Received(t, "POST /run/sum", 1)
	})
}

// If a process ends while it submits a call, the next call with the key is not submitted.
func TestLostSubmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		var next *ledgertest.DB
		p.On("POST /run/sum", func(w http.ResponseWriter, r *http.Request) {
			next = s.Copy()
			providertest.Completed("e1", 3)(w, r)
		})
		start(t, p, s, nil).call("k", "acme.sum", "")
		again := start(t, p, next, nil)
		for range 2 {
			a := again.call("k", "acme.sum", "")
			if f := a.Failure; f == nil || f.Executed != run.ExecutedMaybe || f.Next() != run.NextNone || f.Kind != run.Stopped {
				t.Errorf("%+v", a)
			}
		}
		p.Received(t, "POST /run/sum", 1)
	})
}

// A storage that fails prevents the submission.
func TestStorageFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		i := start(t, p, s, nil)
		for _, what := range []string{"count", "claim"} {
			i.store.Fail(func(statement string) error {
				if statement == what {
					return &ledger.Unavailable{Err: errDisk}
				}
				return nil
			}, nil)
			a := i.call("k", "acme.sum", "")
			if f := a.Failure; f == nil || f.Kind != run.Internal || f.Executed != run.ExecutedNo || f.Next() != run.NextRetry || !errors.Is(f, errDisk) {
				t.Errorf("%s: %+v", what, a)
			}
		}
		p.Received(t, "POST /run/sum", 0)
		i.store.Fail(nil, nil)
		expect(t, i.call("k", "acme.sum", ""), "{}", false)
	})
}

var errDisk = errors.New("the disk is gone")

// down lets all statements of an instance fail.
func (i *instance) down() {
	i.store.Fail(func(string) error { return errDisk }, nil)
}

// What can't be stored after the submission is known to this process, and stored later.
func TestStorageFailsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		end := p.Accept("sum")
		var i *instance
		p.On("POST /run/sum", func(w http.ResponseWriter, r *http.Request) {
			i.down()
			providertest.Answer(http.StatusAccepted, providertest.Response("x-sum", "accepted", nil))(w, r)
		})
		var troubles atomic.Int64
		i = start(t, p, s, func(c *ledger.Config) { c.Trouble = func(error) { troubles.Add(1) } })
		if a := i.call("k", "acme.sum", "", waits(0)); a.State != run.Accepted && a.State != run.Working {
			t.Fatalf("%+v", a)
		}
		if troubles.Load() == 0 {
			t.Error("the failure was not reported")
		}
		i.store.Fail(nil, nil)
		if a := i.call("k", "acme.sum", "", waits(0)); a.Failure != nil || a.ExecutionID != "x-sum" || !a.Joined {
			t.Errorf("%+v", a)
		}
		time.Sleep(5 * time.Second)
		if e := s.Entries()[0]; e.State != ledger.Working || e.Ref.ExecutionID != "x-sum" || e.Follower != i.store.Instance() {
			t.Errorf("not stored: %+v", e)
		}
		end(3)
		time.Sleep(time.Minute) // it is followed
		if e := s.Entries()[0]; e.State != ledger.Completed {
			t.Errorf("not followed: %+v", e)
		}
		expect(t, i.call("k", "acme.sum", ""), "3", true)
		time.Sleep(time.Minute)
		expect(t, start(t, p, s, nil).call("k", "acme.sum", ""), "3", true)
		p.Received(t, "POST /run/sum", 1)
	})
}

// The end of a run that could not be stored is stored later, and is its outcome until then, too.
func TestEndIsStoredLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		var i *instance
		p.On("POST /run/sum", func(w http.ResponseWriter, r *http.Request) {
			i.down()
			providertest.Completed("x-sum", 3)(w, r)
		})
		i = start(t, p, s, func(c *ledger.Config) { c.Trouble = func(error) {} })
		expect(t, i.call("k", "acme.sum", ""), "3", false)
		time.Sleep(5 * time.Minute)
		i.store.Fail(nil, nil)
		expect(t, i.call("k", "acme.sum", ""), "3", true) // from memory
		time.Sleep(2 * time.Minute)
		next := start(t, p, s.Copy(), nil)
		expect(t, next.call("k", "acme.sum", ""), "3", true)
		p.Received(t, "POST /run/sum", 1)
		i.mu.Lock()
		defer i.mu.Unlock()
		if len(i.ended) != 1 {
			t.Errorf("ended: %q", i.ended)
		}
	})
}

// A key is free again after 24 hours, and not before.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		i := start(t, p, s, nil)
		expect(t, i.call("k", "acme.sum", ""), "{}", false)
		time.Sleep(lifetime - 2*time.Millisecond)
		expect(t, i.call("k", "acme.sum", ""), "{}", true)
		expect(t, i.call("new", "acme.sum", ""), "{}", false) // deletes what has expired
		time.Sleep(2 * time.Millisecond)
		expect(t, i.call("k", "acme.sum", `{"a":1}`), `{"a":1}`, false)
		p.Received(t, "POST /run/sum", 3)
	})
}

// Arguments are compared with those of another call only if there is one: sorting 4 MB of members takes long.
func TestArgumentsOfRefusedCalls(t *testing.T) {
	i := start(t, provider(), ledgertest.New(), nil)
	args := `{"a":"` + strings.Repeat("x", 4<<20) + `"}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 10 {
		if a := i.call("k", "acme.none", args); a.Failure == nil || a.Failure.Kind != run.SkillNotFound {
			t.Errorf("%+v", a)
		}
	}
	runtime.ReadMemStats(&after)
	if copied := after.TotalAlloc - before.TotalAlloc; copied > 4<<20+10*uint64(len(args)) { // args, and as the Text of each call
		t.Errorf("%d bytes were allocated", copied)
	}
}

// What belongs to a run is stored when the run is claimed and before the provider is called, once. Otherwise the call is not executed, and its key is free.
func TestClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider()
		i := start(t, p, ledgertest.New(), nil)
		var claimed []*ledger.Entry
		fails := errors.New("the database is gone")
		with := func(q *ledger.Request) {
			q.Claimed = func(_ context.Context, e *ledger.Entry) error {
				p.Received(t, "POST /run/sum", len(claimed))
				if fails == nil {
					claimed = append(claimed, e)
				}
				return fails
			}
		}
		for _, key := range []string{"key", ""} {
			if a := i.call(key, "acme.sum", `{"a":1}`, with); a.Failure == nil || a.Failure.Executed != run.ExecutedNo || !errors.Is(a.Failure.Cause, fails) {
				t.Fatalf("%+v", a)
			}
			if a := i.call(key, "acme.sum", `{"a":"x"}`, with); a.Failure == nil || a.Failure.Kind != run.InvalidArguments {
				t.Errorf("%+v", a)
			}
		}
		p.Received(t, "POST /run/sum", 0)
		fails = nil
		i.call("key", "acme.sum", `{"a":1}`, with)
		i.call("key", "acme.sum", `{"a":1}`, with)
		i.call("", "acme.sum", `{"a":1}`, with)
		p.Received(t, "POST /run/sum", 2)
		if len(claimed) != 2 || claimed[0].Version != 1 || claimed[0].Owner != owner || claimed[0].State != ledger.Submitting || claimed[1].ID == claimed[0].ID {
			t.Errorf("%+v", claimed)
		}
	})
}
