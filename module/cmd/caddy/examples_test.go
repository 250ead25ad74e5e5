package main_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// exercises test, for each example, the feature that it shows.
var exercises = map[string]func(*example){
	"agents":              exerciseAgents,
	"agent-skills":        exerciseAgentSkills,
	"api-key":             exerciseAPIKey,
	"basic-auth":          exerciseBasicAuth,
	"basic-auth-json":     exerciseBasicAuthJSON,
	"callers-file":        exerciseCallersFile,
	"callers-jwt":         exerciseCallersJWT,
	"client-certificates": exerciseClientCertificates,
	"cluster":             exerciseCluster,
	"direct-and-registry": exerciseDirectAndRegistry,
	"forward-auth":        exerciseForwardAuth,
	"oauth2":              exerciseOAuth2,
	"production":          exerciseProduction,
	"publish":             exercisePublish,
	"quickstart":          exerciseQuickstart,
	"several-providers":   exerciseSeveralProviders,
	"user-accounts":       exerciseUserAccounts,
	"web-page":            exerciseWebPage,
}

func exampleNames(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, "caddyfile-examples", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	var names []string
	for _, file := range files {
		if base := filepath.Base(file); base == "monitoring" || base == "deploy" || base == "publish.openapi.yaml" {
			continue // files of other programs, and the document of an API
		}
		name, isCaddyfile := strings.CutSuffix(filepath.Base(file), ".Caddyfile")
		if !isCaddyfile {
			t.Errorf("%s is no Caddyfile", file)
			continue
		}
		names = append(names, name)
	}
	return names
}

func TestExamples(t *testing.T) {
	names := exampleNames(t)
	for name := range exercises {
		if !slices.Contains(names, name) {
			t.Errorf("there is no example %s", name)
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			exercise := exercises[name]
			if exercise == nil {
				t.Fatal("nothing shows that the example does what it says")
			}
			exercise(open(t, name))
		})
	}
}

func TestExamplesAreFormatted(t *testing.T) {
	for _, name := range exampleNames(t) {
		text := readFile(t, "caddyfile-examples/"+name+".Caddyfile")
		if formatted := string(caddyfile.Format([]byte(text))); formatted != text {
			t.Errorf("caddy fmt would write %s as\n%s", name, formatted)
		}
	}
}

// TestExamplesValidate validates the unchanged files like "caddy validate". Validation must send
// nothing and write nothing.
func TestExamplesValidate(t *testing.T) {
	var lookups atomic.Int64
	usual := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = usual })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		lookups.Add(1)
		return nil, errors.New("there is no network here")
	}}
	for _, name := range exampleNames(t) {
		t.Run(name, func(t *testing.T) {
			validate(t, open(t, name))
			if n := lookups.Load(); n > 0 {
				t.Errorf("names were looked up %d times", n)
			}
		})
	}
	if _, err := net.DefaultResolver.LookupHost(t.Context(), "skills.example.com"); err == nil || lookups.Load() == 0 {
		t.Errorf("lookups are not counted: %v", err)
	}
}

// TestExamplesValidateWithoutConnections validates the examples with all URLs replaced by that of a
// listener, which must not be reached.
func TestExamplesValidateWithoutConnections(t *testing.T) {
	var connections atomic.Int64
	everything := httptest.NewUnstartedServer(http.NotFoundHandler())
	everything.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	everything.Start()
	t.Cleanup(everything.Close)

	remote := regexp.MustCompile(`https?://(127\.0\.0\.1:\d+|[\w.]+\.example\.\w+)`)
	for _, name := range exampleNames(t) {
		t.Run(name, func(t *testing.T) {
			e := open(t, name)
			if !remote.MatchString(e.text) {
				t.Fatal("the example calls nothing?")
			}
			e.text = remote.ReplaceAllString(e.text, everything.URL)
			if !strings.Contains(e.text, "allow_http") && name != "publish" {
				e.onLoopback()
			}
			if name == "quickstart" { // its demo provider has the address now
				e.replace("\n"+everything.URL+" {", "\nhttp://127.0.0.1:8081 {")
			}
			if name == "forward-auth" {
				e.replace("localhost:9091", strings.TrimPrefix(everything.URL, "http://"))
			}
			validate(t, e)
			if n := connections.Load(); n != 0 {
				t.Errorf("%d connections were made", n)
			}
		})
	}
	response, err := http.Get(everything.URL)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if connections.Load() != 1 {
		t.Error("connections are not counted")
	}
}

