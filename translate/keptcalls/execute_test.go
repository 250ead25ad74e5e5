package keptcalls_test

import (
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptcalls"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// A call that joins a run waits no longer than its own timeout, and fails then as the first one does, unless it says how long it waits.
func TestJoinedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider()
		end := p.Accept("sum")
		i := start(t, p, ledgertest.New(), nil)
		i.Call("k", "acme.sum", "", waits(0))
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
			a := i.Call("k", "acme.sum", "", func(q *keptcalls.Request) {
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
		expect(t, i.Call("k", "acme.sum", ""), "3", true)
		time.Sleep(time.Minute)
	})
}

// The outcome of a call is that of each further call with its key.
func TestRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		i := start(t, p, s, nil)
		expect(t, i.Call("k", "acme.sum", `{"a":1,"b":2}`), `{"a":1,"b":2}`, false)
		expect(t, i.Call("k", "acme.sum", ` {"b" : 2, "\u0061":1}`), `{"a":1,"b":2}`, true)
		expect(t, i.Call("k", "acme/sum", `{"a":1,"b":2}`), `{"a":1,"b":2}`, true) // the same skill under another name
		expect(t, start(t, p, s, nil).Call("k", "acme.sum", `{"a":1,"b":2}`), `{"a":1,"b":2}`, true)
		p.Received(t, "POST /run/sum", 1)
		expect(t, i.Call("other", "acme.sum", `{"a":1,"b":2}`), `{"a":1,"b":2}`, false)
		bob := i.Call("k", "acme.sum", `{"a":1,"b":2}`, func(q *keptcalls.Request) { q.Owner = bob })
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
		first := start(t, p, s, nil).Call("k", "acme.add", "")
		again := start(t, p, s, nil).Call("k", "acme.add", "{}")
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
		expect(t, i.Call("k", "acme.sum", `{"a":9007199254740993}`), `{"a":9007199254740993}`, false)
		for _, c := range []struct{ skill, args, version string }{
			{"acme.sum", `{"a":9007199254740992}`, ""}, {"acme.sum", `{}`, ""}, {"acme.add", `{"a":9007199254740993}`, ""}, {"acme.sum", `{"a":9007199254740993}`, "2.0.0"},
		} {
			a := i.Call("k", c.skill, c.args, func(q *keptcalls.Request) { q.Call.Version = c.version })
			f := a.Failure
			if f == nil || f.Kind != run.InvalidArguments || f.Argument.Reason != keptcalls.ReasonKeyReused || f.Argument.Name != "idempotency_key" || f.Executed != run.ExecutedNo {
				t.Errorf("%+v: %+v", c, a)
			}
		}
		a := i.Call("k", "acme.nothing", `{"a":9007199254740993}`)
		if a.Failure == nil || a.Failure.Kind != run.SkillNotFound {
			t.Errorf("an unknown name: %+v", a)
		}
		expect(t, i.Call("k", "acme.sum", `{"a":9007199254740993}`, func(q *keptcalls.Request) { q.Call.Version = "1.2.3" }), `{"a":9007199254740993}`, true)
		if n := p.Count("POST"); n != 1 {
			t.Errorf("%d invocations", n)
		}
	})
}

// A call with a key may name the version of its skill again, also the longest that a descriptor may have.
func TestRepeatedWithALongVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider()
		version := "1.0.0-" + strings.Repeat("x", 250)
		p.Publish(providertest.Skill("acme/sum", providertest.Object{"version": version}))
		i := start(t, p, ledgertest.New(), nil)
		named := func(q *keptcalls.Request) { q.Call.Version = version }
		expect(t, i.Call("k", "acme.sum", `{"a":1}`, named), `{"a":1}`, false)
		expect(t, i.Call("k", "acme.sum", `{"a":1}`, named), `{"a":1}`, true)
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
				a := instances[n%2].Call("k", "acme.sum", `{"a":1}`)
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
		go i.Call("k", "acme.sum", "")
		synctest.Wait()
		a := i.Call("k", "acme.sum", "", func(q *keptcalls.Request) { q.Call.Timeout = time.Second })
		if f := a.Failure; f == nil || f.Kind != run.DeadlineExceeded || f.Executed != run.ExecutedMaybe || f.Retry == nil {
			t.Errorf("%+v", a)
		}
		expect(t, i.Call("k", "acme.sum", ""), "3", true)
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
			if a := i.Call("k", "acme.sum", args); a.Failure == nil || a.Failure.Executed != run.ExecutedNo || a.Joined {
				t.Errorf("%+v", a)
			}
		}
		expect(t, i.Call("k", "acme.sum", `{"a":5}`), "3", false) // also with other arguments
		p.Received(t, "POST /run/sum", 2)
	})
}

