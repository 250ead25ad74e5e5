package observe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

const metricPrefix = "caddy_skill_bridge_"

// countAnew has the handlers of a test counted from zero.
func countAnew(tb testing.TB) {
	tb.Helper()
	before := processMetrics
	processMetrics = newMetrics()
	tb.Cleanup(func() { processMetrics = before })
}

// withAdmin is a Caddyfile with an admin API.
func withAdmin(caddyfile string) string { return "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n" + caddyfile }

// samples are the bridge's, by their names without the prefix and with their labels.
type samples map[string]float64

// scraped is what Caddy's admin API says, whole.
func scraped(t *testing.T, c *testbed.Caddy) string {
	t.Helper()
	a := c.Send(http.MethodGet, "http://127.0.0.1:"+c.Port("ADMIN")+"/metrics", "")
	if a.Err != nil || a.Status != http.StatusOK {
		t.Fatal(a)
	}
	return string(a.Body)
}

var sampleLine = regexp.MustCompile(`^` + metricPrefix + `([a-z_]+(?:\{(?:[a-z_]+="(?:[^"\\]|\\.)*",?)+\})?) (\S+)$`)

func scrape(t *testing.T, c *testbed.Caddy) samples {
	t.Helper()
	found := samples{}
	lines := bufio.NewScanner(strings.NewReader(scraped(t, c)))
	for lines.Scan() {
		line := lines.Text()
		if !strings.Contains(line, "skill_bridge") || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "caddy_admin_") {
			continue
		}
		match := sampleLine.FindStringSubmatch(line)
		if match == nil {
			t.Errorf("unexpected line: %s", line)
			continue
		}
		value, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		found[match[1]] = value
	}
	return found
}

// of are those of one metric, by their labels.
func (s samples) of(name string) samples {
	found := samples{}
	for series, value := range s {
		if labels, ok := strings.CutPrefix(series, name+"{"); ok {
			found[strings.TrimSuffix(labels, "}")] = value
		}
	}
	return found
}

func mustHave(t *testing.T, got, want samples) {
	t.Helper()
	for series, value := range want {
		if got[series] != value {
			t.Errorf("%s is %v, want %v", series, got[series], value)
		}
	}
}

func offered(p *hostile.Provider, namespace string, lines ...string) string {
	return "provider " + p.URL() + " {\n\tnamespace " + namespace + "\n" + strings.Join(lines, "\n") + "\n}"
}