func validate(t *testing.T, e *example) {
	t.Helper()
	folders := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	t.Setenv("XDG_DATA_HOME", folders[1])
	t.Setenv("XDG_CONFIG_HOME", folders[2])
	config := adapt(t, e.text)
	withStorage(t, config, folders[0])
	if err := caddy.Validate(config); err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if written, err := os.ReadDir(folder); err != nil || len(written) > 0 {
			t.Errorf("%v was written (%v)", written, err)
		}
	}
}

// Hashes of the examples' password. The one in the files has the cost of "caddy hash-password",
// which is slow.
const (
	password      = "hiccup"
	writtenHash   = "$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG"
	quickHash     = "$2a$04$OWmkFm6IIZAvrmC0Lns2Zey.M7jWPry1sMnSRL//6eNpIpOjr9.5O"
	authorization = "Authorization"
	rightPassword = "Basic YWdlbnQ6aGljY3Vw" // agent:hiccup
	wrongPassword = "Basic YWdlbnQ6aGljY3U=" // agent:hiccu
)

func TestPasswordsOfExamples(t *testing.T) {
	if longtest.Runs(longtest.Long) { // it takes a second
		if ok, err := (caddyauth.BcryptHash{}).Compare([]byte(writtenHash), []byte(password)); err != nil || !ok {
			t.Errorf("%s is not the hash of %s: %v", writtenHash, password, err)
		}
	}
	for _, name := range exampleNames(t) {
		text := strings.ReplaceAll(readFile(t, "caddyfile-examples/"+name+".Caddyfile"), "\t", "") // blocks may be indented more
		hashes := strings.Count(text, "$2a$")
		if strings.Contains(text, "\nbasic_auth ") != (hashes > 0) {
			t.Errorf("%s has %d hashes", name, hashes)
		}
		if right := len(regexp.MustCompile(`# \w+, password "`+password+"\"\n\\w+ "+regexp.QuoteMeta(writtenHash)+"\n").FindAllString(text, -1)); right != hashes {
			t.Errorf("%s: %d hashes, of which %d are those of the password in the comment", name, hashes, right)
		}
	}
}

