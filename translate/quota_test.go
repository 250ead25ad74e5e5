package translate_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/quota"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// withQuotas sets rules that bound each caller.
func withQuotas(rules ...quota.Rule) func(*translate.Config) {
	return func(c *translate.Config) {
		c.Quotas = quota.New(&quota.Rules{List: rules}, quota.NewCounters(nil))
	}
}

// callOf is a call of alice.
func callOf(name, args string) translate.Call {
	return translate.Call{Caller: run.Caller{Principal: "alice"}, Name: name, Inputs: jsonrpc.Object{Text: jsontext.Value(args)}}
}

// overQuota checks the failure of a call beyond a quota.
func overQuota(t *testing.T, o run.Run, details string) {
	t.Helper()
	if f := o.Failure; f == nil || f.Kind != run.RateLimited || f.Next() != run.NextRetry || f.Executed != run.ExecutedNo || f.By != run.Bridge ||
		front.Retry(f) == nil || string(front.Details(f)) != details {
		t.Errorf("got %+v, want a call beyond the quota %s", o.Failure, details)
	}
}

func succeeds(t *testing.T, o run.Run) {
	t.Helper()
	if o.Failure != nil {
		t.Errorf("%+v", o.Failure)
	}
}

// TestQuotaOfRuns: only runs that may have begun count, and the callers and skills that a rule does not name are not bounded.
func TestQuotaOfRuns(t *testing.T) {
	const city = `{"city":"Tokyo"}`
	p, acme := weather(t, nil)
	p.On("POST /run/weather", isCompleted)
	other := providertest.Start(t)
	other.Publish(descriptor("other/weather", nil))
	other.On("POST /run/weather", isCompleted)
	acme.Aliases = append(acme.Aliases, catalog.Alias{Name: "short", SkillID: "acme/weather"})
	b := limited(t, withQuotas(quota.Rule{Principal: "alice", Skills: skillName, Runs: quota.Amount{Count: 2, Per: time.Hour}}), acme, other.Source(t, "other"))
	invalid := b.Start(t.Context(), callOf(skillName, `{"city":7}`)).Wait()
	if f := invalid.Failure; f == nil || f.Kind != run.InvalidArguments {
		t.Fatalf("%+v", f)
	}
	p.On("POST /run/weather", providertest.Answer(429, `{}`)) // refused with certainty
	if o := b.Start(t.Context(), callOf(skillName, city)).Wait(); o.Failure == nil || o.Failure.By != run.Provider {
		t.Fatalf("%+v", o.Failure)
	}
	p.On("POST /run/weather", isCompleted)
	succeeds(t, b.Start(t.Context(), callOf(skillName, city)).Wait())
	succeeds(t, b.Start(t.Context(), callOf("short", city)).Wait())
	details := `{"limit":"quota runs","max":2}`
	for _, name := range []string{skillName, "acme/weather", "short"} {
		overQuota(t, b.Start(t.Context(), callOf(name, city)).Wait(), details)
	}
	succeeds(t, b.Start(t.Context(), callOf("other.weather", city)).Wait())
	succeeds(t, b.Start(t.Context(), call(city)).Wait()) // an anonymous caller
	if _, failure := b.Describe(t.Context(), callOf(skillName, "")); failure != nil {
		t.Errorf("a description needs no quota: %+v", failure)
	}
	p.Received(t, "POST /run/weather", 4)
}

