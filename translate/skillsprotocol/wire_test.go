package skillsprotocol_test

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// wire is a provider of one skill and a real bridge in front of it.
type wire struct {
	provider *httptest.Server
	mu       sync.Mutex
	routes   map[string]http.HandlerFunc
	front    *skillsprotocol.Front
}

// status answers with an HTTP status and, if it is not empty, a JSON body.
func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if body != "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

func drop(w http.ResponseWriter, _ *http.Request) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client is gone
	<-r.Context().Done()
}

const acceptedRun = `{"execution_id":"e1","status":"accepted"}`

func newWire(t *testing.T, routes map[string]http.HandlerFunc, edits ...string) *wire {
	t.Helper()
	w := &wire{routes: map[string]http.HandlerFunc{}}
	w.provider = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		answer := w.routes[r.URL.Path]
		w.mu.Unlock()
		if answer == nil {
			answer = status(http.StatusNotFound, "")
		}
		answer(rw, r)
	}))
	t.Cleanup(w.provider.Close)
	origin := w.provider.URL
	w.routes["/.well-known/skill-sharing"] = status(200, fmt.Sprintf(`{"protocol":{"version":"1.0.0"},"provider":{"name":"P"},"skills":[{"id":"p/s","name":"S",
		"capability_type":"api","description":"d","descriptor_url":"%s/s.json","access":"public","version":"1.0.0"}]}`, origin))
	descriptor := strings.ReplaceAll(`{"protocol":{"version":"1.0.0"},"id":"p/s","name":"S","version":"1.0.0","capability_type":"api","description":"d",
		"provider":{"name":"P"},"endpoint":{"url":"ORIGIN/run","method":"POST","status_url":"ORIGIN/status/{execution_id}","result_url":"ORIGIN/result/{execution_id}"},
		"inputs":[{"name":"city","type":"string","description":"c","required":false}],"output":{"content_type":"application/json"},"auth":{"type":"none"},"access":"public"}`, "ORIGIN", origin)
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(descriptor, edits[i]) {
			t.Fatalf("the descriptor has no %s", edits[i])
		}
		descriptor = strings.Replace(descriptor, edits[i], edits[i+1], 1)
	}
	w.routes["/s.json"] = status(200, descriptor)
	maps.Copy(w.routes, routes)
	documents, err := cache.New(cache.Config{MaxSize: 1 << 20, TTL: time.Hour, MaxTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(documents.Close)
	u, err := url.Parse(origin)
	if err != nil {
		t.Fatal(err)
	}
	bridge, err := translate.New(translate.Config{
		Sources: []catalog.Source{{Namespace: "p", URL: u, Transport: new(http.Transport)}},
		Cache:   documents, Caller: skillsharing.Caller{ID: "c", Type: "service"}, Priority: skillsharing.PriorityNormal,
		DefaultTimeout: 20 * time.Second, MaxTimeout: 20 * time.Second, Polling: skillsharing.Polling{Plan: polling.Backoff{Initial: time.Millisecond, Longest: 2 * time.Millisecond}},
		MaxResponseSize: 64 << 10, AllowHTTP: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.front = &skillsprotocol.Front{Bridge: bridge, Tokens: fakeTokens{}, Canceled: new(ledger.Cancellations)}
	return w
}

// comesBack stands for the params of an agent that does not wait for its run, and then calls
// get_run. If it waited until the deadline, the answer would be the deadline failure.
const comesBack = "get_run"

// verdict returns the members that an agent uses, in one line.
func (w *wire) verdict(t *testing.T, params string) string {
	t.Helper()
	method := "execute_skill"
	switch params {
	case "":
		params = `{"name":"p.s"}`
	case comesBack:
		left, fault := w.front.ServeRPC(t.Context(), &jsonrpc.Request{Method: method, Params: jsontext.Value(`{"name":"p.s","wait_ms":0}`), ID: jsontext.Value("1")})
		var run struct {
			Token jsontext.Value `json:"run_token"`
		}
		if err := json.Unmarshal(left, &run); fault != nil || err != nil {
			t.Fatalf("%s, %v, %v", left, fault, err)
		}
		method, params = "get_run", `{"wait_ms":0,"run_token":`+string(run.Token)+`}`
	}
	result, fault := w.front.ServeRPC(t.Context(), &jsonrpc.Request{Method: method, Params: jsontext.Value(params), ID: jsontext.Value("1")})
	var data struct {
		Code, Type, Phase, Source, Executed, Next string
		HTTPStatus                                int    `json:"http_status"`
		ExecutionID                               string `json:"execution_id"`
		Param                                     string
	}
	options := json.JoinOptions(json.MatchCaseInsensitiveNames(true))
	if fault != nil {
		if err := json.Unmarshal(fault.Data, &data, options); err != nil {
			t.Fatalf("error.data is not JSON: %v: %s", err, fault.Data)
		}
		if fault.Message == "" {
			t.Error("no message")
		}
		return fmt.Sprintf("%d %s %d %s %s %s %s %s%s", fault.Code, data.Code, data.HTTPStatus, data.Phase, data.Source, data.Executed, data.Next, data.ExecutionID, data.Param)
	}
	var run struct {
		Status string
		RunID  string `json:"run_id"`
		Error  jsontext.Value
	}
	if err := json.Unmarshal(result, &run, options); err != nil {
		t.Fatalf("the result is not JSON: %v: %s", err, result)
	}
	if run.Error == nil {
		return run.Status
	}
	if err := json.Unmarshal(run.Error, &data, options); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s %s %s %s %s", run.Status, run.RunID, data.Type, data.Source, data.Executed, data.Next)
}

// TestErrorTableOnTheWire checks the error table from the provider's answer to the
// agent's: code, name, http_status, phase, source, executed, next, and the execution id
// or param.
func TestErrorTableOnTheWire(t *testing.T) {
	t.Parallel()
	invoke := func(answer http.HandlerFunc) map[string]http.HandlerFunc {
		return map[string]http.HandlerFunc{"/run": answer}
	}
	poll := func(answer http.HandlerFunc) map[string]http.HandlerFunc {
		return map[string]http.HandlerFunc{"/run": status(202, acceptedRun), "/status/e1": answer}
	}
	result := func(answer http.HandlerFunc) map[string]http.HandlerFunc {
		return map[string]http.HandlerFunc{"/run": status(202, acceptedRun), "/status/e1": status(200, `{"execution_id":"e1","status":"completed"}`), "/result/e1": answer}
	}
	document := func(path string, answer http.HandlerFunc) map[string]http.HandlerFunc {
		return map[string]http.HandlerFunc{path: answer}
	}
	const index, descriptor = "/.well-known/skill-sharing", "/s.json"
	unified := func(code string) string { return `{"error":{"code":"` + code + `","message":"m"}}` }
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + closed.Addr().String()
	_ = closed.Close()

	for _, c := range []struct {
		about  string
		routes map[string]http.HandlerFunc
		edits  []string
		params string
		want   string
	}{
		// The invocation, by HTTP status.
		{about: "302", routes: invoke(status(302, "")), want: "-32056 INVALID_PROVIDER_RESPONSE 302 invoke bridge maybe none "},
		{about: "304", routes: invoke(status(304, "")), want: "-32056 INVALID_PROVIDER_RESPONSE 304 invoke bridge maybe none "},
		{about: "400", routes: invoke(status(400, "")), want: "-32056 INVALID_PROVIDER_RESPONSE 400 invoke provider maybe none "},
		{about: "400 with JSON", routes: invoke(status(400, `{"city":"?"}`)), want: "-32602 VALIDATION_ERROR 400 invoke provider maybe fix_params args"},
		{about: "400 with JSON and a byte order mark", routes: invoke(status(400, "\ufeff{\"city\":\"?\"}")), want: "-32602 VALIDATION_ERROR 400 invoke provider maybe fix_params args"},
		{about: "401", routes: invoke(status(401, "")), want: "-32050 AUTH_REQUIRED 401 invoke provider no ask_operator "},
		{about: "403", routes: invoke(status(403, "")), want: "-32051 PERMISSION_DENIED 403 invoke provider no ask_operator "},
		{about: "404", routes: invoke(status(404, "")), want: "-32602 SKILL_NOT_FOUND 404 invoke provider no other_skill name"},
		{about: "405", routes: invoke(status(405, "")), want: "-32056 INVALID_PROVIDER_RESPONSE 405 invoke provider no other_skill "},
		{about: "408", routes: invoke(status(408, "")), want: "-32052 INVOCATION_TIMEOUT 408 invoke provider maybe none "},
		{about: "409", routes: invoke(status(409, "")), want: "-32056 INVALID_PROVIDER_RESPONSE 409 invoke provider maybe none "},
		{about: "410", routes: invoke(status(410, "")), want: "-32602 SKILL_NOT_FOUND 410 invoke provider no other_skill name"},
		{about: "422", routes: invoke(status(422, "")), want: "-32054 VERSION_INCOMPATIBLE 422 invoke provider no other_skill "},
		{about: "422 with JSON", routes: invoke(status(422, `{"city":"?"}`)), want: "-32602 VALIDATION_ERROR 422 invoke provider no fix_params args"},
		{about: "429", routes: invoke(status(429, "")), want: "-32057 RATE_LIMITED 429 invoke provider no retry "},
		{about: "500", routes: invoke(status(500, "")), want: "-32056 INVALID_PROVIDER_RESPONSE 500 invoke provider maybe none "},
		{about: "501", routes: invoke(status(501, "")), want: "-32056 INVALID_PROVIDER_RESPONSE 501 invoke provider maybe none "},
		{about: "502", routes: invoke(status(502, "")), want: "-32053 ENDPOINT_UNREACHABLE 502 invoke provider maybe none "},
		{about: "503", routes: invoke(status(503, "")), want: "-32053 ENDPOINT_UNREACHABLE 503 invoke provider maybe none "},
		{about: "504", routes: invoke(status(504, "")), want: "-32052 INVOCATION_TIMEOUT 504 invoke provider maybe none "},
		{about: "418", routes: invoke(status(418, "")), want: "-32056 INVALID_PROVIDER_RESPONSE 418 invoke provider maybe none "},
		{about: "200 without sense", routes: invoke(status(200, "{}")), want: "-32056 INVALID_PROVIDER_RESPONSE 200 invoke bridge maybe none "},
		{about: "too large", routes: invoke(status(200, `"`+strings.Repeat("x", 70<<10)+`"`)), want: "-32056 INVALID_PROVIDER_RESPONSE 200 invoke bridge maybe none "},
		{about: "dropped", routes: invoke(drop), want: "-32053 ENDPOINT_UNREACHABLE 0 invoke bridge maybe none "},
		{about: "hangs", routes: invoke(hang), params: `{"name":"p.s","timeout_ms":1000}`, want: "-32052 INVOCATION_TIMEOUT 0 invoke bridge maybe none "},

		// The invocation, by the code of a unified error.
		{about: "AUTH_REQUIRED", routes: invoke(status(400, unified("AUTH_REQUIRED"))), want: "-32050 AUTH_REQUIRED 400 invoke provider maybe ask_operator "},
		{about: "PERMISSION_DENIED", routes: invoke(status(403, unified("PERMISSION_DENIED"))), want: "-32051 PERMISSION_DENIED 403 invoke provider no ask_operator "},
		{about: "SKILL_NOT_FOUND", routes: invoke(status(404, unified("SKILL_NOT_FOUND"))), want: "-32602 SKILL_NOT_FOUND 404 invoke provider no other_skill name"},
		{about: "INVOCATION_TIMEOUT", routes: invoke(status(408, unified("INVOCATION_TIMEOUT"))), want: "-32052 INVOCATION_TIMEOUT 408 invoke provider maybe none "},
		{about: "EXECUTION_TIMEOUT", routes: invoke(status(504, unified("EXECUTION_TIMEOUT"))), want: "-32052 INVOCATION_TIMEOUT 504 invoke provider maybe none "},
		{about: "ENDPOINT_UNREACHABLE", routes: invoke(status(503, unified("ENDPOINT_UNREACHABLE"))), want: "-32053 ENDPOINT_UNREACHABLE 503 invoke provider maybe none "},
		{about: "VERSION_INCOMPATIBLE", routes: invoke(status(422, unified("VERSION_INCOMPATIBLE"))), want: "-32054 VERSION_INCOMPATIBLE 422 invoke provider no other_skill "},
		{about: "VALIDATION_ERROR", routes: invoke(status(400, unified("VALIDATION_ERROR"))), want: "-32602 VALIDATION_ERROR 400 invoke provider maybe fix_params args"},
		{about: "unknown code", routes: invoke(status(401, unified("TOKEN_EXPIRED"))), want: "-32050 AUTH_REQUIRED 401 invoke provider no ask_operator "},

		// A run that had been accepted.
		{about: "poll 401", routes: poll(status(401, "")), want: "-32050 AUTH_REQUIRED 401 poll provider yes follow_run e1"},
		{about: "poll 403", routes: poll(status(403, "")), want: "-32051 PERMISSION_DENIED 403 poll provider yes follow_run e1"},
		{about: "poll 404", routes: poll(status(404, "")), params: comesBack, want: "-32056 INVALID_PROVIDER_RESPONSE 404 poll provider yes follow_run e1"},
		{about: "poll 410", routes: poll(status(410, "")), params: comesBack, want: "-32056 INVALID_PROVIDER_RESPONSE 410 poll provider yes follow_run e1"},
		{about: "poll 422", routes: poll(status(422, "")), want: "-32056 INVALID_PROVIDER_RESPONSE 422 poll provider yes follow_run e1"},
		{about: "poll 429", routes: poll(status(429, "")), params: comesBack, want: "-32057 RATE_LIMITED 429 poll provider yes follow_run e1"},
		{about: "poll 500", routes: poll(status(500, "")), params: comesBack, want: "-32056 INVALID_PROVIDER_RESPONSE 500 poll provider yes follow_run e1"},
		{about: "poll 503", routes: poll(status(503, "")), params: comesBack, want: "-32053 ENDPOINT_UNREACHABLE 503 poll provider yes follow_run e1"},
		{about: "poll 504", routes: poll(status(504, "")), params: comesBack, want: "failed e1 INVOCATION_TIMEOUT provider yes follow_run"},
		{about: "poll dropped", routes: poll(drop), params: comesBack, want: "-32053 ENDPOINT_UNREACHABLE 0 poll bridge yes follow_run e1"},
		{about: "poll nonsense", routes: poll(status(200, "nonsense")), want: "-32056 INVALID_PROVIDER_RESPONSE 200 poll bridge yes follow_run e1"},
		{about: "poll hangs", routes: poll(hang), params: `{"name":"p.s","timeout_ms":1000}`, want: "failed e1 INVOCATION_TIMEOUT bridge yes follow_run"},
		{about: "result 404", routes: result(status(404, "")), params: comesBack, want: "running"},
		{about: "result 409", routes: result(status(409, "")), want: "-32056 INVALID_PROVIDER_RESPONSE 409 result provider yes follow_run e1"},
		{about: "no URL to follow", routes: poll(nil), edits: []string{`"status_url"`, `"x"`, `"result_url"`, `"y"`}, want: "-32056 INVALID_PROVIDER_RESPONSE 0 poll bridge yes none e1"},
		{about: "run failed", routes: poll(status(200, `{"execution_id":"e1","status":"failed","error":{"code":"NO_TABLES","message":"m"}}`)), want: "failed e1 NO_TABLES provider yes none"},
		{about: "run timed out", routes: poll(status(200, `{"execution_id":"e1","status":"timeout"}`)), want: "failed e1 INVOCATION_TIMEOUT provider yes none"},

		// Documents.
		{about: "index 401", routes: document(index, status(401, "")), want: "-32050 AUTH_REQUIRED 401 discovery provider no ask_operator "},
		{about: "index 403", routes: document(index, status(403, "")), want: "-32051 PERMISSION_DENIED 403 discovery provider no ask_operator "},
		{about: "index 404", routes: document(index, status(404, "")), want: "-32056 INVALID_PROVIDER_RESPONSE 404 discovery provider no ask_operator "},
		{about: "index 429", routes: document(index, status(429, "")), want: "-32057 RATE_LIMITED 429 discovery provider no retry "},
		{about: "index 500", routes: document(index, status(500, "")), want: "-32053 ENDPOINT_UNREACHABLE 500 discovery provider no retry "},
		{about: "index dropped", routes: document(index, drop), want: "-32053 ENDPOINT_UNREACHABLE 0 discovery bridge no retry "},
		{about: "index invalid", routes: document(index, status(200, "{}")), want: "-32055 VALIDATION_ERROR 0 discovery bridge no ask_operator "},
		{about: "descriptor 404", routes: document(descriptor, status(404, "")), want: "-32602 SKILL_NOT_FOUND 404 descriptor provider no other_skill name"},
		{about: "descriptor 410", routes: document(descriptor, status(410, "")), want: "-32602 SKILL_NOT_FOUND 410 descriptor provider no other_skill name"},
		{about: "descriptor 503", routes: document(descriptor, status(503, "")), want: "-32053 ENDPOINT_UNREACHABLE 503 descriptor provider no retry "},
		{about: "descriptor not JSON", routes: document(descriptor, status(200, "{")), want: "-32055 VALIDATION_ERROR 0 descriptor bridge no other_skill "},
		{about: "descriptor of a newer protocol", edits: []string{`"version":"1.0.0"`, `"version":"2.0.0"`}, want: "-32054 VERSION_INCOMPATIBLE 0 descriptor bridge no other_skill "},

		// The call itself.
		{about: "unknown skill", params: `{"name":"p.none"}`, want: "-32602 SKILL_NOT_FOUND 0 discovery bridge no fix_params name"},
		{about: "other version", params: `{"name":"p.s","version":"9.0.0"}`, want: "-32602 SKILL_NOT_FOUND 0 descriptor bridge no fix_params version"},
		{about: "wrong type", params: `{"name":"p.s","args":{"city":1}}`, want: "-32602  0 invoke bridge no fix_params city"},
		{about: "no credential", edits: []string{`"auth":{"type":"none"}`, `"auth":{"type":"api_key"}`}, want: "-32050 AUTH_REQUIRED 0 auth bridge no ask_operator "},
	} {
		t.Run(c.about, func(t *testing.T) {
			t.Parallel()
			if got := newWire(t, c.routes, c.edits...).verdict(t, c.params); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}

	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		w := newWire(t, nil)
		w.mu.Lock()
		answer := httptest.NewRecorder()
		w.routes["/s.json"](answer, nil)
		w.routes["/s.json"] = status(200, strings.Replace(answer.Body.String(), w.provider.URL+"/run", nobody+"/run", 1))
		w.mu.Unlock()
		if got, want := w.verdict(t, ""), "-32053 ENDPOINT_UNREACHABLE 0 invoke bridge no retry "; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// After a provider has switched protocols, package net/http does not end reads when the
// context ends. The call ends nevertheless.
func TestSwitchingProtocolsDoesNotHoldACall(t *testing.T) {
	switches := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"))
		_, _ = conn.Read(make([]byte, 1)) // until the bridge closes
	}
	w := newWire(t, map[string]http.HandlerFunc{"/run": switches})
	if got, want := w.verdict(t, `{"name":"p.s","timeout_ms":1000}`), "-32052 INVOCATION_TIMEOUT 0 invoke bridge maybe none "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestSafeNamesOfInputs: a call of a tool with the names of its schema reaches the provider with those of the descriptor, in the body and in a query; an input
// under both names is refused.
func TestSafeNamesOfInputs(t *testing.T) {
	for _, method := range []string{"POST", "GET"} {
		var got string
		w := newWire(t, map[string]http.HandlerFunc{"/run": func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = string(body) + r.URL.Query().Get("größe")
			status(200, `{"execution_id":"e1","status":"completed","output":1}`)(w, r)
		}}, `"name":"city"`, `"name":"größe"`, `"required":false`, `"required":true`, `"method":"POST"`, `"method":"`+method+`"`)
		ask := func(name, params string) (jsontext.Value, *jsonrpc.Error) {
			return w.front.ServeRPC(t.Context(), &jsonrpc.Request{Method: name, Params: jsontext.Value(params), ID: jsontext.Value("1")})
		}
		for _, format := range []string{"anthropic", "openai", "mcp"} {
			list, fault := ask("list_skills", `{"detail":"tools","format":"`+format+`"}`)
			if fault != nil || !strings.Contains(string(list), `"properties":{"gr__e_d353a2":{"type":"string","title":"größe","description":"c"}},"required":["gr__e_d353a2"]`) {
				t.Errorf("%s: %s, %v", format, list, fault)
			}
		}
		for _, name := range []string{"gr__e_d353a2", "größe"} {
			got = ""
			if _, fault := ask("execute_skill", `{"name":"p_s","args":{"`+name+`":"5 cm"}}`); fault != nil || !strings.Contains(got, "5 cm") || method == "POST" && !strings.Contains(got, `{"größe":"5 cm"}`) {
				t.Errorf("%s with %s: the provider got %q, %v", method, name, got, fault)
			}
		}
		got = ""
		if _, fault := ask("execute_skill", `{"name":"p_s","args":{"gr__e_d353a2":"1","größe":"2"}}`); fault == nil || got != "" {
			t.Errorf("an input under two names: %q", got)
		}
		for _, c := range []struct{ args, want, problem string }{ // the names are those that the caller uses, or was shown
			{`{"gr__e_d353a2":1}`, "gr__e_d353a2", "must be a string"},
			{`{"größe":1}`, "größe", "must be a string"},
			{`{}`, "gr__e_d353a2", "is required"},
			{`{"größe":"1","gr__e_d353a2":"2"}`, "gr__e_d353a2", "is given twice"},
		} {
			_, fault := ask("execute_skill", `{"name":"p_s","args":`+c.args+`}`)
			if fault == nil || !strings.HasPrefix(fault.Message, `argument "`+c.want+`" `+c.problem) || !strings.Contains(string(fault.Data), `"param":"`+c.want+`"`) || got != "" {
				t.Errorf("%s: %q, %v %s", c.args, got, fault, fault.Data)
			}
		}
		for _, unknown := range []string{"gr__e", "groesse", "grösse"} {
			if result, fault := ask("execute_skill", `{"name":"p_s","args":{"gr__e_d353a2":"1","`+unknown+`":"2"}}`); fault != nil || strings.Contains(string(result), "größe'") {
				t.Errorf("%s: %s, %v", unknown, result, fault)
			}
		}
	}
}