func exerciseAgentSkills(e *example) {
	t := e.t
	p := newProvider(t, skill{id: "acme/translate"})
	e.replace("provider https://skills.example.com", "provider "+p.URL+" {\n\t\t\tnamespace acme\n\t\t}")
	e.onLoopback()
	b := e.start()
	origin := strings.TrimSuffix(b.endpoint, "/rpc")
	a := b.send(http.MethodGet, origin+"/.well-known/agent-skills/index.json", "")
	if a.status != http.StatusOK || !strings.Contains(a.body, `"name":"acme-translate"`) {
		t.Fatalf("%d %s", a.status, a.body)
	}
	a = b.send(http.MethodGet, origin+"/.well-known/agent-skills/acme-translate/SKILL.md", "")
	if a.status != http.StatusOK || !strings.Contains(a.body, "curl -sS '"+b.endpoint+"'") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func exerciseAgents(e *example) {
	t := e.t
	p := newProvider(t, skill{id: "acme/translate", auth: apiKey()})
	e.replace("provider https://skills.example.com {", "provider "+p.URL+" {\n\t\t\tnamespace acme")
	e.replace(writtenHash, quickHash)
	e.replace("mcp {", "mcp {\n\t\t\tauthorization_server https://login.example.com")
	e.onLoopback()
	b := e.start()

	refuses(t, b)
	b.execute("acme.translate", "acme/translate", authorization, rightPassword)
	host := strings.TrimSuffix(b.endpoint, "/rpc")
	const (
		arguments = `{"text":"x"}`
		message   = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"skill":"acme.translate","input":` + arguments + `}}]}}}`
		call      = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"acme_translate","arguments":` + arguments + `}}`
	)
	for _, c := range []struct{ path, body, has string }{
		{"/rpc/", `{"jsonrpc":"2.0","id":1,"method":"list_skills"}`, "acme.translate"},
		{"/a2a", message, "TASK_STATE_COMPLETED"},
		{"/a2a/", message, "TASK_STATE_COMPLETED"},
		{"/a2a/acme.translate", message, "TASK_STATE_COMPLETED"},
		{"/mcp", call, `"structuredContent"`},
		{"/mcp/", call, `"structuredContent"`},
	} {
		for _, password := range []string{"", wrongPassword} {
			a := b.send(http.MethodPost, host+c.path, c.body, authorization, password, "Content-Type", "application/json")
			if a.status != http.StatusUnauthorized || decode[outcome](t, a.body).Error.Data.Next != "authenticate" {
				t.Errorf("%s with %q: %d %s", c.path, password, a.status, a.body)
			}
		}
		if a := b.send(http.MethodPost, host+c.path, c.body, authorization, rightPassword, "Content-Type", "application/json"); a.status != http.StatusOK || !strings.Contains(a.body, c.has) {
			t.Errorf("%s: %d %s", c.path, a.status, a.body)
		}
	}
	for path, has := range map[string]string{
		"/.well-known/agent-card.json":                    `"scheme":"basic"`,
		"/a2a/.well-known/agent-card.json":                `"pushNotifications":true`,
		"/a2a/acme.translate/.well-known/agent-card.json": `"Example agent`,
		"/.well-known/oauth-protected-resource/mcp":       "https://login.example.com",
	} {
		if a := b.send(http.MethodGet, host+path, ""); a.status != http.StatusOK || !strings.Contains(a.body, has) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if log := b.logged(); strings.Contains(log, "no authentication") || strings.Contains(log, "do not reach it") {
		t.Errorf("warnings about routes:\n%s", log)
	}
	p.neverReceived(strings.TrimPrefix(rightPassword, "Basic "))
}

func exerciseAPIKey(e *example) {
	t := e.t
	p := newProvider(t, skill{id: "acme/translate", auth: apiKey()})
	e.replace("https://skills.example.com", p.URL)
	e.onLoopback()
	b := e.start()

	names := b.names("{}")
	if len(names) != 1 {
		t.Fatalf("skills: %v", names)
	}
	b.execute(names[0], "acme/translate")
	if got := p.only("POST /run/acme/translate").header["X-Api-Key"]; !slices.Equal(got, []string{e.secret("skills_api_key")}) {
		t.Errorf("X-API-Key: %v", got)
	}
	for _, route := range []string{"GET /.well-known/skill-sharing", "GET /descriptors/acme/translate.json"} {
		if p.only(route).header["X-Api-Key"] != nil {
			t.Errorf("%s has the key, which is for invoking", route)
		}
	}
}

