package translate_test

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// states returns the states of all skills that are listed, by their names, and since how many seconds they have them.
func states(ctx context.Context, b *translate.Bridge) string {
	var all []string
	for _, e := range b.List(ctx, translate.Query{Limit: 100, ByName: true}).Skills {
		status := e.Status(ctx, "")
		state, since := status.State()
		text := strings.TrimPrefix(e.Name, "acme.") + "=" + string(state)
		if !since.IsZero() {
			text += "/" + time.Since(since).Round(time.Second).String()
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// TestStates: a list says of each skill whether it can be called and since when, as far as it is known, and forgets what has changed.
func TestStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := providertest.New()
		secured := object{"auth": object{"type": "api_key"}}
		p.Publish(
			providertest.Skill("acme/broken", object{"inputs": 7}), providertest.Skill("acme/down", nil),
			providertest.Skill("acme/fine", nil), providertest.Skill("acme/later", object{"protocol": object{"version": "9.0.0"}}),
			providertest.Skill("acme/locked", object{"auth": object{"type": "oauth2", "oauth2": object{
				"authorization_url": "https://a.example", "token_url": "https://t.example", "scopes": object{},
			}}}),
			providertest.Skill("acme/refused", secured), providertest.Skill("acme/unread", nil),
		)
		p.On("GET /skills/1.json", providertest.Answer(http.StatusInternalServerError, "{}"))
		p.On("POST /run/refused", providertest.Refused(http.StatusUnauthorized, "AUTH_REQUIRED"))
		source := p.Source(t, "acme")
		source.Credentials = key("k-12345")
		b := newBridge(t, source)

		if got, want := states(t.Context(), b), "broken=unknown down=unknown fine=unknown later=unknown locked=unknown refused=unknown unread=unknown"; got != want {
			t.Errorf("before:\n got %s\nwant %s", got, want)
		}
		call := func(name string) *run.Failure {
			outcome := b.Start(t.Context(), translate.Call{Name: "acme." + name, Inputs: jsonrpc.Object{}}).Wait()
			return outcome.Failure
		}
		for _, name := range []string{"broken", "down", "fine", "later", "locked", "refused"} {
			call(name)
		}
		time.Sleep(10 * time.Second)
		call("broken")
		call("refused")
		time.Sleep(20 * time.Second)
		want := "broken=invalid/30s down=unreachable/30s fine=available/30s later=incompatible/30s locked=needs_credentials/30s refused=needs_credentials/30s unread=unknown"
		if got := states(t.Context(), b); got != want {
			t.Errorf("after the calls:\n got %s\nwant %s", got, want)
		}
		d, failure := b.Describe(t.Context(), translate.Call{Name: "acme.refused"})
		if failure != nil || d.State != catalog.NeedsCredentials || d.Denied == nil || time.Since(d.Since) != 30*time.Second {
			t.Errorf("%+v %+v", d, failure)
		}

		time.Sleep(5 * time.Minute)
		if got := states(t.Context(), b); !strings.Contains(got, " refused=available/") {
			t.Errorf("minutes after the refusal: %s", got)
		}
		call("refused")
		p.On("POST /run/refused", providertest.Completed("e", 1))
		if failure := call("refused"); failure != nil {
			t.Error(failure)
		}
		want = strings.ReplaceAll(strings.Replace(want, "refused=needs_credentials", "refused=available", 1), "/30s", "/5m30s")
		if got := states(t.Context(), b); got != want {
			t.Errorf("after the key was accepted:\n got %s\nwant %s", got, want)
		}

		// Usable skills are read, unless they are known not to be usable.
		l := b.List(t.Context(), translate.Query{Limit: 100, ByName: true, Usable: true, Descriptors: 100})
		var names []string
		for _, e := range l.Skills {
			if names = append(names, e.Name); e.Descriptor == nil {
				t.Errorf("%s has no descriptor", e.Name)
			}
		}
		if want := []string{"acme.fine", "acme.refused", "acme.unread"}; !slices.Equal(names, want) {
			t.Errorf("%q", names)
		}
	})
}