// TestQuotaOfSharedName: a rule for a name binds all skills that could have it, so that a source can't end it by listing another one.
func TestQuotaOfSharedName(t *testing.T) {
	p := providertest.Start(t)
	p.Publish(descriptor("x/y", nil), descriptor("x.y", nil), descriptor("x/z", nil))
	b := limited(t, withQuotas(quota.Rule{Principal: "*", Skills: "acme.x.y", Runs: quota.Amount{Count: 1, Per: time.Hour}}), p.Source(t, "acme"))
	for i, name := range []string{"acme.x/y", "acme.x.y", "acme.x.z"} {
		p.On("POST /run/"+strings.TrimPrefix(name, "acme."), isCompleted)
		f := b.Start(t.Context(), callOf(name, `{"city":"Tokyo"}`)).Wait().Failure
		if refused := f != nil && f.Kind == run.RateLimited; refused != (i == 1) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestQuotaOfConcurrentRuns: a run counts until the bridge has read its end, also if its caller no longer waits.
func TestQuotaOfConcurrentRuns(t *testing.T) {
	const city, details = `{"city":"Tokyo"}`, `{"limit":"quota concurrent","max":1}`
	p, acme := weather(t, nil)
	p.On("POST /run/weather", providertest.Answer(202, providertest.Response("e1", "accepted", nil)))
	p.On("GET /status/e1", providertest.Answer(200, providertest.Response("e1", "running", nil)))
	b := limited(t, withQuotas(quota.Rule{Principal: "*", Skills: "*", Concurrent: 1}), acme)
	left := b.Start(t.Context(), callOf(skillName, city)).Leave()
	succeeds(t, left)
	overQuota(t, b.Start(t.Context(), callOf(skillName, city)).Wait(), details)
	again := callOf("", "")
	again.Wait = new(time.Duration)
	succeeds(t, b.Resume(t.Context(), left.Ref, again).Wait()) // it goes on
	overQuota(t, b.Start(t.Context(), callOf(skillName, city)).Wait(), details)
	p.On("GET /status/e1", isCompleted)
	again.Wait = nil
	succeeds(t, b.Resume(t.Context(), left.Ref, again).Wait())
	p.On("POST /run/weather", isCompleted)
	for range 3 {
		succeeds(t, b.Start(t.Context(), callOf(skillName, city)).Wait())
	}

	h := hold(p, "POST /run/weather", isCompleted)
	ended := make(chan run.Run)
	go func() { ended <- b.Start(t.Context(), callOf(skillName, city)).Wait() }()
	<-h.arrived
	overQuota(t, b.Start(t.Context(), callOf(skillName, city)).Wait(), details)
	close(h.release)
	succeeds(t, <-ended)
	succeeds(t, b.Start(t.Context(), callOf(skillName, city)).Wait())
}

// TestQuotaOfAbandonedCalls: a call that its caller ends, or gives little time, makes no place while its provider may go on with it. For how
// long it counts is not the caller's choice, also if the run was accepted.
func TestQuotaOfAbandonedCalls(t *testing.T) {
	const city, details = `{"city":"Tokyo"}`, `{"limit":"quota concurrent","max":1}`
	for _, tc := range []struct {
		about   string
		timeout time.Duration
		hangUp  bool
		answer  http.HandlerFunc // nil: none
		counts  bool
		says    string
	}{
		{"the caller hangs up", 0, true, nil, true, "before the provider answered"},
		{"little time", 100 * time.Millisecond, false, nil, true, "before the provider answered"},
		{"little time for an accepted run", 8 * time.Second, false, providertest.Answer(202, providertest.Response("e1", "accepted", nil)), true, "run_token"},
		{"the provider fails", 0, false, providertest.Answer(500, `{}`), false, ""},
		{"the provider answers that its time has passed", 0, false, providertest.Answer(504, `{}`), false, ""},
	} {
		t.Run(tc.about, func(t *testing.T) {
			p, acme := weather(t, nil)
			p.On("GET /status/e1", providertest.Answer(200, providertest.Response("e1", "running", nil)))
			h := hold(p, "POST /run/weather", isCompleted)
			if tc.answer != nil {
				p.On("POST /run/weather", tc.answer)
			}
			b := limited(t, withQuotas(quota.Rule{Principal: "*", Skills: "*", Concurrent: 1}), acme)
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			if tc.hangUp {
				go func() {
					<-h.arrived
					hangUp()
				}()
			}
			call := callOf(skillName, city)
			call.Timeout = tc.timeout
			if begun := b.Start(ctx, call); tc.timeout > time.Second {
				begun.Leave()
			} else {
				for ended := begun.Wait(); ended.Failure.Executed == run.ExecutedNo; { // the time passed too early
					call.Timeout *= 2
					ended = b.Start(ctx, call).Wait()
				}
			}
			p.On("POST /run/weather", isCompleted)
			next := b.Start(t.Context(), callOf(skillName, city)).Wait()
			if !tc.counts {
				succeeds(t, next)
				return
			}
			if overQuota(t, next, details); next.Failure == nil {
				return
			}
			if !strings.Contains(next.Failure.Message, tc.says) || next.Failure.Retry.After < 10*time.Second { // of the default, 20 s
				t.Errorf("after %s: %s", next.Failure.Retry.After, next.Failure.Message)
			}
		})
	}
}

// TestQuotaWhileWatching: as soon as a caller learns that its run has ended, the run no longer counts.
func TestQuotaWhileWatching(t *testing.T) {
	const city = `{"city":"Tokyo"}`
	p, acme := weather(t, nil)
	p.On("POST /run/weather", providertest.Answer(202, providertest.Response("e1", "accepted", nil)))
	p.On("GET /status/e1", isCompleted)
	b := limited(t, withQuotas(quota.Rule{Principal: "*", Skills: "*", Concurrent: 1}), acme)
	for o := range b.Start(t.Context(), callOf(skillName, city)).Watch() {
		next := b.Start(t.Context(), callOf(skillName, city)).Wait()
		if o.State.Ended() {
			succeeds(t, next)
		} else {
			overQuota(t, next, `{"limit":"quota concurrent","max":1}`)
		}
	}
}

// TestQuotasAfterAccess: a denied skill is unknown, and costs nothing.
func TestQuotasAfterAccess(t *testing.T) {
	p, acme := weather(t, nil)
	p.On("POST /run/weather", isCompleted)
	allowed := true
	for range 2 {
		b := limited(t, func(c *translate.Config) {
			withQuotas(quota.Rule{Principal: "*", Skills: "*", Rate: quota.Amount{Count: 1, Per: time.Hour}})(c)
			c.Access = &access.Rules{List: []access.Rule{{Allow: allowed, Principal: "*", Skills: []string{skillName}}}}
		}, acme)
		for n := range 3 {
			o := b.Start(t.Context(), callOf(skillName, `{"city":"Tokyo"}`)).Wait()
			switch {
			case !allowed && (o.Failure == nil || o.Failure.Kind != run.SkillNotFound):
				t.Errorf("denied: %+v", o.Failure)
			case allowed && n > 0:
				overQuota(t, o, `{"limit":"quota rate","max":1}`)
				if !strings.Contains(o.Failure.Message, "1h") {
					t.Error(o.Failure.Message)
				}
			case allowed:
				succeeds(t, o)
			}
		}
		allowed = false
	}
}
