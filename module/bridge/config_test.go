package bridge

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
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
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
	config, _, err := h.config(ctx, observe.NewObserver(h.logger, false, vocabularies))
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
	equal(t, "poll intervals", c.Polling.Plan, polling.Plan(nil))
	equal(t, "response size", c.MaxResponseSize, int64(10<<20))
	equal(t, "plain HTTP", c.AllowHTTP, false)
	equal(t, "limits", c.Limits, document.Limits{
		DocumentSize: 4 << 20, SchemaSize: 64 << 10,
		OutputSize: 10 << 20, Reads: 64, FailedReads: 60, BodyTimeout: 30 * time.Second,
	})
	equal(t, "places", c.MaxRunsPerSource, c.MaxRuns/2)
	equal(t, "circuit breaker", h.breakerConfig(), exchange.BreakerConfig{
		Failures: 20, Cooldown: 5 * time.Second, Patience: 5 * time.Second,
	})
	equal(t, "cache", h.Cache.config(), cache.Config{
		MaxSize: 64 << 20, TTL: 5 * time.Minute, MaxTTL: 24 * time.Hour, StaleIfError: time.Hour, NegativeTTL: 5 * time.Second,
	})
}

// TestZeros: in JSON, an explicit 0 means the default where 0 has no meaning.
func TestZeros(t *testing.T) {
	_, standard := configOf(t, `{}`)
	h, c := configOf(t, `{
		"timeout":0, "max_timeout":0, "poll_interval":0, "max_poll_interval":0, "max_request_size":0, "max_response_size":0, "max_batch":0,
		"cache":{"max_size":0,"max_ttl":0}, "circuit_breaker":{"failures":0,"cooldown":0},
		"limits":{"document_size":0,"schema_size":0,"output_size":0,"memory":0,"runs":0,"runs_per_provider":0}
	}`)
	equal(t, "timeouts", []time.Duration{c.DefaultTimeout, c.MaxTimeout}, []time.Duration{standard.DefaultTimeout, standard.MaxTimeout})
	equal(t, "poll intervals", c.Polling.Plan, standard.Polling.Plan)
	equal(t, "response size", c.MaxResponseSize, standard.MaxResponseSize)
	equal(t, "limits", c.Limits, standard.Limits)
	equal(t, "places", []int{c.MaxRuns, c.MaxRunsPerSource}, []int{standard.MaxRuns, standard.MaxRunsPerSource})
	equal(t, "circuit breaker", h.breakerConfig(), new(Handler).breakerConfig())
	equal(t, "cache", h.Cache.config(), new(Handler).Cache.config())
	if w := call(mustLoad(t, `{"max_request_size":0,"max_batch":0}`), "["+listSkills+","+listSkills+"]", nil); strings.Count(w.Body.String(), `"result"`) != 2 {
		t.Errorf("a batch of two: %d %s", w.Code, w.Body)
	}
}

func TestSettings(t *testing.T) {
	h, c := configOf(t, `{
		"caller":{"id":"us"}, "priority":"low", "timeout":"1s", "max_timeout":"2s", "poll_interval":"3ms", "max_poll_interval":"4ms",
		"max_response_size":5, "allow_http":true, "cache":{"max_size":6,"ttl":0,"max_ttl":"7s","stale_if_error":0,"negative_ttl":0},
		"limits":{"document_size":4,"schema_size":11,"output_size":3,"runs":16,"runs_per_provider":14},
		"circuit_breaker":{"failures":17,"cooldown":"18s"}
	}`)
	equal(t, "caller", c.Caller, skillsharing.Caller{ID: "us", Type: "service"})
	equal(t, "priority", c.Priority, skillsharing.PriorityLow)
	equal(t, "timeouts", []time.Duration{c.DefaultTimeout, c.MaxTimeout}, []time.Duration{time.Second, 2 * time.Second})
	equal(t, "poll intervals", c.Polling.Plan, polling.Plan(polling.Backoff{Initial: 3 * time.Millisecond, Longest: 4 * time.Millisecond}))
	equal(t, "response size", c.MaxResponseSize, int64(5))
	equal(t, "plain HTTP", c.AllowHTTP, true)
	equal(t, "cache", h.Cache.config(), cache.Config{MaxSize: 6, MaxTTL: 7 * time.Second})
	equal(t, "limits", c.Limits, document.Limits{
		DocumentSize: 4, SchemaSize: 11, OutputSize: 3,
		Reads: 64, FailedReads: 60, BodyTimeout: 30 * time.Second,
	})
	equal(t, "places", []int{c.MaxRuns, c.MaxRunsPerSource}, []int{16, 14})
	equal(t, "circuit breaker", h.breakerConfig(), exchange.BreakerConfig{
		Failures: 17, Cooldown: 18 * time.Second, Patience: time.Second,
	})
	served := mustLoad(t, `{"limits":{"memory":50331648}}`).server
	equal(t, "server", []int64{served.MaxAnswers, int64(served.WriteTimeout)}, []int64{40 << 20, int64(30 * time.Second)})
}

