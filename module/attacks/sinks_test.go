package attacks_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// awkward are the characters around each marked secret: those that JSON, URLs,
// forms, HTML and quoted log lines write differently.
func awkward(core string) string { return `a"b\c/` + core + `+=&<%>` }

// The marked parts of the secrets, each of which shows where it came from.
const (
	keyMark     = "PlainMark7Qx"
	barKeyMark  = "PrefixedMark7Qx" // of the key with a prefix
	readKeyMark = "ReadingMark7Qx"
	fixedMark   = "FixedMark7Qx"
	hmacMark    = "HmacMark7Qx"
	clientMark  = "ClientMark7Qx"
	refreshMark = "RefreshMark7Qx"
	issuedMark  = "IssuedMark7Qx"  // access tokens
	rotatedMark = "RotatedMark7Qx" // refresh tokens
	panicMark   = "PanicMark7Qx"
	agentMark   = "agent-pw-canary"
	inputMark   = "InputMark7Qx"
	outputMark  = "OutputMark7Qx"
)

// agentHash is the bcrypt hash, of the least cost, of agentMark.
const agentHash = "$2a$04$xL4Lv5YMkiSCZH7g4NG4Q.dv90Yt1KZ5jCIrPL4UQGeraPryFq8EC"

var (
	// kept are never shown by anything.
	kept = []string{
		keyMark, barKeyMark, readKeyMark, fixedMark, hmacMark, clientMark, refreshMark, issuedMark, rotatedMark, panicMark, agentMark,
		base64.StdEncoding.EncodeToString([]byte("agent:" + agentMark)),
	}
	// private are shown to nobody but the agent whose call it is.
	private = []string{inputMark, outputMark}
)

// secretEnv are the environment variables that hold the secrets.
func secretEnv() map[string]string {
	return map[string]string{
		"S25_KEY": awkward(keyMark), "S25_BAR": awkward(barKeyMark), "S25_READ": awkward(readKeyMark), "S25_FIXED": awkward(fixedMark),
		"S25_HMAC": awkward(hmacMark), "S25_CLIENT": awkward(clientMark), "S25_REFRESH": awkward(refreshMark), "S25_PANIC": awkward(panicMark),
	}
}

// tokenCases are how a token endpoint fails: as RFC 6749, section 5.2, says, with
// all that it was sent repeated, or otherwise.
var tokenCases = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
	"repeated code", "html", "redirect", "no http", "token type", "spaced token", "form", "unavailable", "truncated", "bad header",
}

// secretHolder is a Caddyfile with every kind of credentials, of one provider.
func secretHolder(p *hostile.Provider, options ...string) string {
	lines := append([]string{"require_principal", "circuit_breaker off", "poll_interval 5ms 20ms"}, options...)
	add := func(namespace string, block ...string) {
		lines = append(lines, provider(p.URL(), namespace, block...))
	}
	add("key", "credentials api_key {env.S25_KEY}", "discovery_credentials api_key {env.S25_READ}")
	add("bar", "credentials api_key {env.S25_BAR} {", "\theader Authorization", "\tprefix \"Bearer \"", "}")
	add("fixed", "credentials headers {", "\tX-Fixed {env.S25_FIXED}", "\tX-Also {env.S25_FIXED}", "}")
	add("hmac", "credentials hmac {", "\tsecret {env.S25_HMAC}", "}")
	add("cc", "credentials oauth2 {", "\tclient_id id", "\tclient_secret {env.S25_CLIENT}", "\ttoken_url "+p.TokenURL(), "}")
	add("post", "credentials oauth2 {", "\tclient_id id", "\tclient_secret {env.S25_CLIENT}", "\tauth_style params", "\ttoken_url "+p.TokenURL(), "}")
	add("refresh", "credentials oauth2 {", "\tclient_id id", "\tclient_secret {env.S25_CLIENT}", "\trefresh_token {env.S25_REFRESH}", "\ttoken_url "+p.TokenURL(), "}")
	for i := range tokenCases {
		add("bad"+strconv.Itoa(i), "credentials oauth2 {", "\tclient_id id", "\tclient_secret {env.S25_CLIENT}", "\trefresh_token {env.S25_REFRESH}",
			"\ttoken_url "+p.TokenURL(), "\tparams case "+strconv.Itoa(i), "}")
	}
	add("panics", "credentials panicking {", "\tsecret {env.S25_PANIC}", "}")
	text := testbed.Bridge(lines...)
	return strings.Replace(text, "\tskill_bridge", "\tlog\n\ttracing {\n\t\tspan bridge\n\t}\n\tbasic_auth {\n\t\tagent "+agentHash+"\n\t}\n\tskill_bridge", 1)
}

// custom is the auth of a skill that wants headers or signatures.
func custom() hostile.Object {
	return hostile.Object{"type": "custom", "custom": hostile.Object{
		"instructions": "Sign it.", "parameters": []hostile.Object{{"name": "key", "type": "string", "description": "Key.", "required": true}},
	}}
}

