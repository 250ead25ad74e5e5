package observe_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

func init() { caddy.RegisterModule(subscriber{}) }

// subscriber is a handler of Caddy's events that keeps those of the bridge.
type subscriber struct{}

var subscribed struct {
	mu     sync.Mutex
	events []caddy.CloudEvent
}

func (subscriber) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.test_subscriber", New: func() caddy.Module { return new(subscriber) }}
}

func (*subscriber) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

func (*subscriber) Handle(_ context.Context, e caddy.Event) error {
	if strings.HasPrefix(e.Name(), "skill_bridge.") {
		subscribed.mu.Lock()
		defer subscribed.mu.Unlock()
		subscribed.events = append(subscribed.events, e.CloudEvent())
	}
	return nil
}

// received returns the events so far.
func received() []string {
	subscribed.mu.Lock()
	defer subscribed.mu.Unlock()
	events := make([]string, len(subscribed.events))
	for i, e := range subscribed.events {
		events[i] = e.Type + " " + e.Source + " " + string(e.Data)
	}
	return events
}

// TestEventsOfCaddy: subscribers of Caddy's events learn that a source is down and up again, and that a credential was refused. Secrets
// are not in the data.
func TestEventsOfCaddy(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/a", Auth: hostile.APIKey("X-Key")})
	c := testbed.StartCaddy(t, "{\n\tevents {\n\t\ton * test_subscriber\n\t}\n}\n"+
		testbed.Bridge("name agents", "allow_anonymous", "cache {", "ttl 1ms", "negative_ttl 1ms", "}", "provider "+p.URL()+" {", "namespace acme", "credentials api_key secret-k-123456", "}"))
	c.Log.MustNotShow("secret-k-123456")
	next := func(want ...string) {
		t.Helper()
		var events []string
		testbed.Eventually(t, time.Minute, func() bool { events = received(); return len(events) > 0 }, "there is an event")
		subscribed.mu.Lock()
		subscribed.events = subscribed.events[1:]
		subscribed.mu.Unlock()
		for _, text := range want {
			if !strings.Contains(events[0], text) {
				t.Errorf("%s lacks %s", events[0], text)
			}
		}
	}
	p.On("acme/a", hostile.Invoke, hostile.Problem(http.StatusUnauthorized, "AUTH_REQUIRED", "No \x1b[31m secret-k-123456"))
	c.Execute("acme.a", nil)
	next(observe.CredentialRefused, " http.handlers.skill_bridge ", `"bridge":"agents"`, `"source":"acme"`, `"skill_id":"acme/a"`, `"http_status":401`, `"phase":"invoke"`)
	if !longtest.Runs(longtest.Long) {
		return // a failed index is read again after seconds
	}
	p.On("", hostile.Index, hostile.Respond(http.StatusServiceUnavailable, ""))
	testbed.Eventually(t, time.Minute, func() bool { c.Call("list_skills", hostile.Object{}); return len(received()) > 0 }, "the list is read again")
	next(observe.SourceDown, `"source":"acme"`, `"http_status":503`, `"phase":"discovery"`, p.URL())
	p.On("", hostile.Index)
	testbed.Eventually(t, time.Minute, func() bool { c.Call("list_skills", hostile.Object{}); return len(received()) > 0 }, "the list is read again")
	next(observe.SourceUp, `{"bridge":"agents","source":"acme"}`)
	for _, name := range []string{observe.CredentialRefused, observe.SourceDown, observe.SourceUp} {
		if lines := c.Log.Lines(`"logger":"events"`, `"msg":"event"`, `"name":"`+name+`"`); len(lines) != 1 {
			t.Errorf("the log about %s: %s", name, lines)
		}
	}
}

// told are the events of an observer in a test.
type told struct {
	mu     sync.Mutex
	events []string
	ended  bool
}

func (to *told) emit(name string, data map[string]any) bool {
	to.mu.Lock()
	defer to.mu.Unlock()
	if !to.ended {
		to.events = append(to.events, fmt.Sprint(strings.TrimPrefix(name, "skill_bridge."), " ", data["source"], " ", data["http_status"]))
	}
	return !to.ended
}

func (to *told) take(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	to.mu.Lock()
	defer to.mu.Unlock()
	if !slices.Equal(to.events, want) {
		t.Errorf("events %q, want %q", to.events, want)
	}
	to.events = nil
}

// observed returns an observer with events of the source acme, whose documents are read with credentials.
func observed(t *testing.T) (*observe.Observer, *told) {
	t.Helper()
	to := new(told)
	source := catalog.Source{Namespace: "acme", URL: &url.URL{Scheme: "https", Host: "acme.example"}}
	use := lifetime.NewUsage()
	t.Cleanup(use.Leave)
	o := observe.NewObserver(zap.NewNop(), false, nil)
	o.HoldHealth(t.Name(), []catalog.Source{source}, use)
	o.Announce(to.emit, map[string]bool{"acme": true})
	return o, to
}