// TestMetricsOfCalls: calls of every kind, each counted as what it was.
func TestMetricsOfCalls(t *testing.T) {
	countAnew(t)
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/later"}, hostile.Skill{ID: "acme/result"}, hostile.Skill{ID: "acme/bad"},
		hostile.Skill{ID: "acme/gone"}, hostile.Skill{ID: "acme/denied"}, hostile.Skill{ID: "acme/auth"}, hostile.Skill{ID: "acme/limited"},
		hostile.Skill{ID: "acme/garbage"}, hostile.Skill{ID: "acme/slow"}, hostile.Skill{ID: "acme/again"},
		hostile.Skill{ID: "acme/new", Edit: func(d hostile.Object) { d["protocol"] = hostile.Object{"version": "2.0.0"} }},
		hostile.Skill{ID: "acme/broken", Edit: func(d hostile.Object) { delete(d, "endpoint") }},
	)
	p.On("acme/later", hostile.Invoke, hostile.Accept(2))
	p.On("acme/result", hostile.Invoke, hostile.AcceptForResult(0))
	p.On("acme/bad", hostile.Invoke, hostile.Fail("BROKEN", "It broke."))
	p.On("acme/gone", hostile.Invoke, hostile.Reset())
	p.On("acme/denied", hostile.Invoke, hostile.Problem(http.StatusForbidden, "PERMISSION_DENIED", "No."))
	p.On("acme/auth", hostile.Invoke, hostile.Problem(http.StatusUnauthorized, "AUTH_REQUIRED", "Who?"))
	p.On("acme/limited", hostile.Invoke, hostile.Respond(http.StatusTooManyRequests, `{"error":{"code":"RATE_LIMITED","message":"Later."}}`, "Retry-After", "60"))
	p.On("acme/garbage", hostile.Invoke, hostile.Respond(http.StatusOK, "[]"))
	p.On("acme/slow", hostile.Invoke, hostile.Hang())
	c := testbed.StartCaddy(t, withAdmin(testbed.Bridge("poll_interval 10ms 10ms", offered(p, "acme"))))

	for skill, want := range map[string]string{
		"acme.now": "completed", "acme.later": "completed", "acme.result": "completed", "acme.bad": "failed BROKEN",
		"acme.gone": "ENDPOINT_UNREACHABLE", "acme.denied": "PERMISSION_DENIED", "acme.auth": "AUTH_REQUIRED",
		"acme.limited": "RATE_LIMITED", "acme.garbage": "INVALID_PROVIDER_RESPONSE",
		"acme.new": "VERSION_INCOMPATIBLE", "acme.broken": "VALIDATION_ERROR", "acme.unknown": "SKILL_NOT_FOUND",
	} {
		if a := c.Execute(skill, nil); a.Outcome() != want {
			t.Errorf("%s: %v", skill, a)
		}
	}
	if a := c.With(testbed.Timeout(50*time.Millisecond)).Execute("acme.slow", nil); a.Outcome() != "INVOCATION_TIMEOUT" {
		t.Error(a)
	}
	if a := c.Execute("acme.now", hostile.Object{"call": "twice"}); a.Outcome() != "completed" {
		t.Error(a)
	}
	if a := c.Call("execute_skill", hostile.Object{"name": "acme.now", "args": hostile.Object{"call": 1}}); a.Code != -32602 {
		t.Error(a)
	}
	p.On("acme/later", hostile.Invoke, hostile.Accept(0))
	a := c.With(testbed.Param("wait_ms", 0)).Execute("acme.later", nil)
	if a.Outcome() != "running" {
		t.Fatal(a)
	}
	var running struct {
		Token string `json:"run_token"`
	}
	if err := json.Unmarshal(a.Result, &running); err != nil {
		t.Fatal(err)
	}
	if a := c.Call("get_run", hostile.Object{"run_token": running.Token}); a.Outcome() != "completed" {
		t.Fatal(a)
	}
	if a := c.Call("describe_skill", hostile.Object{"name": "acme.nothing"}); a.Data.Code != "SKILL_NOT_FOUND" {
		t.Error(a)
	}

	got := scrape(t, c)
	call := func(method, skill, outcome string) string {
		return fmt.Sprintf(`front="skills_protocol",method=%q,outcome=%q,provider="acme",skill=%q`, method, outcome, skill)
	}
	want := samples{
		call("execute_skill", "acme/now", "completed"):            2,
		call("execute_skill", "acme/now", "invalid_arguments"):    1,
		call("execute_skill", "acme/later", "completed"):          1,
		call("execute_skill", "acme/later", "running"):            1,
		call("get_run", "acme/later", "completed"):                1,
		call("execute_skill", "acme/result", "completed"):         1,
		call("execute_skill", "acme/bad", "failed"):               1,
		call("execute_skill", "acme/gone", "unreachable"):         1,
		call("execute_skill", "acme/denied", "permission_denied"): 1,
		call("execute_skill", "acme/auth", "auth_required"):       1,
		call("execute_skill", "acme/limited", "rate_limited"):     1,
		call("execute_skill", "acme/garbage", "provider_fault"):   1,
		call("execute_skill", "acme/slow", "timed_out"):           1,
		call("execute_skill", "acme/new", "version_incompatible"): 1,
		call("execute_skill", "acme/broken", "invalid_document"):  1,
		call("execute_skill", labelNone, "skill_not_found"):       1,
		call("describe_skill", labelNone, "skill_not_found"):      1,
	}
	if calls := got.of("calls_total"); !maps.Equal(calls, want) {
		t.Errorf("calls_total:\n%v\nwant\n%v", calls, want)
	}
	mustHave(t, got, samples{
		`call_duration_seconds_count{outcome="completed",provider="acme"}`:             5,
		`call_duration_seconds_count{outcome="timed_out",provider="acme"}`:             1,
		`call_duration_seconds_bucket{outcome="timed_out",provider="acme",le="0.025"}`: 0,  // it had 50 ms
		`phase_duration_seconds_count{phase="discovery"}`:                              14, // all that led to a skill that can be used
		`phase_duration_seconds_count{phase="submit"}`:                                 12, // one had invalid arguments, one was a get_run
		`phase_duration_seconds_count{phase="run"}`:                                    4,  // one did not wait
		`phase_duration_seconds_count{phase="polls"}`:                                  3,
		`phase_duration_seconds_count{phase="result"}`:                                 1,
		`phase_duration_seconds_count{phase="credentials"}`:                            0,
		`polls_per_run_count{provider="acme"}`:                                         4,
		`polls_per_run_sum{provider="acme"}`:                                           6, // 3 of later, 2 of result, 1 of get_run
		`calls_in_progress{provider="acme"}`:                                           0,
		`runs_waiting`:                                                                 0,
		`circuit_breakers_open{provider="acme"}`:                                       0,
	})
	if n := len(got.of("retries_total")); n > 0 {
		t.Errorf("retries without a budget: %v", got.of("retries_total"))
	}
	if n := len(got.of("overshoot_seconds_count")); n > 0 {
		t.Error("an overshoot is counted though nothing is known of one")
	}
}

