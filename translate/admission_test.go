package translate_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// limited makes a bridge with limits on what is in progress.
func limited(t *testing.T, change func(*translate.Config), sources ...catalog.Source) *translate.Bridge {
	t.Helper()
	documents, err := cache.New(cache.Config{MaxSize: 8 << 20, TTL: time.Hour, MaxTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(documents.Close)
	config := translate.Config{
		Sources: sources, Cache: documents, Caller: skillsharing.Caller{ID: "test", Type: "service"}, Priority: skillsharing.PriorityNormal,
		DefaultTimeout: 20 * time.Second, MaxTimeout: 40 * time.Second, Polling: skillsharing.Polling{Plan: polling.Backoff{Initial: time.Millisecond, Longest: 5 * time.Millisecond}},
		MaxResponseSize: 1 << 20, AllowHTTP: true,
	}
	change(&config)
	b, err := translate.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// held is an endpoint that answers when it is released.
type held struct {
	arrived chan struct{}
	release chan struct{}
}

func hold(p *providertest.Provider, route string, answer http.HandlerFunc) *held {
	h := &held{make(chan struct{}, 100), make(chan struct{})}
	p.On(route, func(w http.ResponseWriter, r *http.Request) {
		h.arrived <- struct{}{}
		select {
		case <-h.release:
			answer(w, r)
		case <-r.Context().Done():
		}
	})
	return h
}

var isCompleted = providertest.Answer(200, providertest.Response("e1", "completed", object{"output": object{}}))

// TestPlaces fills a bridge, and looks who still finds a place.
func TestPlaces(t *testing.T) {
	const city = `{"city":"Tokyo"}`
	for _, tc := range []struct {
		about      string
		change     func(*translate.Config)
		limit      string
		otherFinds bool // a call to another source
	}{
		{"runs", func(c *translate.Config) { c.MaxRuns = 2 }, "runs", false},
		{"runs per provider", func(c *translate.Config) { c.MaxRuns, c.MaxRunsPerSource = 100, 2 }, "runs_per_provider", true},
	} {
		t.Run(tc.about, func(t *testing.T) {
			p, acme := weather(t, nil)
			q := providertest.Start(t)
			q.Publish(descriptor("other/weather", nil))
			q.On("POST /run/weather", isCompleted)
			h := hold(p, "POST /run/weather", isCompleted)
			b := limited(t, tc.change, acme, q.Source(t, "other"))

			var under sync.WaitGroup
			for range 2 {
				under.Go(func() {
					if o := b.Start(t.Context(), call(city)).Wait(); o.Failure != nil {
						t.Errorf("a call with a place: %+v", o.Failure)
					}
				})
				<-h.arrived
			}
			o := b.Start(t.Context(), call(city)).Wait()
			if f := o.Failure; f == nil || f.Kind != run.RateLimited || f.Next() != run.NextRetry || f.Executed != run.ExecutedNo ||
				f.By != run.Bridge || front.Retry(f) == nil || !strings.Contains(string(front.Details(f)), `{"limit":"`+tc.limit+`","max":2}`) {
				t.Errorf("a call without a place: %+v", o.Failure)
			}
			if _, failure := b.Describe(t.Context(), call("")); failure == nil || failure.Kind != run.RateLimited {
				t.Errorf("a description without a place: %+v", failure)
			}
			list := b.List(t.Context(), translate.Query{Namespace: "acme", Descriptors: 10})
			if unlisted := list.Unavailable; len(unlisted) != 1 || unlisted[0].Failure.Kind != run.RateLimited || unlisted[0].Failure.OfBridge() == tc.otherFinds {
				t.Errorf("a list without a place: %+v", unlisted)
			}
			if known := len(list.Skills) == 1 && list.Skills[0].Descriptor != nil; known != tc.otherFinds { // what is in memory
				t.Errorf("a list without a place: %+v", list.Skills)
			}
			o = b.Start(t.Context(), translate.Call{Name: "other.weather", Inputs: jsonrpc.Object{Text: jsontext.Value(city)}}).Wait()
			if found := o.Failure == nil; found != tc.otherFinds {
				t.Errorf("a call to another source: %+v", o.Failure)
			}
			close(h.release)
			under.Wait()
			if o := b.Start(t.Context(), call(city)).Wait(); o.Failure != nil {
				t.Errorf("a call when the others have ended: %+v", o.Failure)
			}
			p.Received(t, "POST /run/weather", 3)
		})
	}
}

// TestPrincipalOfSource tries to use a source that wants to know who is asking,
// by every way that leads to it.
func TestPrincipalOfSource(t *testing.T) {
	closed, open, registry := providertest.Start(t), providertest.Start(t), providertest.Start(t)
	closed.Publish(descriptor("closed/weather", object{"auth": object{"type": "api_key"}}))
	closed.On("POST /run/weather", isCompleted)
	open.Publish(descriptor("open/weather", nil))
	open.On("POST /run/weather", isCompleted)
	registry.On("GET /skills", providertest.Answer(200, object{"skills": []any{object{
		"id": "closed/weather", "name": "W", "capability_type": "api", "description": "W.", "access": "public", "version": "1.2.3",
		"descriptor_url": closed.URL + "/skills/0.json",
	}}}))
	source := closed.Source(t, "acme")
	source.RequirePrincipal = true
	source.Credentials = key("a-secret-key")
	source.Aliases = []catalog.Alias{{Name: "wx", SkillID: "closed/weather"}}
	single := closed.Source(t, "single")
	single.Kind, single.URL = catalog.SkillSource, single.URL.JoinPath("skills/0.json")
	single.RequirePrincipal = true
	directory := registry.Source(t, "directory")
	directory.Kind = catalog.RegistrySource
	b := newBridge(t, source, open.Source(t, "open"), single, directory)

	for _, name := range []string{"acme.closed.weather", "acme/closed/weather", "acme.nothing", "wx", "single", "directory.closed.weather"} {
		for principal, want := range map[string]bool{"": false, "alice": true} {
			o := b.Start(t.Context(), translate.Call{Caller: run.Caller{Principal: principal}, Name: name, Inputs: jsonrpc.Object{Text: jsontext.Value(`{"city":"Tokyo"}`)}}).Wait()
			refused := o.Failure != nil && o.Failure.Kind == run.AuthRequired && o.Failure.Next() == run.NextAuthenticate &&
				strings.Contains(string(front.Details(o.Failure)), `"required_by":"bridge"`)
			if refused == want {
				t.Errorf("%s by %q: %+v", name, principal, o.Failure)
			}
			if _, failure := b.Describe(t.Context(), translate.Call{Caller: run.Caller{Principal: principal}, Name: name}); principal == "" && (failure == nil || failure.Kind != run.AuthRequired) {
				t.Errorf("%s described to anyone: %+v", name, failure)
			}
		}
	}
	if o := b.Start(t.Context(), translate.Call{Name: "open.weather", Inputs: jsonrpc.Object{Text: jsontext.Value(`{"city":"Tokyo"}`)}}).Wait(); o.Failure != nil {
		t.Errorf("an open source: %+v", o.Failure)
	}
	for _, name := range []string{"closed/weather", "closed.weather", "wy"} {
		o := b.Start(t.Context(), translate.Call{Name: name}).Wait()
		if text := o.Failure.Message + string(front.Details(o.Failure)); strings.Contains(text, "acme.closed") || strings.Contains(text, "'wx'") {
			t.Errorf("%s tells anyone of the source: %s", name, text)
		}
	}
	listing := b.List(t.Context(), translate.Query{})
	for _, e := range listing.Skills {
		if e.Namespace == "acme" || e.Namespace == "single" {
			t.Errorf("%s is listed to anyone", e.Name)
		}
	}
	if len(listing.Unavailable) != 2 || listing.Unavailable[0].Failure.Kind != run.AuthRequired {
		t.Errorf("unavailable: %+v", listing.Unavailable)
	}
	if known := b.List(t.Context(), translate.Query{Caller: run.Caller{Principal: "alice"}}); len(known.Unavailable) != 0 {
		t.Errorf("unavailable to alice: %+v", known.Unavailable)
	}
	closed.Received(t, "POST /run/weather", 4) // all by alice
}

// TestStopped: when the process stops, every call is answered as it stands.
func TestStopped(t *testing.T) {
	p, acme := weather(t, nil)
	stop := new(translate.Stop)
	b := limited(t, func(c *translate.Config) { c.Stop = stop }, acme)
	p.On("POST /run/weather", providertest.Answer(202, providertest.Response("e1", "accepted", nil)))
	h := hold(p, "GET /status/e1", isCompleted)
	outcome := make(chan run.Run)
	go func() { outcome <- b.Start(t.Context(), call(`{"city":"Tokyo"}`)).Wait() }()
	<-h.arrived
	stop.Now()
	o := <-outcome
	if f := o.Failure; f == nil || f.Kind != run.Stopped || f.Next() != run.NextFollowRun || o.State == 0 || o.ExecutionID != "e1" {
		t.Errorf("an accepted run: %+v %+v", o, o.Failure)
	}
	o = b.Start(t.Context(), call(`{"city":"Tokyo"}`)).Wait()
	if f := o.Failure; f == nil || f.Kind != run.Stopped || f.Next() != run.NextRetry || f.Executed != run.ExecutedNo {
		t.Errorf("a call that comes too late: %+v", o.Failure)
	}
}