// secretSkills are skills for each kind of credentials.
func secretSkills() []hostile.Skill {
	return []hostile.Skill{
		{ID: "s/key", Auth: hostile.APIKey("X-Key")},
		{ID: "s/bar", Auth: hostile.APIKey("Authorization")},
		{ID: "s/custom", Auth: custom()},
		{ID: "s/oauth", Auth: hostile.OAuth2("https://unused.example.com/token")},
	}
}

// seen is all that a request told its provider, decoded: what a provider can repeat.
func seen(x *hostile.Exchange) string {
	var b strings.Builder
	for _, name := range []string{"X-Key", "Authorization", "X-Fixed", "X-Signature", "X-Api-Key"} {
		for _, value := range x.HTTP.Header.Values(name) {
			b.WriteString(" " + value)
			if _, password, ok := x.HTTP.BasicAuth(); ok && name == "Authorization" {
				plain, _ := url.QueryUnescape(password) // as RFC 6749, section 2.3.1, has it encoded
				b.WriteString(" " + password + " " + plain)
			}
		}
	}
	if x.Request.Part == hostile.Token {
		form, _ := url.ParseQuery(x.Request.Body) // the bridge wrote it
		for _, name := range []string{"client_secret", "refresh_token"} {
			b.WriteString(" " + form.Get(name) + " " + url.QueryEscape(form.Get(name)))
		}
	}
	return strings.TrimSpace(b.String())
}

// headerSafe is a text as a header field, or a part of a first line, can have it.
func headerSafe(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\r' || r == '\n' {
			return ' '
		}
		return r
	}, text)
}

// escaped is a JSON string in which every character is escaped.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return `"` + b.String() + `"`
}

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // made of strings
	}
	return string(b)
}