func exerciseOAuth2(e *example) {
	t := e.t
	login := newProvider(t)
	p := newProvider(t, skill{id: "acme/translate", auth: oauth2("https://elsewhere.example.com/token")})
	e.replace("provider https://skills.example.com", "provider "+p.URL)
	e.replace("https://login.example.com/oauth2/token", login.URL+"/token")
	e.onLoopback()
	b := e.start()

	name := b.names("{}")[0]
	b.execute(name, "acme/translate")
	b.execute(name, "acme/translate")
	asked := login.only("POST /token")
	form, err := url.ParseQuery(asked.body)
	if err != nil {
		t.Fatal(err)
	}
	want := url.Values{
		"grant_type": {"client_credentials"}, "scope": {"skills:read skills:run"}, "audience": {"https://skills.example.com"},
	}
	if form.Encode() != want.Encode() {
		t.Errorf("token request: %v, want %v", form, want)
	}
	id, secret, _ := (&http.Request{Header: asked.header}).BasicAuth()
	if id != e.secret("SKILLS_CLIENT_ID") || secret != e.secret("skills_client_secret") {
		t.Errorf("the client is %q with %q", id, secret)
	}
	runs := p.requests("POST /run/acme/translate")
	if len(runs) != 2 {
		t.Fatalf("%d runs", len(runs))
	}
	for _, run := range runs {
		if got := run.header.Get(authorization); got != "Bearer "+issuedToken {
			t.Errorf("Authorization: %s", got)
		}
	}
	p.neverReceived(secret)
}

func exerciseSeveralProviders(e *example) {
	t := e.t
	weather := newProvider(t,
		skill{id: "example-weather/forecast"},
		skill{id: "example-weather/climate", capability: "knowledge"},
		skill{id: "example-weather/radar", capability: "plugin"},
		skill{id: "example-weather/storm", capability: "task"},
	)
	trusted := newProvider(t)
	office := newProvider(t,
		skill{id: "example-org/document-translator", auth: apiKey(), runsOn: trusted.URL},
		skill{id: "example-org/rooms/book", auth: apiKey()},
		skill{id: "example-org/holidays", capability: "task"},
	)
	e.replace("https://weather.example.com", weather.URL)
	e.replace("https://skills.example.org", office.URL)
	e.replace("api.example.net", strings.TrimPrefix(trusted.URL, "http://"))
	e.onLoopback()
	b := e.start()

	for params, want := range map[string][]string{
		"{}":                      {"book.room", "forecast", "office.example-org.holidays", "translate", "weather.example-weather.climate"},
		`{"namespace":"weather"}`: {"forecast", "weather.example-weather.climate"},
		`{"namespace":"office"}`:  {"book.room", "office.example-org.holidays", "translate"},
	} {
		if got := b.names(params); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", params, got, want)
		}
	}
	b.execute("forecast", "example-weather/forecast")
	b.execute("weather.example-weather.climate", "example-weather/climate")
	b.execute("office.example-org.holidays", "example-org/holidays")
	b.execute("book.room", "example-org/rooms/book")
	b.execute("translate", "example-org/document-translator")

	key := e.secret("office_api_key")
	for _, run := range []request{office.only("POST /run/example-org/rooms/book"), trusted.only("POST /run/example-org/document-translator")} {
		if got := run.header.Get(authorization); got != "Bearer "+key {
			t.Errorf("%s: Authorization: %s", run.route, got)
		}
	}
	if office.only("POST /run/example-org/holidays").header.Get(authorization) != "" {
		t.Error("a skill that asks for no key was sent one")
	}
	weather.neverReceived(key)
}

func exerciseDirectAndRegistry(e *example) {
	t := e.t
	weather := newProvider(t, skill{id: "example-weather/now", path: "/skills/now.json"})
	registry := newProvider(t)
	registry.publish(
		skill{id: "crowd/shorten", capability: "api", runsOn: weather.URL},
		skill{id: "crowd/archive", capability: "task"},
		skill{id: "crowd/trivia", capability: "knowledge"},
	)
	e.replace("https://weather.example.com", weather.URL)
	e.replace("https://registry.example.org", registry.URL)
	e.onLoopback()
	b := e.start()

	if got, want := b.names("{}"), []string{"community.crowd.archive", "community.crowd.shorten", "weather.now"}; !slices.Equal(got, want) {
		t.Errorf("skills: %v, want %v", got, want)
	}
	b.execute("weather.now", "example-weather/now")
	b.execute("community.crowd.archive", "crowd/archive")
	b.execute("community.crowd.shorten", "crowd/shorten")

	key := e.secret("registry_key")
	for _, kind := range []string{"api", "task"} {
		if got := registry.only("GET /v1/skills?type=" + kind).header.Get("X-Registry-Key"); got != key {
			t.Errorf("registry asked for %s with X-Registry-Key %q", kind, got)
		}
	}
	if registry.only("POST /run/crowd/archive").header.Get("X-Registry-Key") != "" {
		t.Error("a skill was sent the registry's key")
	}
	weather.neverReceived(key)
}