func ask(o *observe.Observer, phase run.Phase, status int) {
	x := &exchange.Exchange{Source: "acme", Phase: phase, URL: &url.URL{Scheme: "https", Host: "acme.example"}, Status: status}
	if status == 0 {
		x.Err = errors.New("connection refused")
	}
	o.Exchange(context.Background(), x)
}

// TestEventsOfSources: there is one event for each change that lasts; a source that flaps has few, and the last one is right.
func TestEventsOfSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, to := observed(t)
		ask(o, run.PhaseDiscovery, http.StatusOK)
		time.Sleep(time.Minute)
		to.take(t) // it was up all the time
		ask(o, run.PhaseInvoke, 0)
		ask(o, run.PhaseInvoke, http.StatusBadGateway)
		ask(o, run.PhaseInvoke, http.StatusNotFound) // an answer
		ask(o, run.PhaseInvoke, 0)
		ask(o, run.PhasePoll, 0)
		time.Sleep(time.Minute)
		to.take(t)
		for range 5 {
			ask(o, run.PhaseInvoke, 0)
		}
		ask(o, run.PhaseDiscovery, http.StatusOK) // the index is on another host
		time.Sleep(time.Minute)
		to.take(t, "source_down acme <nil>")
		ask(o, run.PhaseInvoke, http.StatusOK)
		time.Sleep(time.Minute)
		to.take(t, "source_up acme <nil>")

		ask(o, run.PhaseDiscovery, http.StatusNotFound)
		ask(o, run.PhaseDiscovery, http.StatusOK) // at once
		time.Sleep(time.Minute)
		to.take(t)
		ask(o, run.PhaseDiscovery, http.StatusNotFound)
		time.Sleep(2 * time.Second)
		to.take(t, "source_down acme 404")
		for range 1000 {
			ask(o, run.PhaseDiscovery, http.StatusOK)
			ask(o, run.PhaseDiscovery, http.StatusInternalServerError)
			time.Sleep(10*time.Millisecond + time.Microsecond) // never when a timer ends that an answer has started
		}
		ask(o, run.PhaseDiscovery, http.StatusOK)
		time.Sleep(time.Minute)
		to.take(t, "source_up acme <nil>")

		// A credential that was refused once may be renewed.
		ask(o, run.PhaseDiscovery, http.StatusUnauthorized)
		ask(o, run.PhaseDiscovery, http.StatusOK)
		time.Sleep(time.Minute)
		to.take(t)
		for range 3 {
			ask(o, run.PhaseDiscovery, http.StatusUnauthorized)
			time.Sleep(time.Minute)
		}
		to.take(t, "credential_refused acme 401")
		ask(o, run.PhaseDiscovery, http.StatusOK)
		ask(o, run.PhaseDescriptor, http.StatusForbidden)
		time.Sleep(time.Minute)
		to.take(t) // it was accepted for less than a second

		// The index is read, but can't be used.
		for range 3 {
			ask(o, run.PhaseDiscovery, http.StatusOK)
			o.Notice(context.Background(), &exchange.Notice{Source: "acme", Unusable: &run.Failure{Kind: run.InvalidDocument, Phase: run.PhaseDiscovery}})
			time.Sleep(time.Minute)
		}
		to.take(t, "source_down acme <nil>")
		ask(o, run.PhaseDiscovery, http.StatusOK)
		time.Sleep(time.Minute)
		to.take(t, "source_up acme <nil>")
		o.Notice(context.Background(), &exchange.Notice{Source: "acme", Unusable: &run.Failure{Kind: run.InvalidDocument, Phase: run.PhaseDiscovery}})
		ask(o, run.PhaseDiscovery, http.StatusOK) // at once
		time.Sleep(time.Minute)
		to.take(t)
	})
}

// keyed are credentials with one secret, of which only this is used.
type keyed struct{ credential.Credentials }

func (keyed) Secrets() []string { return []string{"k-123456"} }

// TestEventsShowNoSecret: what a network error repeats of a request has neither a secret nor control characters.
func TestEventsShowNoSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := observed(t)
		o.Protect([]credential.Credentials{keyed{}})
		var mu sync.Mutex
		var text string
		o.Announce(func(_ string, data map[string]any) bool {
			mu.Lock()
			defer mu.Unlock()
			text = fmt.Sprint(data["error"], data["url"])
			return true
		}, nil)
		u := &url.URL{Scheme: "https", Host: "acme.example", Path: "/k-123456"}
		o.Exchange(context.Background(), &exchange.Exchange{Source: "acme", Phase: run.PhaseDiscovery, URL: u, Err: errors.New("no answer to k-123456\x1b[31m")})
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(text, "no answer to [redacted]") || strings.Contains(text, "k-123456") || strings.Contains(text, "\x1b") {
			t.Errorf("%q", text)
		}
	})
}