// repeating are all the ways in which an invocation can end, each with what the
// provider was told repeated wherever there is room for it.
func repeating() []hostile.Action {
	type answer = func(x *hostile.Exchange, echo string) hostile.Action
	body := func(x *hostile.Exchange, state string, members hostile.Object) hostile.Action {
		return func(*hostile.Exchange) { x.JSON(http.StatusOK, x.Body(state, members)) }
	}
	failure := func(echo string) hostile.Object {
		return hostile.Object{
			"code": echo, "message": "It failed: " + echo + strings.Repeat("x", 900) + echo, "details": hostile.Object{"why": echo, echo: []any{echo, 1}},
			"retry": hostile.Object{"suggested_delay_ms": 1, "max_attempts": 1, "note": echo},
		}
	}
	unified := func(status int, code string) answer {
		return func(x *hostile.Exchange, echo string) hostile.Action {
			e := failure(echo)
			e["code"] = code
			return func(*hostile.Exchange) { x.JSON(status, hostile.Object{"error": e}) }
		}
	}
	wire := func(text string) hostile.Action { return hostile.Raw(text) }
	list := []answer{
		func(x *hostile.Exchange, echo string) hostile.Action {
			return body(x, "completed", hostile.Object{"output": hostile.Object{"text": echo, echo: []any{echo}, "out": outputMark}})
		},
		func(_ *hostile.Exchange, echo string) hostile.Action {
			return hostile.RawOutput(`{"a":` + escaped(echo) + `,"b":"` + outputMark + `"}`)
		},
		func(x *hostile.Exchange, echo string) hostile.Action {
			return body(x, "failed", hostile.Object{"error": failure(echo), "output": outputMark})
		},
		func(x *hostile.Exchange, echo string) hostile.Action {
			return body(x, "timeout", hostile.Object{"error": failure(echo)})
		},
		func(x *hostile.Exchange, echo string) hostile.Action {
			return body(x, "failed", hostile.Object{"error": echo})
		},
		unified(http.StatusUnauthorized, "AUTH_REQUIRED"),
		unified(http.StatusForbidden, "PERMISSION_DENIED"),
		unified(http.StatusTooManyRequests, "RATE_LIMITED"),
		unified(http.StatusUnprocessableEntity, "VALIDATION_ERROR"),
		unified(http.StatusInternalServerError, "OTHER"),
		unified(http.StatusBadGateway, "ENDPOINT_UNREACHABLE"),
		func(_ *hostile.Exchange, echo string) hostile.Action {
			return hostile.Respond(http.StatusBadRequest, `{"your":`+quoted(echo)+`,"and":`+escaped(echo)+`}`)
		},
		func(_ *hostile.Exchange, echo string) hostile.Action {
			return hostile.Respond(http.StatusInternalServerError, "<pre>"+echo+"</pre>", "Content-Type", "text/html")
		},
		func(_ *hostile.Exchange, echo string) hostile.Action {
			return hostile.Respond(http.StatusUnauthorized, "", "Www-Authenticate", headerSafe(echo))
		},
		func(_ *hostile.Exchange, echo string) hostile.Action { return hostile.CompleteAs(echo) },
		func(x *hostile.Exchange, echo string) hostile.Action {
			return body(x, "accepted", hostile.Object{"execution_id": echo})
		},
		func(x *hostile.Exchange, echo string) hostile.Action {
			return body(x, echo, hostile.Object{"output": outputMark})
		},
		func(x *hostile.Exchange, echo string) hostile.Action {
			return body(x, "completed", hostile.Object{"skill_id": echo, "output": outputMark})
		},
		func(_ *hostile.Exchange, echo string) hostile.Action {
			return hostile.Redirect(http.StatusTemporaryRedirect, "/"+url.PathEscape(echo))
		},
		func(_ *hostile.Exchange, echo string) hostile.Action {
			return wire("HTTP/1.1 " + headerSafe(echo) + "\r\n\r\n")
		},
		func(_ *hostile.Exchange, echo string) hostile.Action {
			return wire("HTTP/1.1 200 OK\r\n" + headerSafe(echo) + "\r\n\r\n")
		},
		func(_ *hostile.Exchange, echo string) hostile.Action {
			return wire("HTTP/1.1 200 OK\r\nX-Echo: " + headerSafe(echo) + "\x01\r\nContent-Length: " + headerSafe(echo) + "\r\n\r\n")
		},
		func(_ *hostile.Exchange, echo string) hostile.Action {
			return wire("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + headerSafe(echo) + "\r\n\r\n")
		},
		func(_ *hostile.Exchange, echo string) hostile.Action {
			return wire("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + echo + "\r\n")
		},
		func(_ *hostile.Exchange, echo string) hostile.Action { return wire(echo) },
		func(_ *hostile.Exchange, echo string) hostile.Action {
			return wire(hostile.Wire(http.StatusOK, `{"status":"completed","output":`+quoted(echo)+`}`, "Content-Encoding", "gzip"))
		},
		func(*hostile.Exchange, string) hostile.Action { return hostile.Truncate() },
		func(*hostile.Exchange, string) hostile.Action { return hostile.Reset() },
		func(*hostile.Exchange, string) hostile.Action { return hostile.Hang() },
		func(*hostile.Exchange, string) hostile.Action { return hostile.HangMidBody() },
		func(*hostile.Exchange, string) hostile.Action { return hostile.Accept(1) },
		func(*hostile.Exchange, string) hostile.Action { return hostile.AcceptForResult(0) },
		func(*hostile.Exchange, string) hostile.Action { return hostile.NestedOutput(5000) },
	}
	actions := make([]hostile.Action, len(list))
	for i, a := range list {
		actions[i] = func(x *hostile.Exchange) { a(x, seen(x))(x) }
	}
	return actions
}

// repeatingPolls are answers about runs, with what the provider was told repeated.
func repeatingPolls() []hostile.Action {
	return []hostile.Action{
		hostile.Usual(), hostile.Usual(),
		func(x *hostile.Exchange) {
			x.JSON(http.StatusOK, x.Body("failed", hostile.Object{"error": hostile.Object{"code": seen(x), "message": seen(x), "details": seen(x)}}))
		},
		func(x *hostile.Exchange) {
			x.JSON(http.StatusOK, x.Body("completed", hostile.Object{"output": seen(x)}))
		},
		func(x *hostile.Exchange) {
			x.JSON(http.StatusForbidden, hostile.Object{"error": hostile.Object{"code": "PERMISSION_DENIED", "message": seen(x)}})
		},
		func(x *hostile.Exchange) {
			x.JSON(http.StatusOK, x.Body("completed", hostile.Object{"execution_id": seen(x)}))
		},
		func(x *hostile.Exchange) { hostile.Raw("HTTP/1.1 " + headerSafe(seen(x)) + "\r\n\r\n")(x) },
		func(x *hostile.Exchange) { hostile.Respond(http.StatusGone, seen(x))(x) },
		func(x *hostile.Exchange) {
			x.JSON(http.StatusUnauthorized, hostile.Object{"error": hostile.Object{"code": "AUTH_REQUIRED", "message": seen(x)}})
		},
	}
}

// tokenEndpoint issues tokens, or fails in the way that a parameter asks for.
func tokenEndpoint() hostile.Action {
	var mu sync.Mutex
	issued := 0
	return func(x *hostile.Exchange) {
		form, _ := url.ParseQuery(x.Request.Body) // the bridge wrote it
		echo := seen(x)
		if form.Get("case") == "" {
			mu.Lock()
			issued++
			n := strconv.Itoa(issued)
			mu.Unlock()
			answer := hostile.Object{"access_token": issuedMark + n, "token_type": "Bearer", "expires_in": 3600}
			if form.Get("grant_type") == "refresh_token" {
				answer["refresh_token"] = awkward(rotatedMark + n)
			}
			x.JSON(http.StatusOK, answer)
			return
		}
		n, _ := strconv.Atoi(form.Get("case")) // as configured
		switch name := tokenCases[n]; name {
		case "repeated code":
			x.JSON(http.StatusBadRequest, hostile.Object{"error": echo, "error_description": echo, "error_uri": echo})
		case "html":
			hostile.Respond(http.StatusForbidden, "<p>"+echo+"</p>", "Content-Type", "text/html", "Www-Authenticate", headerSafe(echo))(x)
		case "redirect":
			hostile.Redirect(http.StatusTemporaryRedirect, "/"+url.PathEscape(echo))(x)
		case "no http":
			hostile.Raw(echo + "\r\n\r\n")(x)
		case "token type":
			x.JSON(http.StatusOK, hostile.Object{"access_token": issuedMark, "token_type": echo})
		case "spaced token":
			x.JSON(http.StatusOK, hostile.Object{"access_token": issuedMark + " " + echo, "token_type": "Bearer", "refresh_token": awkward(rotatedMark)})
		case "form":
			hostile.Respond(http.StatusBadRequest, "error="+url.QueryEscape(echo), "Content-Type", "application/x-www-form-urlencoded")(x)
		case "unavailable":
			hostile.Respond(http.StatusServiceUnavailable, quoted(echo))(x)
		case "truncated":
			hostile.Raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n{\"access_token\":\"" + issuedMark + "\",\"x\":" + quoted(echo))(x)
		case "bad header":
			hostile.Raw("HTTP/1.1 200 OK\r\n" + headerSafe(echo) + "\r\n\r\n")(x)
		default:
			x.JSON(http.StatusBadRequest, hostile.Object{"error": name, "error_description": echo, "error_uri": "https://example.com/?" + url.QueryEscape(echo)})
		}
	}
}

// sink collects what is sent to it.
type sink struct {
	mu   sync.Mutex
	body bytes.Buffer
}

func (s *sink) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	all, _ := io.ReadAll(r.Body) // what is missing is seen
	s.mu.Lock()
	defer s.mu.Unlock()
	s.body.Write(all)
}

func (s *sink) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.body.String()
}