// TestDependentLimits: what a limit is where it follows from another option.
func TestDependentLimits(t *testing.T) {
	_, c := configOf(t, `{"max_response_size":1000,"limits":{"runs":1}}`)
	equal(t, "document size", c.Limits.DocumentSize, int64(1000))
	equal(t, "output size", c.Limits.OutputSize, int64(1000))
	equal(t, "places", c.MaxRunsPerSource, 1)
	for config, want := range map[string]int64{
		`{}`: 20 << 20, `{"max_response_size":1000}`: 20 << 20, `{"max_response_size":20000000}`: 40_000_000,
	} {
		equal(t, "answer size of "+config, mustLoad(t, config).server.MaxAnswerSize, want)
	}
}

// TestFaultsOfLimits finds in JSON what the golden files find in a Caddyfile. The
// fault is named by its place.
func TestFaultsOfLimits(t *testing.T) {
	faults := map[string]string{
		`{"limits":{"schema_size":2305843009213693952}}`:       "limits.schema_size: schema_size 2305843009213693952 is too large",
		`{"limits":{"memory":29360127}}`:                       "limits.memory: memory 29360127 bytes is too small: the minimum is 28MiB, so that the largest answer to a batch has room",
		`{"limits":{"runs":10,"runs_per_provider":11}}`:        "limits.runs_per_provider: 11 runs per provider are more than the total of 10",
		`{"limits":{"runs_per_provider":20001}}`:               "limits.runs_per_provider: 20001 runs per provider are more than the total of 20000",
		`{"limits":{"output_size":20},"max_response_size":10}`: "limits.output_size: output_size 20 bytes is more than max_response_size",
		`{"limits":{"run":1}}`:                                 "run",
		`{"circuit_breaker":{"failures":-1}}`:                  "circuit_breaker.failures: failures -1 is negative",
		`{"circuit_breaker":{"failures":2147483648}}`:          "circuit_breaker.failures: failures 2147483648 is too large",
		`{"circuit_breaker":{"failures":9223372036854775808}}`: "circuit_breaker",
		`{"circuit_breaker":{"cooldown":"-1s"}}`:               "circuit_breaker.cooldown: cooldown -1s is too short",
		`{"circuit_breaker":{"cooldown":1}}`:                   "circuit_breaker.cooldown: cooldown 1ns is too short",
		`{"circuit_breaker":{"off":true,"failures":5}}`:        "circuit_breaker: circuit_breaker is off, so it can have neither failures nor cooldown",
		`{"circuit_breaker":{"off":true,"cooldown":"5s"}}`:     "circuit_breaker: circuit_breaker is off",
	}
	for _, name := range []string{"runs", "runs_per_provider", "document_size", "schema_size", "output_size", "memory"} {
		faults[`{"limits":{"`+name+`":-1}}`] = "limits." + name + ": " + name + " -1 is negative"
		faults[`{"limits":{"`+name+`":9223372036854775808}}`] = name
	}
	for _, name := range []string{"document_size", "schema_size", "output_size", "memory"} {
		faults[`{"limits":{"`+name+`":9223372036854775807}}`] = "limits." + name + ": " + name + " 9223372036854775807 is too large"
	}
	for config, want := range faults {
		if _, err := load(t, config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
	for _, config := range []string{
		`{"limits":{"memory":29360128}}`, `{"limits":{"runs":10,"runs_per_provider":10}}`,
		`{"limits":{"document_size":10},"max_response_size":10}`, `{"limits":{"output_size":10},"max_response_size":10}`, `{"cache":{"ttl":"24h"}}`, `{"cache":{"max_ttl":"1m"}}`, `{"cache":{"ttl":"2m","max_ttl":"2m"}}`, `{"circuit_breaker":{"off":true}}`,
		`{"circuit_breaker":{"cooldown":"1ms"}}`, `{"limits":null,"circuit_breaker":null}`,
	} {
		if _, err := load(t, config); err != nil {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// TestWhoMayUseSecrets: whoever configures a secret says for whom it is, for all
// or where the secret is.
func TestWhoMayUseSecrets(t *testing.T) {
	secret := `{"type":"api_key","key":"k"}`
	for _, source := range []string{
		`"providers":[{"origin":"https://a.example","credentials":` + secret + `%s}]`,
		`"providers":[{"origin":"https://a.example","discovery_credentials":` + secret + `%s}]`,
		`"skills":[{"name":"a","url":"https://a.example","credentials":` + secret + `%s}]`,
		`"registries":[{"url":"https://a.example","discovery_credentials":` + secret + `%s}]`,
	} {
		for _, tc := range []struct {
			own, all string
			good     bool
		}{
			{"", "", false},
			{`,"require_principal":true`, "", true},
			{`,"require_principal":true`, `,"allow_anonymous":true`, true},
			{`,"require_principal":true`, `,"require_principal":true`, true},
			{"", `,"allow_anonymous":true`, true},
			{"", `,"require_principal":true`, true},
		} {
			config := "{" + fmt.Sprintf(source, tc.own) + tc.all + "}"
			_, err := load(t, config)
			switch {
			case tc.good && err != nil:
				t.Errorf("%s: %v", config, err)
			case !tc.good && (err == nil || !strings.Contains(err.Error(), "credentials need require_principal, here or for the whole bridge")):
				t.Errorf("%s: %v", config, err)
			}
		}
	}
}

func TestSources(t *testing.T) {
	_, c := configOf(t, `{
		"allow_anonymous":true, "allow_http":true,
		"providers":[
			{"origin":"https://A.example:8443/","aliases":[{"name":"n","skill_id":"i"}],"trust":["t.example"],"capability_types":["api"],"require_principal":true,
			 "credentials":{"type":"api_key","key":"one"},"discovery_credentials":{"type":"api_key","key":"two"},"transport":{"protocol":"http"}},
			{"origin":"http://b.example","namespace":"bee"}],
		"skills":[{"name":"s","url":"https://c.example/s.json?x=1","trust":["u.example"],"require_principal":true,"credentials":{"type":"api_key","key":"three"},"transport":{"protocol":"http"}}],
		"registries":[{"url":"https://D.example/v1","capability_types":["task"],"discovery_credentials":{"type":"api_key","key":"four"}},
			{"url":"https://e.example","namespace":"reg","require_principal":true}]
	}`)
	if len(c.Sources) != 5 {
		t.Fatalf("%d sources", len(c.Sources))
	}
	standard := c.Sources[1].Transport
	for i, want := range []string{
		`provider a.example https://A.example:8443 [{n i}] [t.example] [one] [two] [api] closed:true own:true`,
		`provider bee http://b.example [] [] [] [] [] closed:false own:false`,
		`skill s https://c.example/s.json?x=1 [] [u.example] [three] [] [] closed:true own:true`,
		`registry a https://D.example/v1 [] [] [] [four] [task] closed:false own:false`,
		`registry reg https://e.example [] [] [] [] [] closed:true own:false`,
	} {
		s := c.Sources[i]
		if i == 3 {
			equal(t, "default namespace of a registry", s.Namespace, "d.example")
			s.Namespace = "a"
		}
		got := fmt.Sprint(s.Kind, " ", s.Namespace, " ", s.URL, " ", s.Aliases, " ", s.Trust, " ", secrets(s.Credentials), " ",
			secrets(s.DiscoveryCredentials), " ", s.CapabilityTypes, " closed:", s.RequirePrincipal, " own:", s.Transport != standard)
		equal(t, "source", got, want)
		if s.Transport == nil || len(s.Partition) != 64 {
			t.Errorf("source %d: transport %v, partition %q", i, s.Transport, s.Partition)
		}
	}
}

func secrets(c credential.Credentials) []string {
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

// Each run may be asked about once a second, of those in vain 1000 in all.
func TestDefaultPolls(t *testing.T) {
	for config, want := range map[string]pollRate{
		`{}`: {defaultMaxRuns, 1000}, `{"limits":{"runs":5000}}`: {5000, 1000}, `{"limits":{"runs":10}}`: {1000, 1000},
	} {
		h := mustLoad(t, config)
		if got := h.pollRate(); got != want {
			t.Errorf("%s: %v polls a second, want %v", config, got, want)
		}
	}
}