// TestEventPause: a source that changes each few seconds has an event at most every five.
func TestEventPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, to := observed(t)
		for range 20 {
			ask(o, run.PhaseDiscovery, http.StatusInternalServerError)
			time.Sleep(1500 * time.Millisecond)
			ask(o, run.PhaseDiscovery, http.StatusOK)
			time.Sleep(1500 * time.Millisecond)
		}
		synctest.Wait()
		to.mu.Lock()
		defer to.mu.Unlock()
		if n := len(to.events); n < 2 || n > 13 {
			t.Errorf("%d events in a minute: %q", n, to.events)
		}
	})
}

// TestRefusedAgain: a credential of runs that was accepted and is refused again is a new event, and one that is still refused is none.
func TestRefusedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, to := observed(t)
		call := func(out run.Run) {
			o.Called(context.Background(), &translate.Call{}, &out, &translate.Statistics{Operation: translate.OperationExecute, Source: "acme", Stats: skillsharing.Stats{Credentials: time.Millisecond}})
			time.Sleep(time.Minute)
		}
		refused := run.Run{Failure: &run.Failure{Kind: run.AuthRequired, Phase: run.PhaseInvoke, HTTPStatus: http.StatusUnauthorized}}
		call(refused)
		to.take(t, "credential_refused acme 401")
		call(refused)
		call(run.Run{Failure: &run.Failure{Kind: run.Unreachable}}) // says nothing about it
		call(refused)
		to.take(t)
		call(run.Run{State: run.Completed})
		call(refused)
		to.take(t, "credential_refused acme 401")
		call(run.Run{Ref: run.Ref{ExecutionID: "exec-1"}, Failure: &run.Failure{Kind: run.DeadlineExceeded}}) // its run was accepted
		call(refused)
		to.take(t, "credential_refused acme 401")
	})
}

// TestEventsAfterReload: what an ended configuration could not emit, the next one emits.
func TestEventsAfterReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, old := observed(t)
		ask(o, run.PhaseDiscovery, 0)
		old.mu.Lock()
		old.ended = true
		old.mu.Unlock()
		time.Sleep(time.Minute)
		old.take(t)
		o, to := observed(t)
		ask(o, run.PhaseDiscovery, 0)
		time.Sleep(time.Minute)
		to.take(t, "source_down acme <nil>")
		ask(o, run.PhaseDiscovery, http.StatusOK)
		to.mu.Lock()
		to.ended = true
		to.mu.Unlock()
		time.Sleep(time.Minute)
		to.take(t)
		o, next := observed(t)
		ask(o, run.PhaseDiscovery, http.StatusOK)
		time.Sleep(time.Minute)
		next.take(t, "source_up acme <nil>")
		o.Exchange(context.Background(), &exchange.Exchange{Source: "unknown", URL: new(url.URL)})
	})
}

// TestEventsOfImpatientCallers: a caller with a short deadline can't cause an event.
func TestEventsOfImpatientCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, to := observed(t)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		time.Sleep(2 * time.Second)
		for _, patience := range []time.Duration{time.Second, 10 * time.Second} {
			for range 5 {
				o.Exchange(ctx, &exchange.Exchange{Source: "acme", Phase: run.PhasePoll, URL: new(url.URL), Err: context.DeadlineExceeded, Duration: patience})
			}
			time.Sleep(time.Minute)
			to.take(t, map[time.Duration][]string{10 * time.Second: {"source_down acme <nil>"}}[patience]...)
		}
	})
}

// TestSlowSubscriber: a subscriber that takes long delays no call, and is not called twice at a time.
func TestSlowSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := observed(t)
		var mu sync.Mutex
		var calls []map[string]any
		o.Announce(func(_ string, data map[string]any) bool {
			mu.Lock()
			calls = append(calls, maps.Clone(data))
			mu.Unlock()
			time.Sleep(time.Hour)
			return true
		}, nil)
		start := time.Now()
		for range 100 {
			ask(o, run.PhaseDiscovery, 0)
			time.Sleep(10 * time.Second)
			ask(o, run.PhaseDiscovery, http.StatusOK)
		}
		if got := time.Since(start); got > 1000*time.Second {
			t.Errorf("it took %s", got)
		}
		mu.Lock()
		if len(calls) != 1 {
			t.Errorf("%d calls", len(calls))
		}
		mu.Unlock()
		time.Sleep(3 * time.Hour)
	})
}
