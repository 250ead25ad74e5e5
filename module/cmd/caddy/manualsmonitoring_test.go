package main_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// monitoringCaddyfile returns the Caddyfile of the manual with this line, as an example with a
// provider on this machine.
func monitoringCaddyfile(t *testing.T, line string) *example {
	t.Helper()
	for _, block := range manuals.In(t, "caddyfile", manuals.Monitoring) {
		if !strings.Contains(block.Text, line+"\n") {
			continue
		}
		p := newProvider(t, skill{id: "acme/translate"})
		e := newExample(t, block.Text)
		e.replace("bridge.example.com {", "http://localhost:8080 {")
		e.replace("provider https://skills.example.com", "provider "+p.URL+" {\n\t\t\tnamespace acme\n\t\t}")
		e.onLoopback()
		return e
	}
	t.Fatalf("the manual has no Caddyfile with a line %q", strings.TrimSpace(line))
	return nil
}

// TestManualsAudit: audit lines are only in the manual's file, because the default log excludes
// loggers that another log includes.
func TestManualsAudit(t *testing.T) {
	e := monitoringCaddyfile(t, "\t\taudit")
	b := e.start()
	b.execute("acme.translate", "acme/translate")
	const line = `"logger":"http.handlers.skill_bridge.audit","msg":"call"`
	if log := b.loggedTo(0); strings.Contains(log, line) || !strings.Contains(log, `"logger":"http.handlers.skill_bridge"`) {
		t.Errorf("the default log has the audited call, or not its own line:\n%s", log)
	}
	if log := b.loggedTo(1); strings.Count(log, "\n") != 1 || !strings.Contains(log, line) {
		t.Errorf("the audit log has other lines than the call's:\n%s", log)
	}
}

// TestManualsMetrics: what the manual scrapes has all series after a reload that fails, and says that it has failed, and has not twice
// as many after one that succeeds. The admin API has none, as the manual says; if it has, the manual need not advise against it.
func TestManualsMetrics(t *testing.T) {
	const scraped = "localhost:9180"
	if !strings.Contains(manuals.Read(t, manuals.Monitoring), `targets: ["`+scraped+`"]`) {
		t.Errorf("the manual does not scrape %s", scraped)
	}
	p := newProvider(t, skill{id: "acme/translate"})
	const site = "http://localhost:8080 {\n\tskill_bridge /rpc {\n\t\tprovider PROVIDER {\n\t\t\tnamespace acme\n\t\t}\n\t\tallow_anonymous\n\t}\n}\n"
	e := newExample(t, manuals.In(t, "caddyfile", manuals.Monitoring)[0].Text+strings.ReplaceAll(site, "PROVIDER", p.URL))
	e.onLoopback()
	handler := "localhost:" + testbed.FreePort(t)
	e.replace(scraped, handler)
	e.admin = "localhost:" + testbed.FreePort(t)
	b := e.start()
	b.execute("acme.translate", "acme/translate")

	// series returns the series of the bridge, without their values, and whether the last reload was successful.
	series := func(address string) (names []string, reloaded string) {
		t.Helper()
		for line := range strings.Lines(b.send(http.MethodGet, "http://"+address+"/metrics", "").body) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch {
			case strings.HasPrefix(name, "caddy_skill_bridge_"):
				names = append(names, name)
			case name == "caddy_config_last_reload_successful":
				reloaded = value
			}
		}
		return names, reloaded
	}
	before, reloaded := series(handler)
	if len(before) < 50 || reloaded != "1" {
		t.Fatalf("there are %d series, and the reload was %q", len(before), reloaded)
	}
	good := e.text
	e.replace("namespace acme", "namespace acme\n\t\t\tcredentials api_key {env.SKILL_BRIDGE_UNSET}")
	if err := caddy.Load(e.config(), true); err == nil {
		t.Fatal("a configuration without its secret is loaded")
	}
	if after, reloaded := series(handler); !slices.Equal(after, before) || reloaded != "0" {
		t.Errorf("after a failed reload, there are %d series instead of %d, and the reload was %q", len(after), len(before), reloaded)
	}
	if atAdmin, reloaded := series(e.admin); len(atAdmin) != 0 || reloaded != "0" {
		t.Errorf("the admin API has %d series, and the reload was %q: is the manual still right?", len(atAdmin), reloaded)
	}
	b.execute("acme.translate", "acme/translate")
	e.text = good
	if err := caddy.Load(e.config(), true); err != nil {
		t.Fatal(err)
	}
	b.client.CloseIdleConnections()
	if after, reloaded := series(handler); !slices.Equal(after, before) || reloaded != "1" {
		t.Errorf("after a good reload, there are %d series instead of %d, and the reload was %q", len(after), len(before), reloaded)
	}
}

// TestManualsTracing: the manual's environment variables work as described. Each case starts a
// process, because some variables are read only once.
func TestManualsTracing(t *testing.T) {
	manual := manuals.Read(t, manuals.Monitoring)
	for name, tc := range map[string]struct {
		variables map[string]string
		service   string // service name of the spans; empty: no spans are sent
	}{
		"defaults":     {map[string]string{}, "unknown_service:"},
		"a service":    {map[string]string{"OTEL_SERVICE_NAME": "bridge"}, "bridge"},
		"always_off":   {map[string]string{"OTEL_TRACES_SAMPLER": "always_off"}, ""},
		"a share of 0": {map[string]string{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, ""},
		"a share of 1": {map[string]string{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}, "unknown_service:"},
		"a protocol":   {map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, "unknown_service:"},
	} {
		t.Run(name, func(t *testing.T) {
			c := new(traces)
			server := httptest.NewServer(c)
			t.Cleanup(server.Close)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
			for variable, value := range tc.variables {
				t.Setenv(variable, value)
				if !strings.Contains(manual, "| `"+variable+"` |") {
					t.Errorf("the manual does not explain %s", variable)
				}
			}
			e := monitoringCaddyfile(t, "\ttracing")
			address := "localhost:" + testbed.FreePort(t)
			e.replace("localhost:8080", address)
			e.text = "{\n\tadmin off\n\tpersist_config off\n}\n" + e.text
			caddy := runCaddyfile(e, "Caddyfile")
			bridgeAt(t, address).execute("acme.translate", "acme/translate")
			stopCaddy(t, caddy) // sends the remaining spans
			c.mu.Lock()
			defer c.mu.Unlock()
			if sent := slices.Contains(c.spans, "execute_skill"); sent != (tc.service != "") || !strings.HasPrefix(c.service, tc.service) {
				t.Errorf("the spans %v of %q were sent, want them of %q", c.spans, c.service, tc.service)
			}
		})
	}
}

// traces are the spans that a collector received.
type traces struct {
	mu      sync.Mutex
	service string
	spans   []string
}

func (c *traces) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request collectorpb.ExportTraceServiceRequest
	if body, err := io.ReadAll(r.Body); err != nil || proto.Unmarshal(body, &request) != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "these are no spans", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, attribute := range resource.Resource.Attributes {
			if attribute.Key == "service.name" {
				c.service = attribute.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				c.spans = append(c.spans, span.Name)
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf") // an empty message
}