// mustNotShow fails the test if a text has one of the marks.
func mustNotShow(t *testing.T, where, text string, marks []string) {
	t.Helper()
	for _, mark := range marks {
		if at := strings.Index(text, mark); at >= 0 {
			t.Errorf("%s shows %q: …%s…", where, mark, text[max(0, at-300):min(len(text), at+100)])
		}
	}
}

// S25: after calls of every outcome, whose providers repeat all that they were
// told, no sink has a key, token, client secret, refresh token or password of the
// agent; and but for the answers themselves, none has inputs or outputs. Sinks are
// the answers, all logs at every level with Caddy's own of requests and panics,
// the admin API, metrics, goroutines and traces. The memory of the process itself
// is not among them.
func TestS25SecretsAppearNowhere(t *testing.T) {
	p := hostile.NewProvider(t, secretSkills()...)
	for _, s := range secretSkills() {
		p.On(s.ID, hostile.Invoke)
		actions, polls := repeating(), repeatingPolls()
		p.Script(s.ID, hostile.Invoke, func(n int) hostile.Action { return actions[(n-1)%len(actions)] })
		p.Script(s.ID, hostile.Status, func(n int) hostile.Action { return polls[(n-1)%len(polls)] })
		p.Script(s.ID, hostile.Result, func(n int) hostile.Action { return polls[(n-1)%len(polls)] })
	}
	p.On("", hostile.Token, tokenEndpoint())
	traces := new(sink)
	collector := httptest.NewServer(traces)
	t.Cleanup(collector.Close)
	env := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_BSP_SCHEDULE_DELAY=50"}
	for name, value := range secretEnv() {
		env = append(env, name+"="+value)
	}
	c := testbed.StartProcess(t, testbed.Limits{Env: env}, secretHolder(p), "metrics")
	c.Log.MustNotShow(kept...)
	c.Log.MustNotShow(private...)
	agent := c.With(testbed.BasicAuth("agent", agentMark), testbed.Timeout(150*time.Millisecond))

	check := func(a testbed.Answer) {
		t.Helper()
		mustNotShow(t, "the answer", string(a.Body)+fmt.Sprint(a.Header), kept)
		if plain := jsontext.Value(bytes.Clone(a.Body)); plain.Canonicalize() == nil { // without escapes
			mustNotShow(t, "the decoded answer", string(plain), kept)
		}
	}
	type work struct {
		name string
		args hostile.Object
	}
	var calls []work
	for name, skill := range map[string]string{
		"key": "s.key", "bar": "s.bar", "fixed": "s.custom", "hmac": "s.custom", "cc": "s.oauth", "post": "s.oauth", "refresh": "s.oauth",
	} {
		for range 2 * len(repeating()) {
			calls = append(calls, work{name + "." + skill, hostile.Object{"input": inputMark}})
		}
	}
	for i := range tokenCases {
		for range 2 {
			calls = append(calls, work{"bad" + strconv.Itoa(i) + ".s.oauth", hostile.Object{"input": inputMark}})
		}
	}
	outcomes := testbed.Load{Workers: 8, Calls: len(calls), Do: func(_, call int) testbed.Answer {
		a := agent.Execute(calls[call].name, calls[call].args)
		check(a)
		return a
	}}.Run(t)
	t.Log(outcomes)
	panicked := agent.With(testbed.Timeout(30*time.Second)).Execute("panics.s.key", hostile.Object{"input": inputMark}) // a busy machine needs time to come so far
	if check(panicked); panicked.Code != -32603 {
		t.Errorf("%v, want -32603", panicked)
	}
	for _, wanted := range []string{"completed", "AUTH_REQUIRED", "INVOCATION_TIMEOUT", "ENDPOINT_UNREACHABLE", "INVALID_PROVIDER_RESPONSE"} {
		if outcomes.Outcomes[wanted] == 0 {
			t.Errorf("no call ended as %s", wanted)
		}
	}
	for _, name := range []string{"key.s.key", "cc.s.oauth", "nothing", inputMark[:4]} {
		check(agent.Call("describe_skill", hostile.Object{"name": name, "detail": "full"}))
		check(agent.Call("read_skill_file", hostile.Object{"name": name, "path": "SKILL.md"}))
	}
	check(agent.Call("list_skills", hostile.Object{"detail": "summary"}))
	check(agent.Post(`{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"key.s.key","args":{"input":"` + inputMark + `"}`)) // no JSON
	check(c.With(testbed.BasicAuth("agent", "not "+agentMark)).Execute("key.s.key", hostile.Object{"input": inputMark}))

	everything := slices.Concat(kept, private)
	for _, path := range []string{
		"/config/", "/config/apps/http", "/metrics", "/debug/vars", "/debug/pprof/goroutine?debug=2", "/debug/pprof/goroutine?debug=1", "/reverse_proxy/upstreams",
	} {
		a := agent.Send(http.MethodGet, c.Admin()+path, "")
		if a.Err != nil || a.Status != http.StatusOK {
			t.Errorf("%s: %v", path, a)
		}
		mustNotShow(t, path, string(a.Body), everything)
	}
	testbed.Eventually(t, 30*time.Second, func() bool { return strings.Count(traces.text(), "bridge") > 10 }, "Caddy sends traces")
	mustNotShow(t, "the traces", traces.text(), everything)
	// That the search finds anything: what is there.
	for _, line := range []string{"exchange with provider", "call completed", "call failed", "panic in a call", "handled request"} {
		if !c.Log.Has(line) {
			t.Errorf("the log has no line %q", line)
		}
	}
	if len(p.Received(keyMark)) == 0 || len(p.Received(clientMark)) == 0 || len(p.Received(rotatedMark)) == 0 || len(p.Received(inputMark)) == 0 {
		t.Error("the provider never received what it was to repeat")
	}
}

