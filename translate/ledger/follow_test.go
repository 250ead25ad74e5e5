package ledger_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptcalls"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// The run of a caller that has hung up is followed to its end, also while its provider can't be reached, and its outcome is stored.
func TestFollowed(t *testing.T) {
	for name, leave := range map[string]func(i *instance){
		"hung up": func(i *instance) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(time.Second, cancel)
			if a := i.CallIn(ctx, "k", "acme.sum", ""); a.Failure == nil || a.Failure.Kind != run.CallerGone {
				i.T.Errorf("%+v", a)
			}
		},
		"timeout": func(i *instance) {
			a := i.Call("k", "acme.sum", "", func(q *keptcalls.Request) { q.Call.Timeout = time.Second })
			if a.Failure == nil || a.Failure.Kind != run.DeadlineExceeded || a.ExecutionID != "x-sum" {
				i.T.Errorf("%+v", a)
			}
		},
		"wait is over": func(i *instance) {
			if a := i.Call("k", "acme.sum", "", waits(time.Second)); a.Failure != nil || a.State.Ended() || a.ExecutionID != "x-sum" {
				i.T.Errorf("%+v", a)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, s := provider(), ledgertest.New()
				end := p.Accept("sum")
				i := start(t, p, s, nil)
				leave(i)
				p.On("GET /status/x-sum", providertest.Answer(http.StatusServiceUnavailable, "{}"))
				time.Sleep(40 * time.Minute) // longer than the maximum timeout of a call
				end(3)
				time.Sleep(5 * time.Minute)
				if !slices.Equal(i.Ended(), []string{"completed"}) {
					t.Errorf("ended: %q", i.Ended())
				}
				p.Forget()
				expect(t, start(t, p, s, nil).Call("k", "acme.sum", ""), "3", true)
				if n := p.Count("POST") + p.Count("GET /status"); n != 0 {
					t.Errorf("%d requests after the end", n)
				}
			})
		})
	}
}

// That a provider does not know a run yet, or has no output of it yet, is not its outcome, unless it lasts.
func TestKnownLate(t *testing.T) {
	done := providertest.Answer(http.StatusOK, providertest.Response("x-sum", "completed", nil))
	unknown, down := providertest.Answer(http.StatusNotFound, "{}"), providertest.Answer(http.StatusInternalServerError, "{}")
	for name, c := range map[string]struct {
		status, result http.HandlerFunc
		late           time.Duration
		ended          string
	}{
		"soon":                {unknown, nil, time.Second, "completed"},
		"later":               {unknown, nil, 25 * time.Second, "completed"},
		"never":               {unknown, nil, time.Hour, "lost"},
		"output":              {done, unknown, 25 * time.Second, "completed"},
		"no output":           {done, unknown, time.Hour, "lost"},
		"broken":              {down, nil, 5 * time.Minute, "completed"},
		"output, then broken": {done, down, 5 * time.Minute, "completed"},
	} {
		for _, wait := range []time.Duration{0, 2 * time.Second, time.Minute} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, s := provider(), ledgertest.New()
					end := p.Accept("sum")
					p.On("GET /status/x-sum", c.status)
					p.On("GET /result/x-sum", c.result)
					time.AfterFunc(c.late, func() { end(3) })
					i := start(t, p, s, nil)
					if a := i.Call("k", "acme.sum", "", waits(wait)); c.ended == "completed" && a.Failure != nil && a.Failure.Next() != run.NextFollowRun {
						t.Errorf("%+v", a)
					}
					time.Sleep(15 * time.Minute)
					if !slices.Equal(i.Ended(), []string{c.ended}) {
						t.Errorf("ended: %q, want %s", i.Ended(), c.ended)
					}
					p.Received(t, "POST /run/sum", 1)
				})
			})
		}
	}
}

// A caller that hangs up before anything is sent leaves its key free.
func TestGoneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider()
		i := start(t, p, ledgertest.New(), nil)
		p.On("GET /skills/0.json", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			p.Descriptor(providertest.Skill("acme/sum", nil))(w, r)
		})
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Millisecond, cancel)
		if a := i.CallIn(ctx, "k", "acme.sum", ""); a.Failure == nil || a.Failure.Kind != run.CallerGone {
			t.Errorf("%+v", a)
		}
		time.Sleep(time.Minute)
		p.Received(t, "POST /run/sum", 0)
		expect(t, i.Call("k", "acme.sum", ""), "{}", false)
	})
}

