package consent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// key is the only key of a sealer.
type key struct{ runtoken.Key }

func (k key) Current(context.Context) (runtoken.Key, error) { return k.Key, nil }

func (k key) Find(_ context.Context, id runtoken.KeyID) (runtoken.Key, bool, error) {
	return k.Key, id == k.ID, nil
}

func handler(t *testing.T, at string) *Handler {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return &Handler{sealer: runtoken.New(key{runtoken.NewKey(time.Now())}, time.Hour, nil), realm: "realm", url: u, path: "/connect"}
}

// TestS197LateCallback: a flow ends after ten minutes, and belongs to a bridge and a source.
func TestS197LateCallback(t *testing.T) {
	h := handler(t, "https://agents.example.com/connect")
	for name, tc := range map[string]struct {
		flow         credentials.Flow
		realm, bound string
		problem      string
	}{
		"young":          {credentials.Flow{Namespace: "acme", State: "state", Expires: time.Now().Add(time.Minute)}, "realm", "acme", ""},
		"late":           {credentials.Flow{Namespace: "acme", State: "state", Expires: time.Now().Add(-time.Second)}, "realm", "acme", "more than ten minutes"},
		"another state":  {credentials.Flow{Namespace: "acme", State: "State", Expires: time.Now().Add(time.Minute)}, "realm", "acme", "begun last"},
		"another source": {credentials.Flow{Namespace: "other", State: "state", Expires: time.Now().Add(time.Minute)}, "realm", "acme", "can’t be finished here"},
		"another cookie": {credentials.Flow{Namespace: "acme", State: "state", Expires: time.Now().Add(time.Minute)}, "realm", "other", "can’t be finished here"},
		"another bridge": {credentials.Flow{Namespace: "acme", State: "state", Expires: time.Now().Add(time.Minute)}, "another", "acme", "can’t be finished here"},
	} {
		text, err := json.Marshal(tc.flow)
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := h.sealer.SealText(t.Context(), string(text), tc.realm, tc.bound)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "/connect/acme/callback?state=state", nil)
		r.AddCookie(h.cookie("acme", sealed, time.Minute))
		v := &visit{Handler: h, r: r, namespace: "acme"}
		if flow, problem := v.flow("state"); (flow != nil) != (tc.problem == "") || !strings.Contains(problem, tc.problem) {
			t.Errorf("%s: %v, %q", name, flow, problem)
		}
	}
}

// TestS216CookiesOfHosts: over HTTPS, the cookie can't be set by other hosts of the site or without TLS.
func TestS216CookiesOfHosts(t *testing.T) {
	c := handler(t, "https://agents.example.com/connect").cookie("acme", "x", time.Minute)
	if text := c.String(); !strings.HasPrefix(text, "__Host-skill_bridge_flow_") || !strings.Contains(text, "; Path=/; Max-Age=60; HttpOnly; Secure; SameSite=Lax") || strings.Contains(text, "Domain") {
		t.Error(text)
	}
	if other := handler(t, "https://agents.example.com/connect").cookie("other", "x", time.Minute); other.Name == c.Name {
		t.Error("two sources have one cookie")
	}
	if plain := handler(t, "http://localhost:8080/connect").cookie("acme", "x", time.Minute); !strings.HasPrefix(plain.Name, "skill_bridge_flow_") || plain.Secure {
		t.Error(plain)
	}
}