// TestStatesWithStaleDescriptors: a skill is available while the bridge uses a stale descriptor of it, and unreachable afterwards.
func TestStatesWithStaleDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := providertest.New()
		p.Publish(providertest.Skill("acme/fine", nil))
		config := bridgeConfig(t, nil, p.Source(t, "acme"))
		documents, err := cache.New(cache.Config{MaxSize: 8 << 20, TTL: 5 * time.Minute, MaxTTL: time.Hour, StaleIfError: time.Hour, NegativeTTL: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer documents.Close()
		config.Cache = documents
		b, err := translate.New(config)
		if err != nil {
			t.Fatal(err)
		}
		describes := func(about string, state catalog.State) {
			t.Helper()
			d, failure := b.Describe(t.Context(), translate.Call{Name: "acme.fine"})
			if (failure == nil) != (state == catalog.Available) {
				t.Errorf("%s: %v", about, failure)
			} else if failure == nil && d.State != state {
				t.Errorf("%s: described as %s", about, d.State)
			}
			if got := states(t.Context(), b); !strings.HasPrefix(got, "fine="+string(state)) {
				t.Errorf("%s: listed as %s", about, got)
			}
		}
		describes("at first", catalog.Available)
		p.On("GET /skills/0.json", providertest.Answer(http.StatusInternalServerError, "{}"))
		time.Sleep(6 * time.Minute)
		describes("while it can't be renewed", catalog.Available)
		time.Sleep(2 * time.Hour)
		describes("after stale_if_error", catalog.Unreachable)
	})
}

// TestUsableSkillsThatAreNotCached: a skill is usable also if its descriptor may not be stored; and what one principal's call was answered with
// decides nothing for another.
func TestUsableSkillsThatAreNotCached(t *testing.T) {
	p := providertest.Start(t, providertest.Skill("acme/volatile", object{"auth": object{"type": "api_key"}}), providertest.Skill("acme/open", nil))
	stored := p.Descriptor(providertest.Skill("acme/volatile", object{"auth": object{"type": "api_key"}}))
	p.On("GET /skills/0.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		stored(w, r)
	})
	p.On("POST /run/volatile", providertest.Refused(http.StatusUnauthorized, "AUTH_REQUIRED"))
	p.On("POST /run/open", providertest.Refused(http.StatusUnauthorized, "AUTH_REQUIRED"))
	source := p.Source(t, "acme")
	source.Credentials = key("k-12345")
	b := newBridge(t, source)
	for _, c := range []struct{ calls, principal, want string }{
		{"", "ada", "acme.open acme.volatile"},
		{"ada", "ada", "acme.open"},
		{"", "bob", "acme.open acme.volatile"},
	} {
		if c.calls != "" {
			for _, name := range []string{"acme.volatile", "acme.open"} {
				if o := b.Start(t.Context(), translate.Call{Name: name, Caller: run.Caller{Principal: c.calls}}).Wait(); o.Failure == nil || o.Failure.Kind != run.AuthRequired {
					t.Errorf("%s: %+v", name, o.Failure)
				}
			}
		}
		var names []string
		for _, e := range b.List(t.Context(), translate.Query{Limit: 10, ByName: true, Usable: true, Descriptors: 10, Caller: run.Caller{Principal: c.principal}}).Skills {
			names = append(names, e.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("for %s: %s, want %s", c.principal, got, c.want)
		}
		d, failure := b.Describe(t.Context(), translate.Call{Name: "acme.volatile", Caller: run.Caller{Principal: c.principal}})
		if failure != nil || (d.State == catalog.Available) != strings.Contains(c.want, "volatile") {
			t.Errorf("for %s: %+v %v", c.principal, d, failure)
		}
	}
}

