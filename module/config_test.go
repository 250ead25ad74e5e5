package skillbridge

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// configOf returns what the bridge is made of.
func configOf(t *testing.T, text string) (*Handler, *translate.Config) {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	t.Cleanup(cancel)
	h := &Handler{logger: zap.NewNop()}
	if err := caddy.StrictUnmarshalJSON([]byte(text), h); err != nil {
		t.Fatal(err)
	}
	config, _, err := h.config(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return h, config
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestDefaults(t *testing.T) {
	h, c := configOf(t, `{}`)
	equal(t, "caller", c.Caller, skillsharing.Caller{ID: "skill-bridge", Type: "service"})
	equal(t, "priority", c.Priority, skillsharing.PriorityNormal)
	equal(t, "timeouts", []time.Duration{c.DefaultTimeout, c.MaxTimeout}, []time.Duration{25 * time.Second, 10 * time.Minute})
	equal(t, "poll intervals", []time.Duration{c.PollInitial, c.PollMax}, []time.Duration{500 * time.Millisecond, 5 * time.Second})
	equal(t, "response size", c.MaxResponseSize, int64(10<<20))
	equal(t, "plain HTTP", c.AllowHTTP, false)
	equal(t, "cache", h.cacheConfig(), cache.Config{
		MaxSize: 64 << 20, TTL: 5 * time.Minute, MaxTTL: 24 * time.Hour, StaleIfError: time.Hour, NegativeTTL: 5 * time.Second,
	})
}

// TestZeros: in JSON, an explicit 0 means the default where 0 has no meaning.
func TestZeros(t *testing.T) {
	_, standard := configOf(t, `{}`)
	h, c := configOf(t, `{
		"timeout":0, "max_timeout":0, "poll_interval":0, "max_poll_interval":0, "max_request_size":0, "max_response_size":0, "max_batch":0,
		"cache":{"max_size":0,"max_ttl":0}
	}`)
	equal(t, "timeouts", []time.Duration{c.DefaultTimeout, c.MaxTimeout}, []time.Duration{standard.DefaultTimeout, standard.MaxTimeout})
	equal(t, "poll intervals", []time.Duration{c.PollInitial, c.PollMax}, []time.Duration{standard.PollInitial, standard.PollMax})
	equal(t, "response size", c.MaxResponseSize, standard.MaxResponseSize)
	equal(t, "cache", h.cacheConfig(), new(Handler).cacheConfig())
	if w := call(mustLoad(t, `{"max_request_size":0,"max_batch":0}`), "["+listSkills+","+listSkills+"]", nil); strings.Count(w.Body.String(), `"result"`) != 2 {
		t.Errorf("a batch of two: %d %s", w.Code, w.Body)
	}
}

func TestSettings(t *testing.T) {
	h, c := configOf(t, `{
		"caller":{"id":"us"}, "priority":"low", "timeout":"1s", "max_timeout":"2s", "poll_interval":"3ms", "max_poll_interval":"4ms",
		"max_response_size":5, "allow_http":true, "cache":{"max_size":6,"ttl":0,"max_ttl":"7s","stale_if_error":0,"negative_ttl":0}
	}`)
	equal(t, "caller", c.Caller, skillsharing.Caller{ID: "us", Type: "service"})
	equal(t, "priority", c.Priority, skillsharing.PriorityLow)
	equal(t, "timeouts", []time.Duration{c.DefaultTimeout, c.MaxTimeout}, []time.Duration{time.Second, 2 * time.Second})
	equal(t, "poll intervals", []time.Duration{c.PollInitial, c.PollMax}, []time.Duration{3 * time.Millisecond, 4 * time.Millisecond})
	equal(t, "response size", c.MaxResponseSize, int64(5))
	equal(t, "plain HTTP", c.AllowHTTP, true)
	equal(t, "cache", h.cacheConfig(), cache.Config{MaxSize: 6, MaxTTL: 7 * time.Second})
}

func TestSources(t *testing.T) {
	_, c := configOf(t, `{
		"allow_anonymous":true, "allow_http":true,
		"providers":[
			{"origin":"https://A.example:8443/","aliases":[{"name":"n","skill_id":"i"}],"trust":["t.example"],"capability_types":["api"],"list_private":true,
			 "credentials":{"type":"api_key","key":"one"},"discovery_credentials":{"type":"api_key","key":"two"},"transport":{"protocol":"http"}},
			{"origin":"http://b.example","namespace":"bee"}],
		"skills":[{"name":"s","url":"https://c.example/s.json?x=1","trust":["u.example"],"credentials":{"type":"api_key","key":"three"},"transport":{"protocol":"http"}}],
		"registries":[{"url":"https://D.example/v1","capability_types":["task"],"discovery_credentials":{"type":"api_key","key":"four"}},
			{"url":"https://e.example","namespace":"reg"}]
	}`)
	if len(c.Sources) != 5 {
		t.Fatalf("%d sources", len(c.Sources))
	}
	standard := c.Sources[1].Transport
	for i, want := range []string{
		`0 a.example https://A.example:8443 [{n i}] [t.example] [one] [two] [api] private:true own:true`,
		`0 bee http://b.example [] [] [] [] [] private:false own:false`,
		`1 s https://c.example/s.json?x=1 [] [u.example] [three] [] [] private:false own:true`,
		`2 a https://D.example/v1 [] [] [] [four] [task] private:false own:false`,
		`2 reg https://e.example [] [] [] [] [] private:false own:false`,
	} {
		s := c.Sources[i]
		if i == 3 {
			equal(t, "default namespace of a registry", s.Namespace, "d.example")
			s.Namespace = "a"
		}
		got := fmt.Sprint(s.Kind, " ", s.Namespace, " ", s.URL, " ", s.Aliases, " ", s.Trust, " ", secrets(s.Credentials), " ",
			secrets(s.DiscoveryCredentials), " ", s.CapabilityTypes, " private:", s.ListPrivate, " own:", s.Transport != standard)
		equal(t, "source", got, want)
		if s.Transport == nil || len(s.Partition) != 64 {
			t.Errorf("source %d: transport %v, partition %q", i, s.Transport, s.Partition)
		}
	}
}

func secrets(c skillsharing.Credentials) []string {
	if c == nil {
		return nil
	}
	return c.Secrets()
}

func TestRequestLimits(t *testing.T) {
	h := mustLoad(t, `{"max_request_size":100,"max_batch":2}`)
	ping := `{"jsonrpc":"2.0","id":1,"method":"x"}`
	if w := call(h, `["`+strings.Repeat("x", 200)+`"]`, nil); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a large request: %d %s", w.Code, w.Body)
	}
	if w := call(h, "["+ping+","+ping+"]", nil); strings.Count(w.Body.String(), "-32601") != 2 {
		t.Errorf("a batch of two: %d %s", w.Code, w.Body)
	}
	if w := call(mustLoad(t, `{"max_batch":2}`), "["+ping+","+ping+","+ping+"]", nil); !strings.Contains(w.Body.String(), "-32600") {
		t.Errorf("a batch of three: %d %s", w.Code, w.Body)
	}
}