func exerciseBasicAuth(e *example) {
	t := e.t
	p := newProvider(t, skill{id: "acme/open"}, skill{id: "acme/payroll", access: "private", auth: apiKey()})
	p.reader = e.secret("skills_api_key")
	e.replace("provider https://skills.example.com {", "provider "+p.URL+" {\n\t\t\tnamespace acme")
	e.replace(writtenHash, quickHash)
	e.onLoopback()
	b := e.start()

	refuses(t, b)
	if got, want := b.names("{}", authorization, rightPassword), []string{"acme.open", "acme.payroll"}; !slices.Equal(got, want) {
		t.Errorf("skills: %v, want %v", got, want)
	}
	b.execute("acme.payroll", "acme/payroll", authorization, rightPassword)
	run := p.only("POST /run/acme/payroll")
	if run.header.Get("X-API-Key") != p.reader || run.header.Get(authorization) != "" {
		t.Errorf("the provider received %v", run.header)
	}
}

// refuses checks that basic_auth refuses wrong passwords.
func refuses(t *testing.T, b *bridge) {
	t.Helper()
	const call = `{"jsonrpc":"2.0","id":1,"method":"list_skills"}`
	if a := b.post(call); a.status != http.StatusUnauthorized {
		t.Errorf("without a password: %d %s", a.status, a.body)
	}
	if a := b.post(call, authorization, wrongPassword); a.status != http.StatusUnauthorized {
		t.Errorf("with a wrong password: %d %s", a.status, a.body)
	}
}

func exerciseForwardAuth(e *example) {
	t := e.t
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/api/verify" || r.Header.Get("X-Forwarded-Uri") != "/rpc" {
			t.Errorf("the gateway was asked %s %s for %s", r.Method, r.URL, r.Header.Get("X-Forwarded-Uri"))
		}
		switch r.Header.Get(authorization) {
		case "Bearer alice":
			w.Header().Set("Remote-User", "alice")
		case "Bearer nameless":
		default:
			http.Error(w, "log in at the gateway", http.StatusUnauthorized)
		}
	}))
	t.Cleanup(gateway.Close)
	p := newProvider(t, skill{id: "acme/translate", auth: apiKey()})
	e.replace("provider https://skills.example.com {", "provider "+p.URL+" {\n\t\t\tnamespace acme")
	e.replace("localhost:9091", strings.TrimPrefix(gateway.URL, "http://"))
	e.onLoopback()
	b := e.start()

	const call = `{"jsonrpc":"2.0","id":1,"method":"list_skills"}`
	for _, header := range [][]string{nil, {"Remote-User", "mallory"}} {
		if a := b.post(call, header...); a.status != http.StatusUnauthorized || a.body != "log in at the gateway\n" {
			t.Errorf("%v: %d %s, want the gateway's answer", header, a.status, a.body)
		}
		o := b.call("list_skills", "{}", append(header, authorization, "Bearer nameless")...)
		if o.Error.Code != -32050 || o.Error.Data.Code != "AUTH_REQUIRED" || o.Error.Data.Next != "authenticate" {
			t.Errorf("%v, without a principal: %+v", header, o)
		}
	}
	if n := p.received(); n > 0 {
		t.Errorf("the provider received %d requests of anonymous callers", n)
	}

	b.execute("acme.translate", "acme/translate", authorization, "Bearer alice", "Remote-User", "mallory")
	run := p.only("POST /run/acme/translate")
	if run.header.Get("X-API-Key") != e.secret("skills_api_key") || run.header.Get(authorization) != "" || run.header.Get("Remote-User") != "" {
		t.Errorf("the provider received %v", run.header)
	}
	if log := b.logged(); !strings.Contains(log, `"principal":"alice"`) || strings.Contains(log, `"principal":"mallory"`) {
		t.Errorf("the principal is not alice:\n%s", log)
	}
}