// TestPagesByName: pages in the order of names have each skill once, also of several sources, and no private ones of others.
func TestPagesByName(t *testing.T) {
	p, q := providertest.Start(t), providertest.Start(t)
	p.Publish(providertest.Skill("acme/b", nil), providertest.Skill("acme/d", object{"access": "private"}), providertest.Skill("acme/e", nil), providertest.Skill("acme/a", nil))
	q.Publish(providertest.Skill("acme.c/x", nil), providertest.Skill("acme.c/y", nil))
	b := newBridge(t, p.Source(t, "acme"), q.Source(t, "acme.c"))
	for limit := 1; limit < 7; limit++ {
		for principal, want := range map[string]string{"": "acme.a acme.b acme.c.x acme.c.y acme.e", "ada": "acme.a acme.b acme.c.x acme.c.y acme.d acme.e"} {
			var names []string
			query := translate.Query{Limit: limit, ByName: true, Caller: run.Caller{Principal: principal}}
			for pages := 0; pages == 0 || query.AfterName != ""; pages++ {
				l := b.List(t.Context(), query)
				for _, e := range l.Skills {
					names = append(names, e.Name)
					if tool := e.ToolName(t.Context(), ""); tool != strings.ReplaceAll(e.Name, ".", "_") && !strings.HasPrefix(tool, "acme_c_") {
						t.Errorf("%s has the tool name %q", e.Name, tool)
					}
				}
				query.AfterName = l.NextAfter
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("pages of %d for %q: %s", limit, principal, got)
			}
		}
	}
}

// TestStatesOfACredential: when the provider refuses a credential, no skill that needs it can be called, until one call is accepted. That is so for
// the caller whose call was refused: it may be refused because of its arguments.
func TestStatesOfACredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := providertest.New()
		secured := object{"auth": object{"type": "api_key"}}
		p.Publish(
			providertest.Skill("acme/a", secured), providertest.Skill("acme/b", secured), providertest.Skill("acme/open", nil),
			providertest.Skill("acme/other", object{"auth": object{"type": "oauth2", "oauth2": object{
				"authorization_url": "https://a.example", "token_url": "https://t.example", "scopes": object{},
			}}}),
		)
		source := p.Source(t, "acme")
		source.Credentials = key("k-12345")
		b := newBridge(t, source)
		call := func(name, principal string) {
			b.Start(t.Context(), translate.Call{Name: "acme." + name, Caller: run.Caller{Principal: principal}, Inputs: jsonrpc.Object{}}).Wait()
		}
		expect := func(about, want string) {
			t.Helper()
			got := regexp.MustCompile("/[0-9a-z]+").ReplaceAllString(states(t.Context(), b), "")
			if want += " open=available other=needs_credentials"; got != want {
				t.Errorf("%s:\n got %s\nwant %s", about, got, want)
			}
		}
		for _, name := range []string{"a", "b", "open", "other"} {
			call(name, "")
		}
		expect("accepted", "a=available b=available")
		p.On("POST /run/a", providertest.Refused(http.StatusUnauthorized, "AUTH_REQUIRED"))
		call("a", "ann")
		expect("refused in a call of another", "a=available b=available")
		call("a", "")
		call("open", "")
		expect("refused", "a=needs_credentials b=needs_credentials")
		d, failure := b.Describe(t.Context(), translate.Call{Name: "acme.b"})
		if failure != nil || d.State != catalog.NeedsCredentials || d.Denied == nil || d.Denied.SkillID != "" {
			t.Errorf("%+v %+v", d, failure)
		}
		failed := providertest.Response("", "failed", object{"error": object{"code": "EXECUTION_FAILED", "message": "No."}})
		for _, refusal := range []http.HandlerFunc{
			providertest.Answer(http.StatusUnauthorized, failed), providertest.Answer(http.StatusForbidden, failed),
			providertest.Answer(http.StatusOK, providertest.Response("", "failed", object{"error": object{"code": "AUTH_REQUIRED", "message": "No."}})),
		} {
			p.On("POST /run/a", refusal)
			call("a", "")
			expect("refused in a failed run", "a=needs_credentials b=needs_credentials")
		}
		call("b", "ann")
		expect("accepted", "a=available b=available")
		call("a", "")
		expect("failed because of authentication of another", "a=available b=available")
		p.On("POST /run/a", providertest.Answer(http.StatusUnauthorized, failed))
		call("a", "")
		expect("refused in the answer that a run failed", "a=needs_credentials b=needs_credentials")
		p.On("POST /run/a", providertest.Answer(http.StatusOK, failed))
		call("a", "")
		expect("failed for another reason", "a=available b=available")
	})
}
