package translate_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/inspection"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// TestRereading: while somebody listens, the index of a provider is read again when runs of its skills have ended: at once, then once a
// second at most, or a tenth of the time, and not by registries.
func TestRereading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const route, other = "GET /.well-known/skill-sharing", "GET /skills"
		one, two := providertest.Skill("acme/one", nil), providertest.Skill("acme/two", nil)
		p, registry := providertest.New(), providertest.New()
		registry.URL = "http://registry.example"
		p.Publish(one)
		registry.Publish(providertest.Skill("far/away", nil))
		registry.On(other, providertest.Answer(http.StatusOK, object{"skills": []object{{
			"id": "far/away", "name": "away", "capability_type": "api", "description": "d", "descriptor_url": registry.URL + "/skills/0.json", "access": "public", "version": "1.2.3",
		}}}))
		far := registry.Source(t, "far")
		far.Kind = catalog.RegistrySource
		b := newBridge(t, p.Source(t, "acme"), far)
		call := func(name string) {
			t.Helper()
			if o := b.Start(t.Context(), translate.Call{Name: name, Inputs: jsonrpc.Object{}}).Wait(); o.Failure != nil {
				t.Fatal(o.Failure)
			}
		}
		read := func(about string, want int) {
			t.Helper()
			synctest.Wait()
			if got := p.Count(route); got != want {
				t.Errorf("%s: the index was read %d times, want %d", about, got, want)
			}
		}
		call("acme.one")
		call("far.away")
		time.Sleep(time.Minute)
		call("acme.one")
		read("nobody listens", 1)

		release := b.Listen()
		again := b.Listen()
		change := b.Changed("")
		p.Publish(one, two)
		time.Sleep(time.Minute)
		read("no calls", 1)
		call("acme.one")
		read("a call", 2)
		select {
		case <-change:
		default:
			t.Error("no change was noticed")
		}
		for range 50 { // 500 ms
			call("acme.one")
			time.Sleep(10 * time.Millisecond)
		}
		read("more calls within a second", 2)
		time.Sleep(time.Second)
		read("a second later", 3)
		time.Sleep(time.Minute)
		read("no more calls", 3)
		again()
		call("far.away")
		read("a skill of a registry", 3)
		registry.Received(t, other, 1)

		p.On(route, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			providertest.Refused(http.StatusNotFound, "SKILL_NOT_FOUND")(w, r)
		})
		for range 100 { // 10 s
			call("acme.one") // with the index that is fresh
			time.Sleep(100 * time.Millisecond)
		}
		read("an index that takes a second", 4)
		time.Sleep(5 * time.Second)
		read("its pause is over", 5)
		call("acme.one")
		release()
		time.Sleep(time.Minute)
		call("acme.one")
		read("nobody listens any more", 5)
	})
}

// TestRereadingPanics: a panic in a reading is logged, and ends nothing.
func TestRereadingPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const route = "GET /.well-known/skill-sharing"
		one, two := providertest.Skill("acme/one", nil), providertest.Skill("acme/two", nil)
		p := providertest.New()
		p.Publish(one)
		observer := new(recorder)
		b := newBridgeWith(t, observer, p.Source(t, "acme"))
		counted := 0
		catalog.OnCount(t.Context(), b.Catalog(), func(context.Context, int) {
			if counted++; counted == 2 {
				panic("a bug")
			}
		})
		release := b.Listen()
		defer release()
		call := func() {
			t.Helper()
			if o := b.Start(t.Context(), translate.Call{Name: "acme.one", Inputs: jsonrpc.Object{}}).Wait(); o.Failure != nil {
				t.Fatal(o.Failure)
			}
			synctest.Wait()
			time.Sleep(time.Minute)
		}
		call()
		p.Publish(one, two)
		call()
		before := p.Count(route)
		p.Publish(one)
		call()
		observer.mu.Lock()
		defer observer.mu.Unlock()
		logged := slices.ContainsFunc(observer.notices, func(n exchange.Notice) bool {
			return strings.HasPrefix(n.Message, "panic while an index was read again")
		})
		if counted != 3 || p.Count(route) == before || !logged {
			t.Errorf("counted %d times, read %d and %d times, logged %v", counted, before, p.Count(route), observer.notices)
		}
	})
}

// TestReadingPanics: a panic in one of the goroutines that read for a call is one of the call, whose server reports it.
func TestReadingPanics(t *testing.T) {
	for about, read := range map[string]func(*translate.Bridge){
		"list":       func(b *translate.Bridge) { b.List(t.Context(), translate.Query{}) },
		"name":       func(b *translate.Bridge) { _, _ = b.Find(t.Context(), "one", "") },
		"inspection": func(b *translate.Bridge) { inspection.Of(t.Context(), b.Catalog()) },
	} {
		p := providertest.New()
		p.Publish(providertest.Skill("acme/one", nil))
		b := newBridge(t, p.Source(t, "acme"))
		catalog.OnCount(t.Context(), b.Catalog(), func(context.Context, int) { panic("a bug") })
		bug := panics.Recovered(func() { read(b) })
		if p, ok := errors.AsType[*panics.Panic](bug); !ok || p.Value != "a bug" {
			t.Errorf("%s: %v", about, bug)
		}
	}
}