// S25: arguments that the schemas of a skill refuse are not logged.
func TestS25RefusedArgumentsAreNotLogged(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/strict", Edit: func(d hostile.Object) {
		d["inputs"] = []hostile.Object{
			{"name": "call", "type": "string", "description": "Which call this is.", "required": false},
			{"name": "size", "type": "string", "description": "How large.", "required": false, "schema": hostile.Object{"enum": []string{"small", "large"}}},
			{"name": "count", "type": "integer", "description": "How many.", "required": false, "schema": hostile.Object{"maximum": 3}},
			{"name": "word", "type": "string", "description": "What.", "required": false, "schema": hostile.Object{"maxLength": 3}},
			{"name": "map", "type": "object", "description": "More.", "required": false, "schema": hostile.Object{"additionalProperties": false}},
		}
	}})
	c := testbed.StartCaddy(t, strings.Replace(testbed.Bridge(provider(p.URL(), "acme")), "\tskill_bridge", "\tlog\n\tskill_bridge", 1))
	c.Log.MustNotShow(private...)
	for _, args := range []hostile.Object{
		{"size": inputMark},
		{"count": inputMark},
		{"word": inputMark},
		{"size": hostile.Object{inputMark: inputMark}},
		{"map": hostile.Object{inputMark: inputMark}},
	} {
		if a := c.Execute("acme.s.strict", args); a.Code != -32602 || a.Data.Executed != "no" {
			t.Errorf("%v: %v", args, a)
		}
	}
	if n := len(c.Log.Lines("call failed")); n != 5 {
		t.Errorf("%d failed calls were logged", n)
	}
}