func exerciseProduction(e *example) {
	t := e.t
	p := newProvider(t)
	p.publish(skill{id: "acme/translate", auth: oauth2(p.URL + "/token")})
	weather := newProvider(t, skill{id: "weather/now", auth: apiKey()})
	e.replace("provider https://skills.example.com {", "provider "+p.URL+" {\n\t\t\tnamespace acme")
	e.replace("https://weather.example.com", weather.URL)
	e.replace("\nbridge.example.com {", "\nhttp://localhost:8080 {")
	e.replace(writtenHash, quickHash)
	e.onLoopback()
	b := e.start()

	refuses(t, b)
	b.execute("acme.translate", "acme/translate", authorization, rightPassword)
	run := p.only("POST /run/acme/translate")
	if got := run.header.Get(authorization); got != "Bearer "+issuedToken {
		t.Errorf("Authorization: %s", got)
	}
	if !strings.Contains(p.only("POST /token").body, "scope=skills%3Arun") {
		t.Error("the token was asked for with another scope")
	}
	type invocation struct {
		Caller struct {
			ID   string `json:"id"`
			Type string `json:"type"`
		} `json:"caller"`
	}
	if got := decode[invocation](t, run.body).Caller; got.ID != "bridge.example.com" || got.Type != "service" {
		t.Errorf("the bridge calls itself %+v", got)
	}
	b.execute("weather.now", "weather/now", authorization, rightPassword)
	if got := weather.only("POST /run/weather/now").header.Get("X-API-Key"); got != e.secret("weather_api_key") {
		t.Errorf("X-API-Key: %s", got)
	}

	const most = 256 << 10
	for size, want := range map[int]int{most: http.StatusOK, most + 1: http.StatusRequestEntityTooLarge} {
		call := `{"jsonrpc":"2.0","id":1,"method":"list_skills"}`
		if a := b.post(call+strings.Repeat(" ", size-len(call)), authorization, rightPassword); a.status != want {
			t.Errorf("%d bytes: %d %.200s", size, a.status, a.body)
		}
	}
	const last = `{"jsonrpc":"2.0","id":1,"method":"list_skills"}]`
	batch := "[" + strings.Repeat(strings.TrimSuffix(last, "]")+",", 19) + last
	if answers := decode[[]outcome](t, b.post(batch, authorization, rightPassword).body); len(answers) != 20 || answers[19].Result == nil {
		t.Errorf("a batch of 20: %+v", answers)
	}
	batch = "[" + strings.TrimSuffix(last, "]") + "," + batch[1:]
	if o := decode[outcome](t, b.post(batch, authorization, rightPassword).body); o.Error.Code != -32600 {
		t.Errorf("a batch of 21: %+v", o)
	}
	log, audited := b.loggedTo(0), b.loggedTo(1)
	const audit = `"logger":"http.handlers.skill_bridge.audit"`
	if !strings.Contains(log, `"logger":"http.log.access`) || strings.Contains(log, audit) {
		t.Errorf("the log lacks requests, or has audited calls:\n%s", log)
	}
	for line := range strings.Lines(audited) {
		if !strings.Contains(line, audit) {
			t.Errorf("the audit log has a line of another logger: %s", line)
		}
	}
	if !strings.Contains(audited, `"skill_id":"weather/now"`) || !strings.Contains(audited, `"principal":"agent"`) {
		t.Errorf("the audit log lacks a call:\n%s", audited)
	}
}