// TestMetricsOfEffort: repeated invocations, tokens, and how late an end is noticed.
func TestMetricsOfEffort(t *testing.T) {
	countAnew(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/late"}, hostile.Skill{ID: "acme/busy", Edit: func(d hostile.Object) {
		d["endpoint"].(hostile.Object)["retry"] = hostile.Object{"max_attempts": 3, "backoff_ms": 10}
	}})
	busy := hostile.Problem(http.StatusServiceUnavailable, "ENDPOINT_UNREACHABLE", "Busy.")
	p.On("acme/busy", hostile.Invoke, busy, busy, hostile.Usual())
	p.On("acme/late", hostile.Invoke, hostile.Accept(0))
	p.On("acme/late", hostile.Status, func(x *hostile.Exchange) {
		x.JSON(http.StatusOK, x.Body("completed", hostile.Object{"output": 1, "timestamps": hostile.Object{
			"created_at": "2026-01-02T03:04:05.000Z", "updated_at": "2026-01-02T03:04:05.001Z", "completed_at": "2026-01-02T03:04:05.001Z",
		}}))
	})
	lines := []string{"allow_anonymous", "poll_interval 20ms 20ms", offered(p, "acme")}
	for namespace, answer := range map[string]hostile.Action{
		"granted": hostile.Usual(),
		"refused": hostile.Respond(http.StatusBadRequest, `{"error":"invalid_client"}`),
		"down":    hostile.Respond(http.StatusServiceUnavailable, ""),
	} {
		q := hostile.NewProvider(t)
		q.Publish(hostile.Skill{ID: namespace + "/x", Auth: hostile.OAuth2(q.TokenURL())})
		q.On("", hostile.Token, answer)
		lines = append(lines, offered(q, namespace, "credentials oauth2 {\n\t\tclient_id bridge\n\t\tclient_secret a-secret\n\t\tauth_style header\n\t}"))
	}
	c := testbed.StartCaddy(t, withAdmin(testbed.Bridge(lines...)))
	for skill, want := range map[string]string{
		"acme.late": "completed", "acme.busy": "completed",
		"granted.x": "completed", "refused.x": "AUTH_REQUIRED", "down.x": "ENDPOINT_UNREACHABLE",
	} {
		if a := c.Execute(skill, nil); a.Outcome() != want {
			t.Errorf("%s: %v", skill, a)
		}
	}
	if a := c.Execute("nothing", nil); a.Outcome() != "SKILL_NOT_FOUND" {
		t.Error(a)
	}
	got := scrape(t, c)
	mustHave(t, got, samples{
		`calls_total{front="skills_protocol",method="execute_skill",outcome="skill_not_found",provider="none",skill="none"}`: 1,
		`retries_total{provider="acme"}`:                                                                                   2,
		`overshoot_seconds_count{provider="acme"}`:                                                                         1,
		`overshoot_seconds_bucket{provider="acme",le="0.01"}`:                                                              0, // it was asked for after 20 ms
		`token_requests_total{outcome="ok",provider="granted"}`:                                                            1,
		`token_requests_total{outcome="refused",provider="refused"}`:                                                       1,
		`phase_duration_seconds_count{phase="credentials"}`:                                                                3,
		`calls_total{front="skills_protocol",method="execute_skill",outcome="unreachable",provider="down",skill="down/x"}`: 1,
	})
	tokens := got.of("token_requests_total")
	if down := tokens[`outcome="unavailable",provider="down"`]; down != float64(1) || len(tokens) != 3 {
		t.Errorf("token requests: %v", tokens)
	}
}

// TestMetricsOfRefusals: every rule of the guard, by the reason it stands for.
func TestMetricsOfRefusals(t *testing.T) {
	countAnew(t)
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "acme/address", Endpoint: "https://10.0.0.1/run"},
		hostile.Skill{ID: "acme/port", Endpoint: "https://example.com:81/run"},
		hostile.Skill{ID: "acme/host", Endpoint: "https://127.1/run"},
		hostile.Skill{ID: "acme/zone", Endpoint: "https://[fe80::1%25eth0]/run"},
	)
	c := testbed.StartCaddy(t, withAdmin(testbed.Bridge(offered(p, "acme"))))
	refused := func() samples { return scrape(t, c).of("refused_connections_total") }
	if got := refused(); len(got) != 3 || got[`reason="address"`] != 0 {
		t.Errorf("before any: %v", got)
	}
	if got := scrape(t, c).of("push_lost_total"); len(got) != 2 || got[`lost="event"`] != 0 { // which has an alert on its increase
		t.Errorf("before any: %v", got)
	}
	for _, skill := range []string{"address", "port", "host", "zone"} {
		before := refused()
		if a := c.Execute("acme."+skill, nil); a.Outcome() != "ENDPOINT_UNREACHABLE" {
			t.Error(a)
		}
		reason := skill
		if skill == "zone" {
			reason = "host"
		}
		for labels, n := range refused() {
			if grew := n > before[labels]; grew != (labels == `reason="`+reason+`"`) {
				t.Errorf("%s: %s went from %v to %v", skill, labels, before[labels], n)
			}
		}
	}
}

