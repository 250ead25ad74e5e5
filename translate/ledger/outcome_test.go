package ledger_test

import (
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// about asks about a run, as get_run does.
func about(i *instance, ref run.Ref, wait time.Duration) run.Run {
	return i.Bridge.Resume(i.T.Context(), ref, translate.Call{Caller: run.Caller{Principal: "ada", Front: "test", Method: "get"}, Wait: &wait}).Wait()
}

// A run has one outcome, also for a call about it, and its provider is asked no more: one may answer with something else, be down, or have no
// URL for it.
func TestOneOutcome(t *testing.T) {
	for _, c := range []struct {
		name    string
		output  string
		prepare func(p *providertest.Provider)
	}{
		{"completed at once", `3`, func(p *providertest.Provider) { p.On("POST /run/sum", providertest.Completed("x-sum", 3)) }},
		{"without an execution id", `3`, func(p *providertest.Provider) {
			p.On("POST /run/sum", providertest.Answer(http.StatusOK, providertest.Object{"status": "completed", "output": 3}))
		}},
		{"followed", `3`, func(p *providertest.Provider) {
			p.Accept("sum")(3)
			p.On("POST /run/sum", providertest.Answer(http.StatusAccepted, providertest.Response("x-sum", "accepted", nil)))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, s := provider(), ledgertest.New()
				c.prepare(p)
				i := start(t, p, s, nil)
				first := i.Call("k", "acme.sum", "")
				expect(t, first, c.output, false)
				for _, route := range []string{"GET /status/x-sum", "GET /result/x-sum"} {
					p.On(route, providertest.Refused(http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE"))
				}
				p.Forget()
				for _, each := range []*instance{i, start(t, p, s, nil)} {
					if o := about(each, first.Ref, 0); o.Failure != nil || o.State != run.Completed || string(o.Output) != c.output || o.ExecutionID != first.ExecutionID {
						t.Errorf("%+v, failure %v", o, o.Failure)
					}
					cancel(each, first.Ref)
					if o := about(each, first.Ref, 0); o.State != run.Completed {
						t.Errorf("after it was canceled: %+v", o)
					}
					expect(t, each.Call("k", "acme.sum", ""), c.output, true)
				}
				if n := p.Count("GET /status") + p.Count("GET /result") + p.Count("POST"); n != 0 {
					t.Errorf("%d requests about a run that has ended", n)
				}
			})
		})
	}
}

// While an outcome can't be read, each call about the run says that it may get it later: with its key, if it is not known whether the skill was executed.
func TestUnreadOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := start(t, provider(), ledgertest.New(), nil)
		for id, next := range map[string]run.Next{"": run.NextRetry, "x1": run.NextFollowRun} {
			e := &ledger.Entry{Owner: owner, ID: "e" + id, State: ledger.Failed, Apart: 1, Ref: run.Ref{ExecutionID: id}}
			if o, ok := i.Ledger.Outcome(t.Context(), e, nil); !ok || o.Failure == nil || o.Failure.Next() != next {
				t.Errorf("%q: %+v", id, o.Failure)
			}
		}
	})
}

// Of two answers of a provider, the first one that is stored is the outcome for all.
func TestTwoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		p.Accept("sum")
		instances := []*instance{start(t, p, s, nil), start(t, p, s, nil), start(t, p, s, nil)}
		i := instances[0]
		for _, each := range instances {
			each.Store.Fail(func(string) error {
				for range 1000 {
					runtime.Gosched() // so that others run between a look at the entries and the storing of one
				}
				return nil
			}, nil)
		}
		begun := i.Call("k", "acme.sum", "", waits(0))
		var group sync.WaitGroup
		answers := make([]run.Run, 6)
		for n := range answers {
			group.Go(func() { answers[n] = about(instances[n%3], begun.Ref, time.Minute) })
		}
		time.Sleep(time.Second)
		var results atomic.Int64
		p.On("GET /result/x-sum", func(w http.ResponseWriter, r *http.Request) {
			providertest.Completed("x-sum", results.Add(1))(w, r)
		})
		p.On("GET /status/x-sum", providertest.Answer(http.StatusOK, providertest.Response("x-sum", "completed", nil)))
		group.Wait()
		last := i.Call("k", "acme.sum", "")
		for _, a := range answers {
			if a.State != run.Completed || string(a.Output) != string(last.Output) {
				t.Errorf("%s %s, and later %s", a.State, a.Output, last.Output)
			}
		}
	})
}