// S25: what a provider sends that can't be read, or that nobody asked for, is not
// logged: it may be an output, or repeat a secret.
func TestS25UnreadableAnswersAreNotLogged(t *testing.T) {
	body := `{"status":"completed","output":"` + outputMark + `"}`
	repeat := func(action func(text string) hostile.Action) hostile.Action {
		return func(x *hostile.Exchange) { action(headerSafe(outputMark + " " + x.HTTP.Header.Get("X-Key")))(x) }
	}
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/key", Auth: hostile.APIKey("X-Key")})
	// In a process of its own, where package net/http logs to Caddy's log, too.
	c := testbed.StartProcess(t, testbed.Limits{Env: []string{"S25_KEY=" + awkward(keyMark)}},
		testbed.Bridge("allow_anonymous", "circuit_breaker off", provider(p.URL(), "acme", "credentials api_key {env.S25_KEY}")))
	c.Log.MustNotShow(kept...)
	c.Log.MustNotShow(private...)
	for _, test := range []struct {
		name   string
		action hostile.Action
	}{
		{"no HTTP", hostile.Raw(body + "\r\n\r\n")},
		{"status", repeat(func(text string) hostile.Action { return hostile.Raw("HTTP/1.1 " + text + "\r\n\r\n") })},
		{"header", repeat(func(text string) hostile.Action { return hostile.Raw("HTTP/1.1 200 OK\r\n" + text + "\r\n\r\n") })},
		{"encoding", repeat(func(text string) hostile.Action {
			return hostile.Raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + text + "\r\n\r\n")
		})},
		{"length", repeat(func(text string) hostile.Action {
			return hostile.Raw("HTTP/1.1 200 OK\r\nContent-Length: " + text + "\r\n\r\n")
		})},
		{"media type", repeat(func(text string) hostile.Action { return hostile.Respond(http.StatusOK, text, "Content-Type", text) })},
		{"unsolicited", repeat(hostile.TwoResponses)},
	} {
		t.Run(test.name, func(*testing.T) {
			p.On("s/key", hostile.Invoke, test.action)
			for range 20 {
				c.With(testbed.Timeout(time.Second)).Execute("acme.s.key", nil)
			}
		})
	}
	// The last call may have taken an unsolicited answer for its own. Then its connection is idle, and nothing but the next call finds out.
	p.On("s/key", hostile.Invoke)
	c.With(testbed.Timeout(time.Second)).Execute("acme.s.key", nil)
	testbed.Eventually(t, 30*time.Second, func() bool { return p.Hanging() == 0 }, "the connections of unsolicited answers are closed")
}

// S25: nor when an index or a descriptor repeats the credential with which it was
// read.
func TestS25SecretsInDocuments(t *testing.T) {
	t.Setenv("S25_READ", awkward(readKeyMark))
	const echo = "X-Read"
	edit := func(read string) func(hostile.Object) {
		return func(d hostile.Object) {
			d["description"] = "Does something with " + read
			d["tags"] = []string{read}
		}
	}
	read := awkward(readKeyMark)
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "s/one", Edit: edit(read), EditEntry: edit(read)},
		hostile.Skill{ID: "s/two", Auth: hostile.Object{"type": "api_key", "header": echo, "description": read}},
		hostile.Skill{ID: "s/three", Edit: func(d hostile.Object) { d["inputs"] = read }},
		hostile.Skill{ID: "s/four", Edit: func(d hostile.Object) { d["id"] = read }},
		hostile.Skill{ID: "s/five", Edit: func(d hostile.Object) { d["version"] = read }},
	)
	c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", provider(p.URL(), "acme", "discovery_credentials api_key {env.S25_READ} {", "\theader "+echo, "}")))
	c.Log.MustNotShow(readKeyMark)
	check := func(what string, a testbed.Answer) {
		t.Helper()
		mustNotShow(t, what, string(a.Body), kept)
	}
	check("list_skills", c.Call("list_skills", hostile.Object{"detail": "summary"}))
	for _, name := range []string{"one", "two", "three", "four", "five"} {
		check("execute_skill "+name, c.Execute("acme.s."+name, nil))
		check("describe_skill "+name, c.Call("describe_skill", hostile.Object{"name": "acme.s." + name, "detail": "full"}))
		check("SKILL.md of "+name, c.Call("read_skill_file", hostile.Object{"name": "acme.s." + name, "path": "SKILL.md"}))
		check("descriptor.json of "+name, c.Call("read_skill_file", hostile.Object{"name": "acme.s." + name, "path": "descriptor.json"}))
	}
	if len(p.Received(readKeyMark)) == 0 {
		t.Error("the documents were read without the credential")
	}
}