// A run whose skill can't be found is followed on, whatever the reason. It is lost when its time is over, and its outcome says why. Callers learn meanwhile
// that it can't be followed.
func TestSkillIsMissing(t *testing.T) {
	const index, descriptor = "GET /.well-known/skill-sharing", "GET /skills/0.json"
	gone := providertest.Answer(http.StatusNotFound, "{}")
	for reason, c := range map[string]struct {
		hide func(p *providertest.Provider)
		says string
	}{
		"not listed":    {func(p *providertest.Provider) { p.Publish(providertest.Skill("acme/add", nil)) }, "no longer offered"},
		"no index":      {func(p *providertest.Provider) { p.On(index, gone) }, "follows it no longer"}, // it is not known whether there is the skill
		"no descriptor": {func(p *providertest.Provider) { p.On(descriptor, gone) }, "no longer offered"},
	} {
		for _, back := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, back %t", reason, back), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, s := provider(), ledgertest.New()
					end := p.Accept("sum")
					first := start(t, p, s, nil)
					first.Call("k", "acme.sum", "", waits(0))
					first.Close(t.Context())
					c.hide(p)
					i := start(t, p, s, nil)
					if a := i.Call("k", "acme.sum", "", waits(0)); a.Failure == nil || !a.Joined {
						t.Errorf("%+v", a)
					}
					time.Sleep(20 * time.Hour)
					if end(3); back {
						p.On(index)
						p.On(descriptor)
						p.Publish(providertest.Skill("acme/sum", nil), providertest.Skill("acme/add", nil))
						time.Sleep(time.Hour)
						expect(t, i.Call("k", "acme.sum", ""), "3", true)
						return
					}
					time.Sleep(5 * time.Hour)
					if a := i.Call("k", "acme.sum", ""); a.Failure == nil || !a.Failure.Lost || a.Failure.Executed != run.ExecutedYes || !strings.Contains(a.Failure.Message, c.says) {
						t.Errorf("%+v, want: %s", a.Failure, c.says)
					}
					if polls := i.Polls.Load(); polls > 300 || !slices.Equal(i.Ended(), []string{"lost"}) {
						t.Errorf("%d polls, ended: %q", polls, i.Ended())
					}
					p.Received(t, "POST /run/sum", 1)
				})
			})
		}
	}
}

// The next process follows a run from its record.
func TestRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		end := p.Accept("sum")
		first := start(t, p, s, nil)
		first.Call("k", "acme.sum", "", waits(0))
		next := start(t, p, s.Copy(), nil)
		if a := next.Call("k", "acme.sum", "", waits(time.Second)); a.Failure != nil || a.State != run.Working || !a.Joined {
			t.Errorf("%+v", a)
		}
		end(3)
		time.Sleep(time.Minute) // without a request
		if !slices.Equal(next.Ended(), []string{"completed"}) {
			t.Errorf("ended: %q", next.Ended())
		}
		p.Received(t, "POST /run/sum", 1)
	})
}

// A run is followed by the newest configuration, and by none when there is none.
func TestReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider()
		end := p.Accept("sum")
		i := start(t, p, ledgertest.New(), nil)
		i.Call("k", "acme.sum", "", waits(0))
		p.On("GET /status/x-sum", providertest.Answer(http.StatusServiceUnavailable, "{}"))
		time.Sleep(31 * time.Minute)
		next := &instance{T: t, Bridge: i.Bridge}
		i.Begin(next)
		i.End(i)
		end(3)
		time.Sleep(31 * time.Minute)
		if polls := next.Polls.Load(); len(i.Ended()) != 1 || polls == 0 || i.Polls.Load() == 0 {
			t.Errorf("ended: %q, after %d polls", i.Ended(), polls)
		}
		p.Accept("add")
		i.Call("l", "acme.add", "", waits(0))
		i.End(next)
		time.Sleep(31 * time.Minute)
		p.Forget()
		time.Sleep(2 * time.Hour)
		if n := p.Count(""); n != 0 {
			t.Errorf("%d requests without a configuration", n)
		}
	})
}