func exerciseQuickstart(e *example) {
	t := e.t
	b := startQuickstart(e)
	want := []string{"demo.csv-to-json", "demo.diff", "demo.markdown", "demo.qr-code", "demo.summarize", "diff"}
	byName := b.endpoint
	for _, endpoint := range []string{strings.Replace(byName, "localhost", "127.0.0.1", 1), byName} {
		b.endpoint = endpoint
		if got := b.names("{}"); !slices.Equal(got, want) {
			t.Errorf("%s: skills: %v, want %v", endpoint, got, want)
		}
	}
	if log := b.logged(); strings.Contains(log, `"level":"warn"`) {
		t.Errorf("the start warns of something:\n%s", log)
	}
	command, _, _ := strings.Cut(readFile(t, "caddyfile-examples/quickstart.Caddyfile"), "\n")
	if !strings.HasPrefix(command, "# Needs the binary") || !slices.Contains(shellLines(t, manuals.README), strings.TrimSpace(command[strings.Index(command, "go build"):])) {
		t.Errorf("the first line does not name the README's command: %s", command)
	}
}

// Addresses of the demo provider and of the admin API in the quickstart.
const (
	quickstartProvider = "127.0.0.1:8081"
	quickstartAdmin    = "localhost:8082"
)

// exerciseUserAccounts: a user without an account is told where to connect one, and books with the one that they connect.
func exerciseUserAccounts(e *example) {
	t := e.t
	provider := "127.0.0.1:" + testbed.FreePort(t)
	e.replace(quickstartProvider, provider)
	e.admin = "localhost:" + testbed.FreePort(t)
	e.replace(quickstartAdmin, e.admin)
	b := e.start()
	alice := asUser{"Basic " + base64.StdEncoding.EncodeToString([]byte("alice:hiccup"))}
	const call = `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"restaurant.book","args":{"time":"tomorrow","people":2}}}`
	a := b.post(call, "Authorization", alice.login)
	if !strings.Contains(a.body, `"next":"connect"`) || !strings.Contains(a.body, "book:reservation") {
		t.Errorf("%s", a.body)
	}

	jar, _ := cookiejar.New(nil) // it can't fail
	browser := &http.Client{Transport: alice, Jar: jar}
	submit := func(to string, form url.Values) (page string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", strings.TrimSuffix(b.endpoint, "/rpc"))
		response, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return string(text) + errorText(err)
	}
	page := submit(strings.TrimSuffix(b.endpoint, "/rpc")+"/connect/restaurant", url.Values{"do": {"connect"}, "scopes": {"book:reservation offline_access openid"}})
	found := regexp.MustCompile(`name="authRequestID" value="([^"]+)"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("this is not the page of the restaurant: %s", page)
	}
	submit("http://"+provider+"/login/username", url.Values{"authRequestID": {found[1]}, "guest": {"anna"}, "password": {"hiccup"}})
	runs := map[string]bool{}
	for range 2 {
		a := b.post(call, "Authorization", alice.login)
		if !strings.Contains(a.body, `"booked_for":"anna"`) {
			t.Errorf("%s", a.body)
		}
		runs[regexp.MustCompile(`"run_id":"[^"]+"`).FindString(a.body)] = true
	}
	if len(runs) != 2 || runs[""] {
		t.Errorf("two bookings have the runs %v", runs)
	}
}

// asUser is the transport of a browser in which a user has logged in to the bridge.
type asUser struct{ login string }

func (u asUser) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.URL.Hostname() == "localhost" {
		r.Header.Set("Authorization", u.login)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// startQuickstart starts the quickstart with short run times, which are still long enough that a busy machine answers 202 before their end, and with short
// polling intervals.
func startQuickstart(e *example) *bridge {
	e.t.Helper()
	e.provider = "127.0.0.1:" + testbed.FreePort(e.t)
	e.replace(quickstartProvider, e.provider)
	e.admin = "localhost:" + testbed.FreePort(e.t)
	e.replace(quickstartAdmin, e.admin)
	e.replace("async_after 100ms", "async_after 10ms")
	e.replace("\t\tclient demo-client", "\t\trun_time 300ms\n\t\tclient demo-client")
	e.option("poll_interval 2ms 10ms")
	return e.start()
}
