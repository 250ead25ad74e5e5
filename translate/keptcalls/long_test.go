package keptcalls_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/keptcallstest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptcalls"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/quota"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// reports are the calls that a bridge has reported.
type reports struct {
	mu    sync.Mutex
	calls []string
}

func (*reports) Begin(ctx context.Context, _ *translate.Call) context.Context { return ctx }
func (*reports) Exchange(context.Context, *exchange.Exchange)                 {}
func (*reports) Notice(context.Context, *exchange.Notice)                     {}

func (r *reports) Called(_ context.Context, c *translate.Call, o *run.Run, _ *translate.Statistics) {
	r.mu.Lock()
	defer r.mu.Unlock()
	outcome := o.State.String()
	if o.Failure != nil && o.Failure.Kind != run.RunFailed {
		outcome = o.Failure.Kind.String()
	}
	r.calls = append(r.calls, c.Method+" "+outcome)
}

func (r *reports) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

func unattended(q *keptcalls.Request) { q.Call.Unattended, q.Call.Wait = true, new(time.Duration) }

// A run of three days that nobody waits for, with a short maximum timeout, is followed to its end over reloads, and by another instance when its own has
// ended. Its provider is told no timeout, and asked less and less often. The polls are reported only when something changes, and the run counts under the
// quota of its caller as long as it goes on.
func TestLongRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, db := providertest.New(), ledgertest.New()
		skill := providertest.Skill("acme/sum", providertest.Object{"endpoint": providertest.Object{"timeout_ms": nil}})
		p.Publish(skill, providertest.Skill("acme/add", nil))
		end := p.Accept("sum")
		reported := [2]reports{}
		join := func(n int) *instance {
			keep := func(c *ledger.Config) { c.Keep = 4 * 24 * time.Hour }
			return keptcallstest.StartWith(t, p, db, keep, func(c *translate.Config) {
				c.MaxTimeout, c.Observer = 30*time.Second, &reported[n]
				c.Quotas = quota.New(&quota.Rules{List: []quota.Rule{{Principal: "ada", Skills: "*", Concurrent: 1}}}, quota.NewCounters(nil))
			})
		}
		a, b := join(0), join(1)
		if x := a.Call("k", "acme.sum", "", unattended); x.Failure != nil || x.ExecutionID != "x-sum" {
			t.Fatalf("%+v", x)
		}
		if body := p.Requests("POST /run/sum")[0].Body; strings.Contains(body, "timeout_ms") {
			t.Errorf("the provider is told a timeout: %s", body)
		}
		follower := a
		for hour := range 24 {
			time.Sleep(time.Hour)
			if x := a.Call(fmt.Sprint(hour), "acme.add", ""); x.Failure == nil || x.Failure.Kind != run.RateLimited {
				t.Fatalf("after %d hours, the run does not count under the quota: %+v", hour+1, x)
			}
			reloaded := &instance{T: t, Bridge: a.Bridge}
			a.Begin(reloaded)
			a.End(follower)
			follower = reloaded
		}
		a.End(follower)
		a.Close(t.Context())
		time.Sleep(46 * time.Hour)
		if len(b.Ended()) != 0 || b.Polls.Load() == 0 {
			t.Errorf("the other instance has made %d polls, and ended %q", b.Polls.Load(), b.Ended())
		}
		end(3)
		time.Sleep(time.Hour)
		expect(t, b.Call("k", "acme.sum", "", unattended), "3", true)
		if x := b.Call("new", "acme.add", ""); x.Failure != nil {
			t.Errorf("after the end: %+v", x)
		}
		if ended := slices.Concat(a.Ended(), b.Ended()); len(ended) != 2 || ended[0] != "completed" { // of both calls
			t.Errorf("ended: %q", ended)
		}
		p.Received(t, "POST /run/sum", 1)
		if n := p.Count("GET /status/x-sum"); n < 100 || n > 520 {
			t.Errorf("%d polls", n)
		}
		var polls []string
		for n := range reported {
			for _, c := range reported[n].list() {
				if strings.HasPrefix(c, ledger.MethodFollow) {
					polls = append(polls, c)
				}
			}
		}
		if !slices.Equal(polls, []string{"follow completed"}) {
			t.Errorf("reported: %q", polls)
		}
	})
}

// Of polls that fail, the first one is reported, and the next one after a poll that does not.
func TestTroubleIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, reported := provider(), &reports{}
		end := p.Accept("sum")
		i := keptcallstest.StartWith(t, p, ledgertest.New(), nil, func(c *translate.Config) { c.Observer = reported })
		i.Call("k", "acme.sum", "", unattended)
		for range 2 {
			time.Sleep(time.Hour)
			p.On("GET /status/x-sum", providertest.Answer(503, "{}"))
			time.Sleep(time.Hour)
			p.Accept("sum")
		}
		time.Sleep(time.Hour)
		p.On("GET /skills/0.json", providertest.Answer(404, "{}"))
		time.Sleep(3 * time.Hour) // the descriptor is fresh for a time
		p.On("GET /skills/0.json")
		end(3)
		time.Sleep(time.Hour)
		want := []string{"follow unreachable", "follow unreachable", "follow provider_fault", "follow completed"}
		if polls := slices.DeleteFunc(reported.list(), func(c string) bool { return !strings.HasPrefix(c, ledger.MethodFollow) }); !slices.Equal(polls, want) {
			t.Errorf("reported: %q, want %q", polls, want)
		}
	})
}