// S25: nor when the refused status of a document repeats it, or a URL in an index.
func TestS25SecretsInErrorsOfDocuments(t *testing.T) {
	const plain = "plain" + readKeyMark
	t.Setenv("S25_READ", plain)
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/one"}, hostile.Skill{ID: "s/two"})
	p.Publish(hostile.Skill{ID: "s/two", DescriptorURL: p.URL() + "/" + plain}, hostile.Skill{ID: "s/three", DescriptorURL: "http://" + plain + ".example.com/d"},
		hostile.Skill{ID: "s/four", Endpoint: p.URL() + "/" + plain}, hostile.Skill{ID: plain})
	p.On("s/one", hostile.Descriptor,
		hostile.Respond(http.StatusForbidden, `{"error":{"code":"PERMISSION_DENIED","message":"`+plain+`","details":{"`+plain+`":"`+plain+`"}}}`),
		hostile.Respond(http.StatusBadRequest, `{"your":"`+plain+`"}`), hostile.Raw("HTTP/1.1 "+plain+"\r\n\r\n"),
		hostile.Redirect(http.StatusFound, "ftp://"+plain+".example.com/"), hostile.Respond(http.StatusOK, plain),
		hostile.Redirect(http.StatusFound, "http://"+plain+".example.com/"))
	c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", "cache {\n\tttl 0s\n\tnegative_ttl 0s\n\tstale_if_error 0s\n}",
		provider(p.URL(), "acme", "discovery_credentials api_key {env.S25_READ}")))
	c.Log.MustNotShow(readKeyMark, strings.ToLower(readKeyMark))
	for range 6 {
		mustNotShow(t, "execute_skill one", string(c.Execute("acme.s.one", nil).Body), kept)
	}
	for _, name := range []string{"acme.s.two", "acme.s.three", "acme.s.four"} {
		mustNotShow(t, "execute_skill "+name, string(c.Execute(name, nil).Body), kept)
		mustNotShow(t, "descriptor.json of "+name, string(c.Call("read_skill_file", hostile.Object{"name": name, "path": "descriptor.json"}).Body), kept)
	}
	mustNotShow(t, "list_skills", string(c.Call("list_skills", nil).Body), kept)
}

// S25: a provider repeats a secret without the text that the operator wrote around it.
func TestS25PartsOfValues(t *testing.T) {
	t.Setenv("S25_PART", keyMark)
	t.Setenv("S25_BEARER", "Bearer "+keyMark)
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/key", Auth: hostile.APIKey("Authorization")}, hostile.Skill{ID: "s/custom", Auth: custom()},
		hostile.Skill{ID: "s/oauth", Auth: hostile.OAuth2("https://unused.example.com/token")})
	var lines []string
	var names []string
	for i, kind := range []struct{ skill, credentials string }{
		{"key", "api_key \"Bearer {env.S25_PART}\""},
		{"key", "api_key {env.S25_BEARER}"},
		{"custom", "headers {\nX-Auth \"Key {env.S25_PART}\"\n}"},
		{"custom", "headers {\nX-Session \"sid={env.S25_PART}; lang=en\"\n}"},
		{"custom", "headers {\nAuthorization \"Token token={env.S25_PART}\"\n}"},
		{"custom", "headers {\nX-Authorization {env.S25_BEARER}\n}"},
		{"oauth", "oauth2 {\nclient_id id\nclient_secret another-secret\ntoken_url " + p.TokenURL() + "\nparams account {env.S25_PART}\n}"},
	} {
		namespace := "p" + strconv.Itoa(i)
		lines = append(lines, provider(p.URL(), namespace, "credentials "+kind.credentials))
		names = append(names, namespace+".s."+kind.skill)
	}
	c := testbed.StartCaddy(t, testbed.Bridge(append(lines, "allow_anonymous", "circuit_breaker off")...))
	c.Log.MustNotShow(keyMark)
	for _, skill := range []string{"s/key", "s/custom", "s/oauth"} {
		p.Script(skill, hostile.Invoke, func(n int) hostile.Action {
			if n%2 == 0 {
				return hostile.Problem(http.StatusForbidden, "AUTH_INVALID", "The key "+keyMark+" has expired.")
			}
			return hostile.Complete(hostile.Object{"key": keyMark, keyMark: "the key"})
		})
	}
	for _, name := range names {
		for range 2 {
			a := c.Execute(name, nil)
			mustNotShow(t, name, string(a.Body), []string{keyMark})
			if !strings.Contains(string(a.Body), "[redacted]") {
				t.Errorf("%s: %v", name, a)
			}
		}
	}
}