// TestMetricsOfCaches: exact figures, which neither a reload nor the end of a cache
// sets back.
func TestMetricsOfCaches(t *testing.T) {
	countAnew(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/x"})
	config := func(size, caller string) string {
		return withAdmin(testbed.Bridge("caller "+caller, "cache {\n\tmax_size "+size+"\n}", "circuit_breaker off", offered(p, "acme")))
	}
	c := testbed.StartCaddy(t, config("1MiB", "first"))
	client := c.With(testbed.Fresh())
	mustComplete := func() {
		t.Helper()
		if a := client.Execute("acme.x", nil); a.Outcome() != "completed" {
			t.Fatal(a)
		}
	}
	reload := func(size, caller string) {
		t.Helper()
		if err := c.Reload(config(size, caller)); err != nil {
			t.Fatal(err)
		}
	}
	calls := `calls_total{front="skills_protocol",method="execute_skill",outcome="completed",provider="acme",skill="acme/x"}`
	mustComplete()
	mustComplete()
	got := scrape(t, c)
	mustHave(t, got, samples{
		`cache_requests_total{result="fetched"}`: 2, `cache_requests_total{result="hit"}`: 2,
		`cache_requests_total{result="stale"}`: 0, `cache_requests_total{result="revalidated"}`: 0,
		`cache_requests_total{result="failed"}`: 0, `cache_requests_total{result="remembered"}`: 0,
		`cache_evictions_total`: 0, calls: 2,
	})
	if got["cache_bytes"] < 1000 {
		t.Errorf("cache_bytes is %v", got["cache_bytes"])
	}

	reload("1MiB", "second") // the same cache
	mustComplete()
	mustHave(t, scrape(t, c), samples{`cache_requests_total{result="fetched"}`: 2, `cache_requests_total{result="hit"}`: 4, calls: 3})

	reload("2MiB", "third") // another one
	got = scrape(t, c)
	mustHave(t, got, samples{
		`cache_requests_total{result="fetched"}`: 2, `cache_requests_total{result="hit"}`: 4, `cache_bytes`: 0, calls: 3,
	})
	mustComplete()
	mustHave(t, scrape(t, c), samples{`cache_requests_total{result="fetched"}`: 4, `cache_requests_total{result="hit"}`: 4, calls: 4})
}

// TestEvictionsOutliveTheirCache: a cache tells of them only while it is open.
func TestEvictionsOutliveTheirCache(t *testing.T) {
	countAnew(t)
	documents, err := cache.New(cache.Config{MaxSize: 64 << 10, TTL: time.Hour, MaxTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	end := CountCache(documents)
	for i := 0; documents.Statistics().Evicted == 0; i++ {
		if i == 1000 {
			t.Fatal("nothing was evicted")
		}
		_, err := documents.Get(t.Context(), cache.Request{
			URL: fmt.Sprint("https://a.example/", i), Timeout: time.Minute,
			Fetch: func(context.Context, http.Header) (*cache.Response, error) {
				return &cache.Response{StatusCode: http.StatusOK, Body: []byte("{}")}, nil
			},
			Parse: func(*cache.Response) (any, int64, error) { return nil, 8 << 10, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	before := processMetrics.cacheStatistics()
	end()
	documents.Close()
	if after := processMetrics.cacheStatistics(); after.Evicted != before.Evicted || after.Fetched != before.Fetched {
		t.Errorf("before its end %+v, after %+v", before, after)
	}
}

// TestMetricsOfTwoHandlers: what they have in common counts once, what each does is
// added up.
func TestMetricsOfTwoHandlers(t *testing.T) {
	countAnew(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/later"}, hostile.Skill{ID: "acme/down"})
	gate := hostile.NewGate(t)
	p.On("acme/later", hostile.Invoke, hostile.Accept(0))
	p.On("acme/later", hostile.Status, gate.Then(hostile.Usual()))
	q := hostile.NewProvider(t, hostile.Skill{ID: "beta/x"})
	bridge := func(path string, more ...string) string {
		return "skill_bridge " + path + " {\n\tname " + path[1:] + "\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\tpoll_interval 10ms 10ms\n" +
			"\tcircuit_breaker {\n\t\tfailures 2\n\t\tcooldown 10m\n\t}\n" + offered(p, "acme") + "\n" + strings.Join(more, "\n") + "\n}"
	}
	c := testbed.StartCaddy(t, withAdmin(testbed.Site(bridge("/rpc"), bridge("/other", offered(q, "beta")))))
	second := c.With()
	second.URL = strings.Replace(c.URL, "/rpc", "/other", 1)

	answers := make(chan testbed.Answer)
	for _, client := range []*testbed.Client{c.Client, second} {
		go func() { answers <- client.Execute("acme.later", nil) }()
	}
	testbed.Eventually(t, time.Minute, func() bool { return gate.Waiting() == 2 }, "two runs are under way")
	got := scrape(t, c)
	mustHave(t, got, samples{
		`calls_in_progress{provider="acme"}`: 2, `calls_in_progress{provider="beta"}`: 0, `runs_waiting`: 2,
		`cache_requests_total{result="fetched"}`: 2, // an index and a descriptor, for both
	})
	gate.Open()
	for range 2 {
		if a := <-answers; a.Outcome() != "completed" {
			t.Error(a)
		}
	}
	p.On("acme/down", hostile.Invoke, hostile.Reset())
	for failures, open := range []float64{0, 1} {
		if a := c.Execute("acme.down", nil); a.Outcome() != "ENDPOINT_UNREACHABLE" {
			t.Error(failures, a)
		}
		mustHave(t, scrape(t, c), samples{
			`calls_in_progress{provider="acme"}`: 0, `runs_waiting`: 0,
			`circuit_breakers_open{provider="acme"}`: open, `circuit_breakers_open{provider="beta"}`: 0,
		})
	}

	// A provider that is gone takes its gauges with it, though its breaker is still known.
	if err := c.Reload(withAdmin(testbed.Site(strings.Replace(bridge("/rpc"), offered(p, "acme"), offered(q, "beta"), 1)))); err != nil {
		t.Fatal(err)
	}
	got = scrape(t, c)
	for _, gauge := range []string{"calls_in_progress", "circuit_breakers_open"} {
		if series := got.of(gauge); !maps.Equal(series, samples{`provider="beta"`: 0}) {
			t.Errorf("%s after a reload without acme: %v", gauge, series)
		}
	}
}

// TestMetricsShowNoSecrets: nothing that an agent, a provider or the operator keeps
// to himself gets into the metrics, and no name breaks their format.
func TestMetricsShowNoSecrets(t *testing.T) {
	countAnew(t)
	const breaking = "acme/\"} 1\nevil_metric{x=\"\\"
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/x", Auth: hostile.APIKey("X-Key")}, hostile.Skill{ID: breaking, Unlisted: true}, // of an index it would be left out
		hostile.Skill{ID: "acme/" + strings.Repeat("long", 100)}, hostile.Skill{ID: "acme/fails"})
	p.On("acme/x", hostile.Invoke, hostile.Complete("canary-output"))
	p.On("acme/fails", hostile.Invoke, hostile.Fail("CANARY_CODE", "canary-message"))
	c := testbed.StartCaddy(t, withAdmin(testbed.Site(testbed.Accounts("canary-user"),
		"skill_bridge /rpc {\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\trequire_principal\n"+offered(p, "acme", "credentials api_key canary-key")+"\nskill direct "+p.URLOf(breaking, hostile.Descriptor)+"\n}")))
	client := c.With(testbed.BasicAuth("canary-user", testbed.Password), testbed.Header("Traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"))
	client.Execute("acme.x", hostile.Object{"call": "canary-argument"})
	client.Execute("acme.fails", nil)
	client.Execute("direct", nil)
	client.Execute("acme."+strings.Repeat("long", 100), nil)
	client.Execute("acme.canary-name", nil)
	client.Execute("canary-name\x00\xff", nil)
	client.Execute(strings.Repeat("canary-name", 10_000), nil)
	client.Call("canary_method", hostile.Object{"name": "acme.x"})
	client.Call("get_run", hostile.Object{"run_token": "canary-token"})
	text := scraped(t, c)
	for _, secret := range []string{
		"canary", "CANARY", "0123456789abcdef", p.URL(), ":" + p.Port(), "longlong", "\nevil_metric",
	} {
		if strings.Contains(text, secret) {
			t.Errorf("the metrics show %q", secret)
		}
	}
	got := scrape(t, c).of("calls_total")
	if n := got[`front="skills_protocol",method="execute_skill",outcome="completed",provider="direct",skill="acme/\"} 1\nevil_metric{x=\"\\"`]; n != 1 {
		t.Errorf("the skill with the hostile name is not counted: %v", got)
	}
	if n := got[`front="skills_protocol",method="execute_skill",outcome="completed",provider="acme",skill="other"`]; n != 1 {
		t.Errorf("the skill with the long name is not counted as other: %v", got)
	}
}

// TestSkillLabelsAreBounded: a provider may publish as many skills as it likes.
func TestSkillLabelsAreBounded(t *testing.T) {
	countAnew(t)
	const more = 30
	skills := make([]hostile.Skill, maxSkillLabels+more)
	for i := range skills {
		skills[i] = hostile.Skill{ID: fmt.Sprint("acme/skill-", i)}
	}
	p := hostile.NewProvider(t, skills...)
	c := testbed.StartCaddy(t, withAdmin(testbed.Bridge(offered(p, "acme"))))
	for range 2 {
		for _, s := range skills {
			if a := c.Execute(s.ID, nil); a.Outcome() != "completed" {
				t.Fatal(a)
			}
		}
	}
	calls := scrape(t, c).of("calls_total")
	if len(calls) != maxSkillLabels+1 {
		t.Errorf("%d series, want %d", len(calls), maxSkillLabels+1)
	}
	if n := calls[`front="skills_protocol",method="execute_skill",outcome="completed",provider="acme",skill="other"`]; n != 2*more {
		t.Errorf("%v calls of other skills, want %d", n, 2*more)
	}
}

func TestLabelSetConcurrently(t *testing.T) {
	set := labelSet{most: 50, known: map[string]string{}}
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 1000 {
				label := set.of(strconv.Itoa(i % 100))
				mu.Lock()
				seen[label] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 51 || !seen[labelOther] {
		t.Errorf("%d labels, want 50 and %s", len(seen), labelOther)
	}
	if label := set.of("late"); label != labelOther { // another one took the last place meanwhile
		t.Errorf("%q is one too many", label)
	}
	for text, want := range map[string]string{"": labelNone, "\xff": labelOther} {
		if got := set.of(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	if got := new(labelSet{most: 1, known: map[string]string{}}).of("a\xff"); got != "a\uFFFD" {
		t.Errorf("bad UTF-8 became %q", got)
	}
}

func TestOutcomeLabels(t *testing.T) {
	execute := &translate.Statistics{Operation: translate.OperationExecute}
	seen := map[string]bool{}
	for kind := run.Internal; kind <= run.RunFailed; kind++ {
		label := outcomeOf(&run.Run{Failure: &run.Failure{Kind: kind}}, execute)
		if label == "" || seen[label] {
			t.Errorf("kind %d is %q", kind, label)
		}
		seen[label] = true
	}
	for want, o := range map[string]*run.Run{
		"completed": {State: run.Completed},
		"running":   {State: run.Working},
		"failed":    {State: run.Failed, Failure: &run.Failure{Kind: run.RunFailed}},
		"internal":  {}, // as after a panic
	} {
		if got := outcomeOf(o, execute); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, o := range []translate.Operation{translate.OperationDescribe, translate.OperationList} {
		if got := outcomeOf(&run.Run{}, &translate.Statistics{Operation: o}); got != outcomeCompleted {
			t.Errorf("%s without a failure is %q", o, got)
		}
	}
	if got := outcomeOf(&run.Run{Failure: &run.Failure{Kind: math.MaxUint8}}, execute); got != "internal" {
		t.Errorf("an unknown kind is %q", got)
	}
}

func TestProviderLabels(t *testing.T) {
	for namespace, want := range map[string]string{"": labelNone, "acme": "acme", "a\xff": "a\uFFFD"} {
		if got := providerLabel(namespace); got != want {
			t.Errorf("%q is %q, want %q", namespace, got, want)
		}
	}
}

func TestTokenOutcomes(t *testing.T) {
	for status, want := range map[int]string{
		0: "unavailable", 200: "ok", 201: "ok", 302: "refused", 400: "refused", 401: "refused",
		408: "unavailable", 429: "unavailable", 500: "unavailable", 503: "unavailable",
	} {
		if got := tokenOutcome(status); got != want {
			t.Errorf("HTTP %d is %q, want %q", status, got, want)
		}
	}
}

// TestPublishedOutcomes: an invocation that ends with the process has not failed.
func TestPublishedOutcomes(t *testing.T) {
	countAnew(t)
	for state, outcome := range map[run.State]string{run.Completed: "completed", run.Lost: "stopped", run.Failed: "failed"} {
		Published("acme/pets", state, "")
		if n := counterValue(t, processMetrics.published.WithLabelValues("acme/pets", outcome)); n != 1 {
			t.Errorf("%s: %v", outcome, n)
		}
	}
}

// TestRefusalReasons: refusals are counted by the kind of their rule. A name that does
// not exist is not for the operator's rules to open.
func TestRefusalReasons(t *testing.T) {
	m := newMetrics()
	for _, rule := range []run.Rule{run.RuleAddress, run.RulePort, run.RuleHost, run.RuleNoSuchHost} {
		m.refused(&exchange.RefusedError{Rule: rule})
	}
	for _, rule := range []run.Rule{run.RuleAddress, run.RulePort, run.RuleHost} {
		if n := counterValue(t, m.refusals.WithLabelValues(string(rule))); n != 1 {
			t.Errorf("%s is counted %v times", rule, n)
		}
	}
}

// counterValue reads a counter as a registry does.
func counterValue(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%v: %v", families, err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

// TestRegistering: two handlers of a configuration have one registry; another
// module's metric of the same name is an error.
func TestRegistering(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for range 2 {
		if err := RegisterMetrics(registry); err != nil {
			t.Error(err)
		}
	}
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
	taken := prometheus.NewPedanticRegistry()
	taken.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: metricPrefix + "cache_bytes", Help: "Something else."}))
	if err := RegisterMetrics(taken); err == nil {
		t.Error("a name that is taken is no error")
	}
}

// metric is what is known of a metric by its description.
type metric struct{ name, labels string }

var descText = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// described are all metrics that there are.
func describedMetrics(t *testing.T) []metric {
	t.Helper()
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		newMetrics().Describe(descs)
	}()
	var all []metric
	for d := range descs {
		match := descText.FindStringSubmatch(d.String())
		if match == nil {
			t.Fatalf("unknown form: %s", d)
		}
		all = append(all, metric{match[1], match[2]})
	}
	return all
}

// TestMetricsAreDocumented compares the manual's table with the metrics there are.
func TestMetricsAreDocumented(t *testing.T) {
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `("+metricPrefix+"[a-z_]+)` \\|([^|]*)\\|").FindAllStringSubmatch(manuals.Read(t, manuals.Monitoring), -1) {
		rows[row[1]] = strings.NewReplacer("`", "", " ", "").Replace(row[2])
	}
	for _, m := range describedMetrics(t) {
		labels, documented := rows[m.name]
		if !documented {
			t.Errorf("the manual has no row for %s", m.name)
			continue
		}
		if labels != m.labels {
			t.Errorf("%s has the labels %q, the manual says %q", m.name, m.labels, labels)
		}
		delete(rows, m.name)
	}
	for name := range rows {
		t.Errorf("the manual has a row for %s, which does not exist", name)
	}
}

// TestBuildInfo: a metric has the versions of the program.
func TestBuildInfo(t *testing.T) {
	SetVersions("v1.2.3", "v2.0.0")
	registry := prometheus.NewRegistry()
	if err := RegisterMetrics(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == metricPrefix+"build_info" {
			if got := f.GetMetric()[0].String(); !strings.Contains(got, "v1.2.3") || !strings.Contains(got, "v2.0.0") || !strings.Contains(got, runtime.Version()) {
				t.Error(got)
			}
			return
		}
	}
	t.Error("there is no such metric")
}

// monitoring reads a file of the monitoring example.
func monitoring(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(manuals.Repository(t), "caddyfile-examples/monitoring", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var metricUse = regexp.MustCompile(`caddy_skill_bridge_[a-z_]+`)

// labelWords are what expressions compare labels with. Names of methods are those of the protocols.
var labelWords = regexp.MustCompile(`\b(?:outcome|reason|state|result|lost|event)[!=]~?"([^"]+)"`)

// mustExist checks every metric of an expression or a text, and the values of its labels.
func mustExist(t *testing.T, where, text string) {
	t.Helper()
	manual := manuals.Read(t, manuals.Monitoring)
	for _, words := range labelWords.FindAllStringSubmatch(strings.ReplaceAll(text, `\"`, `"`), -1) {
		for word := range strings.SplitSeq(words[1], "|") {
			if !strings.Contains(manual, "`"+word+"`") {
				t.Errorf("%s selects %s, which no metric has", where, words[0])
			}
		}
	}
	known := map[string]bool{}
	for _, m := range describedMetrics(t) {
		known[m.name] = true
	}
	for _, name := range metricUse.FindAllString(text, -1) {
		base := name
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			base = strings.TrimSuffix(base, suffix)
		}
		if !known[base] {
			t.Errorf("%s uses %s, which does not exist", where, name)
		}
	}
}

type datasource struct{ Type, UID string }

// TestDashboard: Grafana can read it, and asks only for what there is, of the data
// source that the viewer chooses.
func TestDashboard(t *testing.T) {
	text := monitoring(t, "dashboard.json")
	var dashboard struct {
		Title, UID    string
		SchemaVersion int
		Templating    struct{ List []struct{ Name, Type string } }
		Panels        []struct {
			ID                 int
			Title, Description string
			Datasource         datasource
			GridPos            struct{ X, Y, W, H int }
			Targets            []struct {
				Expr, RefID string
				Datasource  datasource
			}
		}
	}
	if err := json.Unmarshal(text, &dashboard, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if dashboard.Title == "" || dashboard.UID == "" || dashboard.SchemaVersion < 36 {
		t.Errorf("title %q, uid %q, schema version %d", dashboard.Title, dashboard.UID, dashboard.SchemaVersion)
	}
	if list := dashboard.Templating.List; len(list) == 0 || list[0].Name != "datasource" || list[0].Type != "datasource" {
		t.Errorf("the first variable is not the data source: %v", list)
	}
	mustExist(t, "the dashboard", string(text))
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range dashboard.Panels {
		if p.Title == "" || p.Description == "" || ids[p.ID] || len(p.Targets) == 0 {
			t.Errorf("panel %d, %q: %d targets, description %q", p.ID, p.Title, len(p.Targets), p.Description)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if cells[[2]int{x, y}] != "" || x >= 24 {
					t.Fatalf("%q lies on %q at %d, %d", p.Title, cells[[2]int{x, y}], x, y)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if !metricUse.MatchString(target.Expr) || refs[target.RefID] || target.Datasource != (datasource{"prometheus", "${datasource}"}) || p.Datasource != target.Datasource {
				t.Errorf("%q: %+v", p.Title, target)
			}
			refs[target.RefID] = true
		}
	}
	for _, m := range describedMetrics(t) { // an operator sees all that there is
		if !strings.Contains(string(text), m.name) {
			t.Errorf("no panel shows %s", m.name)
		}
	}
}

// TestAlertRules: promtool checks them; this is about what they ask for, what the manual says about each, and that each has tests.
func TestAlertRules(t *testing.T) {
	for _, file := range []string{"alerts.yml", "alerts.test.yml", "README.md"} {
		text := monitoring(t, file)
		if file != "README.md" && !metricUse.Match(text) {
			t.Errorf("%s uses no metric", file)
		}
		mustExist(t, file, string(text))
		if file != "alerts.yml" {
			continue
		}
		manual, tests := string(monitoring(t, "README.md")), string(monitoring(t, "alerts.test.yml"))
		_, runbook, _ := strings.Cut(manual, "\n## Alerts\n")
		runbook, _, _ = strings.Cut(runbook, "\n## ")
		rules := strings.Split(string(text), "- alert:")[1:]
		if rows := strings.Count(runbook, "\n| `"); rows != len(rules) {
			t.Errorf("the manual says what to do after %d alerts, of %d", rows, len(rules))
		}
		for _, rule := range rules {
			name := strings.TrimSpace(strings.SplitN(rule, "\n", 2)[0])
			if !strings.Contains(runbook, "\n| `"+name+"` | ") {
				t.Errorf("the manual does not say what to do after %s", name)
			}
			if !strings.Contains(tests, "alertname: "+name+",") || !strings.Contains(tests, `alertname="`+name+`", alertstate="firing"`) {
				t.Errorf("no test says when %s fires, and when not", name)
			}
			for _, member := range []string{"expr:", "for:", "severity:", "summary:", "description:"} {
				if !strings.Contains(rule, member) {
					t.Errorf("the rule %s has no %s", name, member)
				}
			}
		}
	}
}

// TestMonitoringCaddyfile adapts what the manual shows to serve the metrics.
func TestMonitoringCaddyfile(t *testing.T) {
	block := manuals.In(t, "caddyfile", manuals.Monitoring)[0]
	if adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(block.Text), nil); err != nil || !strings.Contains(string(adapted), `"handler":"metrics"`) {
		t.Errorf("%v: %s", err, adapted)
	}
}

// BenchmarkMetricsOfCall is what counting a call adds to it.
func BenchmarkMetricsOfCall(b *testing.B) {
	countAnew(b)
	o := NewObserver(zap.NewNop(), false, nil)
	arrived := time.Now()
	c := &translate.Call{Caller: run.Caller{Front: "skills_protocol", Method: "execute_skill", Arrived: arrived}, Name: "acme.x"}
	completed := &run.Run{Ref: run.Ref{SkillID: "acme/x"}, State: run.Completed}
	failed := &run.Run{Ref: run.Ref{SkillID: "acme/x"}, Failure: &run.Failure{Kind: run.DeadlineExceeded, Cause: errors.New("late")}}
	at := func(ms int) time.Time { return arrived.Add(time.Duration(ms) * time.Millisecond) }
	once := &translate.Statistics{Source: "acme", Duration: time.Second, Found: at(1), Submitted: at(2), Stats: skillsharing.Stats{Attempts: 1}}
	polled := *once
	polled.Followed = at(90)
	polled.Stats = skillsharing.Stats{
		Attempts: 2, Polls: 3, Credentials: time.Millisecond, Polling: time.Millisecond, Result: time.Millisecond, Overshoot: time.Millisecond,
	}
	for _, bc := range []struct {
		name    string
		outcome *run.Run
		s       *translate.Statistics
	}{{"once", completed, once}, {"polled", completed, &polled}, {"failed", failed, once}} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				o.metrics.called(c, bc.outcome, bc.s)
			}
		})
		b.Run(bc.name+"-parallel", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					o.metrics.called(c, bc.outcome, bc.s)
				}
			})
		})
	}
}

// TestNothingSubmitted: a call that is refused before anything is sent has no phase of
// submission.
func TestNothingSubmitted(t *testing.T) {
	countAnew(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/key", Auth: hostile.APIKey("X-Key")})
	c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+testbed.Bridge("provider "+p.URL()+" {", "namespace acme", "}"))
	if a := c.Execute("acme.key", nil); a.Outcome() != "AUTH_REQUIRED" {
		t.Fatal(a)
	}
	mustHave(t, scrape(t, c), samples{`phase_duration_seconds_count{phase="discovery"}`: 1, `phase_duration_seconds_count{phase="submit"}`: 0})
}
