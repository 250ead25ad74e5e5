package bridge

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/skill-bridge/caddy-skill-bridge/module/sources"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// load provisions a handler as Caddy does, without a server around it.
func load(t *testing.T, config string) (*Handler, error) {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	module, err := ctx.LoadModuleByID("http.handlers.skill_bridge", []byte(config))
	if err != nil {
		return nil, err
	}
	return module.(*Handler), nil
}

func mustLoad(t *testing.T, config string) *Handler {
	t.Helper()
	h, err := load(t, config)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// call sends a JSON-RPC request to a handler.
func call(h *Handler, body string, variables map[string]string) *httptest.ResponseRecorder {
	replacer := caddy.NewReplacer()
	for name, value := range variables {
		replacer.Set(name, value)
	}
	r := httptest.NewRequest(http.MethodPost, "/rpc", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r = r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, replacer))
	w := httptest.NewRecorder()
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
		panic("the next handler was called")
	})
	if err := h.ServeHTTP(w, r, next); err != nil {
		panic(err)
	}
	return w
}

const listSkills = `{"jsonrpc":"2.0","id":1,"method":"list_skills"}`

// provider is a provider of skills on the loopback interface.
func provider(t *testing.T, serve http.HandlerFunc) (url string) {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	return server.URL
}

func serveIndex(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"protocol":{"version":"1.0.0"},"provider":{"name":"Test","url":"https://example.com"},"skills":[{
		"id":"test/echo","name":"Echo","capability_type":"api","description":"Says it again.",
		"descriptor_url":"https://example.com/echo.json","access":"public","version":"1.0.0"}]}`)
}

func loopbackConfig(origin string) string {
	return `{"providers":[{"origin":"` + origin + `","namespace":"test"}],"allow_http":true,"allow_networks":["127.0.0.0/8"]}`
}

func TestServe(t *testing.T) {
	h := mustLoad(t, loopbackConfig(provider(t, serveIndex)))
	w := call(h, listSkills, nil)
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, `"name":"test.echo"`) {
		t.Errorf("%d %s", w.Code, body)
	}
}

func TestGuardIsInPlace(t *testing.T) {
	origin := provider(t, func(http.ResponseWriter, *http.Request) { t.Error("the provider was reached") })
	h := mustLoad(t, `{"providers":[{"origin":"`+origin+`","namespace":"test"}],"allow_http":true}`)
	if body := call(h, listSkills, nil).Body.String(); !strings.Contains(body, "address is not public") {
		t.Errorf("%s", body)
	}
}

func TestRequirePrincipal(t *testing.T) {
	h := mustLoad(t, `{"require_principal":true}`)
	for name, id := range map[string]string{"alice": "alice", "nobody": "", "blank": "  \t"} {
		body := call(h, listSkills, map[string]string{"http.auth.user.id": id}).Body.String()
		if refused := strings.Contains(body, "AUTH_REQUIRED"); refused != (strings.TrimSpace(id) == "") {
			t.Errorf("%s: %s", name, body)
		}
	}
}

func TestPrincipal(t *testing.T) {
	for _, tc := range []struct {
		option, id, want string
		ambiguous        bool
	}{
		{"", " alice ", "", true},
		{"{http.auth.user.id}", "alice\u00a0", "", true},
		{"", "al\x7fice", "", true},
		{"", "  \t", "", true},
		{"", "alice smith", "alice smith", false},
		{"", "", "", false},
		{"{http.auth.user.id}", "bob", "bob", false},
		{"{http.request.header.Remote-User}", "alice", "", false},  // unknown here
		{"{http.auth.user.id}", "{env.HOME}", "{env.HOME}", false}, // not replaced again
	} {
		config := `{}`
		if tc.option != "" {
			config = `{"principal":"` + tc.option + `"}`
		}
		h := mustLoad(t, config)
		replacer := caddy.NewReplacer()
		replacer.Set("http.auth.user.id", tc.id)
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r = r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, replacer))
		if got, ambiguous := h.principalOf(r); got != tc.want || (ambiguous != "") != tc.ambiguous {
			t.Errorf("%q with %q: %q, %q, want %q, %t", tc.option, tc.id, got, ambiguous, tc.want, tc.ambiguous)
		}
	}
	if got, _ := mustLoad(t, `{}`).principalOf(httptest.NewRequest(http.MethodPost, "/", nil)); got != "" {
		t.Errorf("without a replacer: %q", got)
	}
	h := mustLoad(t, `{"principal":"{http.request.header.remote-user}"}`)
	for _, tc := range []struct {
		values          []string
		want, ambiguous string
	}{
		{[]string{"alice"}, "alice", ""},
		{nil, "", ""},
		{[]string{""}, "", ""},
		{[]string{"", ""}, "", ""},
		{[]string{","}, "", ""},
		{[]string{",,"}, "", ""},
		{[]string{"carol", "alice"}, "", run.SeveralPrincipals},
		{[]string{"carol", ""}, "", run.SeveralPrincipals},
		{[]string{"CN=carol", "CN=alice"}, "", run.SeveralPrincipals},
		{[]string{"carol,alice"}, "", run.SeveralPrincipals},
		{[]string{"carol,"}, "", run.SeveralPrincipals},
		{[]string{",alice"}, "", run.SeveralPrincipals},
		{[]string{"Doe, Jane"}, "Doe, Jane", ""},
		{[]string{"CN=jane,OU=lab,O=acme"}, "CN=jane,OU=lab,O=acme", ""},
		{[]string{"al\tice"}, "", run.AmbiguousPrincipal},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header["Remote-User"] = tc.values
		replacer := caddyhttp.NewTestReplacer(r)
		if got, ambiguous := h.principalOf(r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, replacer))); got != tc.want || ambiguous != tc.ambiguous {
			t.Errorf("%q: %q, %q, want %q, %q", tc.values, got, ambiguous, tc.want, tc.ambiguous)
		}
	}
}

func TestTraceID(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	for value, want := range map[string]string{
		"00-" + id + "-00f067aa0ba902b7-01":                        id,
		"00-" + id + "-00f067aa0ba902b7-00":                        id,
		"01-" + id + "-00f067aa0ba902b7-01":                        id,
		"01-" + id + "-00f067aa0ba902b7-01-x":                      id,
		"ff-" + id + "-00f067aa0ba902b7-01":                        "",
		"00-" + strings.ToUpper(id) + "-00f067aa0ba902b7-01":       "",
		"00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01":   "",
		"00-" + id + "-" + strings.Repeat("0", 16) + "-01":         "",
		"00-" + id + "-00f067aa0ba902b7":                           "",
		"00-" + id + "-00f067aa0ba902b7-01-x":                      "",
		"00-" + id + "0-00f067aa0ba902b7-01":                       "",
		"00-" + strings.Replace(id, "4", "g", 1) + "-00f067aa0-01": "",
		"": "",
	} {
		if got := traceID([]string{value}); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
	valid := "00-" + id + "-00f067aa0ba902b7-01"
	if traceID(nil) != "" || traceID([]string{valid, valid}) != "" {
		t.Error("no or several headers have a trace id")
	}
}

// TestLoadErrors covers what a Caddyfile can't say or the adapter can't find.
func TestLoadErrors(t *testing.T) {
	for config, want := range map[string]string{
		`{"frobnicate":1}`:                                   "frobnicate",
		`{"providers":[null]}`:                               "providers[0]: provider is null",
		`{"skills":[null]}`:                                  "skills[0]: skill is null",
		`{"registries":[null]}`:                              "registries[0]: registry is null",
		`{"providers":[{}]}`:                                 "providers[0].origin: provider origin is empty",
		`{"providers":[{"origin":"https://a/b"}]}`:           "providers[0].origin: provider origin \"https://a/b\" has a path",
		`{"skills":[{"url":"https://a.example"}]}`:           "skills[0].name: skill has an empty name",
		`{"skills":[{"name":"a"}]}`:                          "skills[0].url: descriptor URL is empty",
		`{"registries":[{"url":""}]}`:                        "registries[0].url: registry URL is empty",
		`{"timeout":-1}`:                                     "timeout: timeout -1ns is too short",
		`{"max_timeout":"1us"}`:                              "max_timeout: maximum of timeout 1µs is too short",
		`{"timeout":"1h"}`:                                   "timeout: timeout 1h0m0s is longer than its maximum of 10m0s",
		`{"max_timeout":"-1m"}`:                              "max_timeout: maximum of timeout -1m0s is too short",
		`{"poll_interval":-5}`:                               "poll_interval: ",
		`{"max_poll_interval":-5}`:                           "max_poll_interval: ",
		`{"max_response_size":-1}`:                           "max_response_size: max_response_size -1 is negative",
		`{"max_request_size":-1}`:                            "max_request_size: max_request_size -1 is negative",
		`{"max_response_size":9223372036854775807}`:          "max_response_size: ",
		`{"max_response_size":9223372036854775808}`:          "max_response_size",
		`{"max_batch":-1}`:                                   "max_batch: max_batch -1 is negative",
		`{"cache":{"max_size":-1}}`:                          "cache.max_size: ",
		`{"cache":{"ttl":-1}}`:                               "cache.ttl: ",
		`{"cache":{"max_ttl":-1}}`:                           "cache.max_ttl: ",
		`{"cache":{"stale_if_error":-1}}`:                    "cache.stale_if_error: ",
		`{"cache":{"negative_ttl":"-1s"}}`:                   "cache.negative_ttl: ",
		`{"allow_networks":["private_ranges"]}`:              "allow_networks[0]: ",
		`{"allow_ports":[0]}`:                                "allow_ports[0]: ",
		`{"allow_ports":[443,70000]}`:                        "allow_ports[1]: ",
		`{"priority":"urgent"}`:                              "priority: ",
		`{"principal":"alice"}`:                              "principal: ",
		`{"transport":{"protocol":"fastcgi"}}`:               "transport: transport \"fastcgi\": only http is possible",
		`{"transport":{"protocol":"http","versions":["5"]}}`: "transport: ",
		`{"providers":[{"origin":"https://a.example","namespace":"x"},{"origin":"https://b.example","namespace":"x"}]}`:                                       "providers[1].namespace: namespace \"x\" is given twice",
		`{"providers":[{"origin":"https://a.example","aliases":[{"name":"a","skill_id":"1"},{"name":"a","skill_id":"2"}]}]}`:                                  "providers[0].aliases[1].name: name \"a\" is given twice",
		`{"a2a":{"security":[{"name":"a","type":"mutual_tls"},{"name":"a","type":"mutual_tls"}]}}`:                                                            "a2a.security[1]: two security schemes have the name \"a\"",
		`{"a2a":{"card":"1.0","versions":["0.3"]}}`:                                                                                                           "a2a.card: the card can't have the form 1.0: that version is switched off",
		`{"a2a":{"url":"https://a.example/a2a?x=1"}}`:                                                                                                         "a2a.url: \"https://a.example/a2a?x=1\" can't be the URL of a mount",
		`{"providers":[{"origin":"https://a.example","aliases":[{"name":"a"}]}]}`:                                                                             "providers[0].aliases[0].skill_id: ",
		`{"providers":[{"origin":"https://a.example","trust":["b.example","c.example/"]}]}`:                                                                   "providers[0].trust[1]: ",
		`{"providers":[{"origin":"https://a.example","capability_types":["tool"]}]}`:                                                                          "providers[0].capability_types[0]: ",
		`{"providers":[{"origin":"https://a.example","credentials":{"type":"api_key","key":"k"}}]}`:                                                           "providers[0].credentials: credentials need require_principal",
		`{"require_principal":true,"allow_anonymous":true}`:                                                                                                   "allow_anonymous: ",
		`{"allow_anonymous":true,"providers":[{"origin":"https://a.example","credentials":{"type":"magic"}}]}`:                                                "providers[0].credentials (https://a.example): ",
		`{"allow_anonymous":true,"providers":[{"origin":"https://a.example","credentials":{"key":"k"}}]}`:                                                     "providers[0].credentials (https://a.example): ",
		`{"allow_anonymous":true,"providers":[{"origin":"https://a.example","credentials":{"type":"api_key","key":"{env.SKILL_BRIDGE_TEST_UNSET}"}}]}`:        "providers[0].credentials (https://a.example): ",
		`{"allow_anonymous":true,"providers":[{"origin":"https://a.example","discovery_credentials":{"type":"no_credentials"}}]}`:                             "providers[0].discovery_credentials (https://a.example): module *bridge.noCredentials does not provide credentials",
		`{"allow_anonymous":true,"skills":[{"name":"a","url":"https://a.example","credentials":{"type":"no_credentials"}}]}`:                                  "skills[0].credentials (a): ",
		`{"allow_anonymous":true,"registries":[{"url":"https://a.example","discovery_credentials":{"type":"no_credentials"}}]}`:                               "registries[0].discovery_credentials (https://a.example): ",
		`{"providers":[{"origin":"https://a.example","transport":{"protocol":"http","tls":{"curves":["square"]}}}]}`:                                          "providers[0].transport (https://a.example): ",
		`{"skills":[{"name":"a","url":"https://a.example","transport":{"protocol":"http","tls":{"curves":["square"]}}}]}`:                                     "skills[0].transport (a): ",
		`{"allow_anonymous":true,"providers":[{"origin":"https://a.example","credentials":{"type":"api_key","key":"one","key":"two"}}],"timeout":"30s"}`:      "providers[0].credentials: credentials are not valid JSON",
		`{"allow_anonymous":true,"providers":[{"origin":"https://a.example","discovery_credentials":{"type":"oauth2","client_id":"c","client_secret":"s"}}]}`: "providers[0].discovery_credentials: discovery_credentials oauth2 needs token_url",
		`{"allow_anonymous":true,"registries":[{"url":"https://a.example","discovery_credentials":{"type":"oauth2","client_id":"c","client_secret":"s"}}]}`:   "registries[0].discovery_credentials: discovery_credentials oauth2 needs token_url",
		`{"allow_anonymous":true,"providers":[{"origin":"https://a.example","discovery_credentials":{"type":"for_skills_only"}}]}`:                            "providers[0].discovery_credentials (https://a.example): credentials of this kind need a skill's descriptor",
		`{"allow_anonymous":true,"registries":[{"url":"https://a.example","discovery_credentials":{"type":"for_skills_only"}}]}`:                              "registries[0].discovery_credentials (https://a.example): credentials of this kind need a skill's descriptor",
		`{"transport":{"protocol":"http","resolver":{"addresses":["10.0.0.53:dns"]}}}`:                                                                        "transport: transport: resolver \"10.0.0.53:dns\"",
	} {
		if _, err := load(t, config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}

// noCredentials is a module in the namespace of credentials that is none.
type noCredentials struct{}

func (*noCredentials) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.skill_bridge.credentials.no_credentials", New: func() caddy.Module { return new(noCredentials) }}
}

// forSkillsOnly are credentials that can't read documents.
type forSkillsOnly struct{}

func (*forSkillsOnly) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.skill_bridge.credentials.for_skills_only", New: func() caddy.Module { return new(forSkillsOnly) }}
}

func (*forSkillsOnly) Supports(auth *document.Auth) bool { return auth != nil }

func (*forSkillsOnly) Authenticate(context.Context, *credential.Authentication) error { return nil }

func (*forSkillsOnly) Secrets() []string { return nil }

func init() {
	caddy.RegisterModule(new(noCredentials))
	caddy.RegisterModule(new(forSkillsOnly))
}

func TestPorts(t *testing.T) {
	configured := &sources.Sources{
		Providers: []*sources.Provider{{
			Origin: "https://a.example:8443", Trust: []string{"b.example", "c.example:8444", "[::1]:8445"},
			CredentialsRaw: []byte(`{"type":"oauth2","client_id":"a:99","token_url":"https://d.example:8446/token"}`),
		}, {Origin: "https://a.example"}},
		Skills:     []*sources.Skill{{URL: "http://e.example:8080/s.json"}},
		Registries: []*sources.Registry{{URL: "https://f.example:8447"}},
	}
	got, err := (&Network{AllowPorts: []int{9000}}).ports(configured)
	if err != nil {
		t.Fatal(err)
	}
	want := []uint16{80, 443, 8080, 8443, 8444, 8445, 8446, 8447, 9000}
	for _, port := range want {
		if !got[port] {
			t.Errorf("port %d is not allowed", port)
		}
	}
	if len(got) != len(want) {
		t.Errorf("allowed are %v, want %v", got, want)
	}
}