// S25: a provider names its key as a host, to which no connection is made, or one that
// fails: what the guard and circuit breakers log, and the admin API, don't show it. Hosts
// are written in lower case in some places.
func TestS25SecretsAsHosts(t *testing.T) {
	const digits = "48151623421001"
	t.Setenv("S25_HOST", keyMark)
	t.Setenv("S25_PORT", digits)
	names := hostile.NewNameServer(t)
	names.Set(strings.ToLower(keyMark)+".example.test", hostile.Addresses(impostor))
	names.Set(keyMark+".example.test", hostile.Addresses(impostor))
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/key", Auth: hostile.APIKey("X-Key")})
	options := []string{
		"allow_anonymous", "audit", names.Transport(), "circuit_breaker {\n\t\t\tfailures 2\n\t\t}",
		"cache {\n\t\t\tttl 0s\n\t\t\tstale_if_error 0s\n\t\t\tnegative_ttl 0s\n\t\t}", "allow_networks 127.0.0.0/8",
	}
	for namespace, key := range map[string]string{"host": "{env.S25_HOST}", "port": "{env.S25_PORT}"} {
		options = append(options, provider(p.URL(), namespace, "credentials api_key "+key))
	}
	c := testbed.StartCaddy(t, testbed.AdminAPI+testbed.Bridge(options...))
	marks := []string{keyMark, strings.ToLower(keyMark), digits, digits[:6]}
	c.Log.MustNotShow(marks...)
	call := func(name string) {
		a := c.Execute(name, nil)
		mustNotShow(t, name, string(a.Body), marks[:1])
		mustNotShow(t, name, string(a.Body), marks[2:])
	}
	for target, name := range map[string]string{
		"http://" + keyMark + ".example.test:1/":                "host.s.key",
		"http://" + keyMark + ".invalid/":                       "host.s.key",
		"http://" + keyMark + "..x/":                            "host.s.key",
		"http://" + keyMark + ".1/":                             "host.s.key",
		"http://" + keyMark + ".example.test:" + p.Port() + "/": "host.s.key",
		"http://x.example.test:" + digits + "/":                 "port.s.key",
		"http://x.example.test:" + digits + digits + "/":        "port.s.key",
	} {
		for _, part := range []hostile.Part{hostile.Index, hostile.Descriptor} {
			skill := ""
			if part == hostile.Descriptor {
				skill = "s/key"
			}
			p.On(skill, part, hostile.Redirect(http.StatusFound, target))
			for range 3 {
				call(name)
			}
			p.On(skill, part)
		}
	}
	p.Publish(hostile.Skill{ID: "s/key", Auth: hostile.APIKey("X-Key"), Endpoint: "https://" + strings.ToLower(keyMark) + ".example.test/"})
	call("host.s.key")
	for _, path := range []string{"providers", "skills", "calls", "runs"} {
		shown := c.Send(http.MethodGet, c.Admin()+"/skill_bridge/"+path, "")
		mustNotShow(t, path, string(shown.Body), marks)
		if path == "providers" && !strings.Contains(string(shown.Body), "[redacted].example.test:"+p.Port()) {
			t.Errorf("no circuit breaker of such a host: %s", shown.Body)
		}
	}
	for _, line := range []string{"did not connect: port", "did not connect: host name does not exist", "circuit breaker is open", "trust [redacted].example.test"} {
		if len(c.Log.Lines(line)) == 0 {
			t.Errorf("no line %q", line)
		}
	}
}

// S26: what shows the configuration (the adapter, the admin API) shows where the
// secrets are, not the secrets. A secret that is written literally is shown there:
// that is said when it loads.
func TestS26ConfigurationShowsNoSecrets(t *testing.T) {
	p := hostile.NewProvider(t, secretSkills()...)
	for name, value := range secretEnv() {
		t.Setenv(name, value)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(awkward(keyMark)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(secretHolder(p), "api_key {env.S25_KEY}", "api_key {file."+file+"}")
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(strings.ReplaceAll(text, "{$PORT}", "8080")), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatal(err)
	}
	mustNotShow(t, "caddy adapt", string(adapted), kept)
	for _, reference := range []string{"{env.S25_CLIENT}", "{env.S25_REFRESH}", "{env.S25_HMAC}", "{env.S25_FIXED}", "{file." + file + "}"} {
		if !strings.Contains(string(adapted), reference) {
			t.Errorf("the adapted configuration has no %s", reference)
		}
	}

	admin := "127.0.0.1:" + testbed.FreePort(t)
	c := testbed.StartCaddy(t, "{\n\tadmin "+admin+"\n}\n"+text)
	c.Log.MustNotShow(kept...)
	config := c.Send(http.MethodGet, "http://"+admin+"/config/", "")
	if !strings.Contains(string(config.Body), "{env.S25_CLIENT}") {
		t.Fatalf("the admin API shows no configuration: %v", config)
	}
	mustNotShow(t, "/config/", string(config.Body), kept)
	if lines := c.Log.Lines("a secret is written in the configuration"); len(lines) > 0 {
		t.Errorf("a warning without a reason: %s", lines)
	}
	if err := c.Reload("{\n\tadmin " + admin + "\n}\n" + strings.ReplaceAll(text, "secret {env.S25_HMAC}", "secret written-"+"in-full")); err != nil {
		t.Fatal(err)
	}
	if lines := c.Log.Lines("a secret is written in the configuration", `"source":"hmac"`); len(lines) != 1 || strings.Contains(lines[0], "written-in-full") {
		t.Errorf("the warning about a literal secret: %s", lines)
	}
	c.Stop()
	// A configuration that is refused does not quote its secrets either.
	for _, wrong := range []string{"header Host", "prefix \"a\x01\"", "nonsense"} {
		bad := strings.Replace(text, "prefix \"Bearer \"", wrong, 1)
		if err := c.Reload(bad); err == nil {
			t.Errorf("%q is accepted", wrong)
		} else {
			mustNotShow(t, "the error of a configuration", err.Error(), kept)
		}
	}
}