// While the store does not answer, a call waits for its claim as long as its timeout says. Its key is free when the store answers.
func TestClaimWithinTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider()
		p.On("POST /run/sum", providertest.Completed("e1", 3))
		i := start(t, p, ledgertest.New(), func(c *ledger.Config) { c.Trouble = func(error) {} })
		i.Store.Fail(nil, func(statement string) error {
			if statement == "claim" || statement == "delete" {
				return errors.New("the answer is lost")
			}
			return nil
		})
		began := time.Now()
		a := i.Call("k", "acme.sum", "", func(q *keptcalls.Request) { q.Call.Timeout = time.Second })
		if took := time.Since(began); a.Failure == nil || a.Failure.Executed != run.ExecutedNo || took > time.Second {
			t.Errorf("after %v: %+v", took, a)
		}
		i.Store.Fail(nil, nil)
		time.Sleep(time.Minute)
		expect(t, i.Call("k", "acme.sum", `{"a":5}`), "3", false)
		p.Received(t, "POST /run/sum", 1)
	})
}

// If it is not known whether a submission was executed, the key stays in use, and each call with it says so.
func TestMaybeExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		p.On("POST /run/sum", providertest.Answer(http.StatusOK, `{"execution_id":`), providertest.Completed("e1", 3))
		first := start(t, p, s, nil).Call("k", "acme.sum", "")
		if first.Failure == nil || first.Failure.Executed == run.ExecutedNo {
			t.Fatalf("%+v", first)
		}
		again := start(t, p, s, nil).Call("k", "acme.sum", "")
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
		start(t, p, s, nil).Call("k", "acme.sum", "")
		again := start(t, p, next, nil)
		for range 2 {
			a := again.Call("k", "acme.sum", "")
			if f := a.Failure; f == nil || f.Executed != run.ExecutedMaybe || f.Next() != run.NextNone || f.Kind != run.Stopped {
				t.Errorf("%+v", a)
			}
		}
		p.Received(t, "POST /run/sum", 1)
	})
}

// Arguments are compared with those of another call only if there is one: sorting 4 MB of members takes long.
func TestArgumentsOfRefusedCalls(t *testing.T) {
	i := start(t, provider(), ledgertest.New(), nil)
	args := `{"a":"` + strings.Repeat("x", 4<<20) + `"}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 10 {
		if a := i.Call("k", "acme.none", args); a.Failure == nil || a.Failure.Kind != run.SkillNotFound {
			t.Errorf("%+v", a)
		}
	}
	runtime.ReadMemStats(&after)
	if copied := after.TotalAlloc - before.TotalAlloc; copied > 4<<20+10*uint64(len(args)) { // args, and as the Text of each call
		t.Errorf("%d bytes were allocated", copied)
	}
}

// The receiver of a run is claimed with the run, once and before the provider is called. If that fails, the call is not executed, and its key is free.
func TestReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, db := provider(), ledgertest.New()
		var claimed []*ledger.Entry
		db.Received = func(e *ledger.Entry) {
			p.Received(t, "POST /run/sum", len(claimed))
			own := *e
			claimed = append(claimed, &own)
		}
		i := start(t, p, db, func(c *ledger.Config) { c.Trouble = nil })
		with := func(q *keptcalls.Request) { q.Receiver = &ledger.Receiver{Name: "r", Host: "host"} }
		i.Store.Fail(func(statement string) error {
			if statement == "claim" {
				return &ledger.Unavailable{Err: errors.New("the database is gone")}
			}
			return nil
		}, nil)
		for _, key := range []string{"key", ""} {
			if a := i.Call(key, "acme.sum", `{"a":1}`, with); a.Failure == nil || a.Failure.Executed != run.ExecutedNo {
				t.Fatalf("%+v", a)
			}
		}
		p.Received(t, "POST /run/sum", 0)
		i.Store.Fail(nil, nil)
		i.Call("key", "acme.sum", `{"a":1}`, with)
		i.Call("key", "acme.sum", `{"a":1}`, with)
		i.Call("", "acme.sum", `{"a":1}`, with)
		p.Received(t, "POST /run/sum", 2)
		if len(claimed) != 2 || claimed[0].Owner != owner || claimed[0].State != ledger.Submitting || claimed[1].ID == claimed[0].ID || claimed[1].Receiver.Name != "r" {
			t.Errorf("%+v", claimed)
		}
	})
}
