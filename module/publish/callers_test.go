package publish_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// Keys that callers without a credential may use.
const (
	uuid  = "8e03978e-40d5-43dd-bc93-6894a57f9324"
	uuid3 = "0198c5d4-1f0a-7c3e-9b1a-2f6d8e4c5a70"
)

// S350: at two instances with one database, a caller with an API key and one with a token of the same operation, and of two operations, see neither
// each other's runs nor each other's keys.
func TestS350CredentialsOfTwoKinds(t *testing.T) {
	t.Parallel()
	inEachDatabase(t, func(t *testing.T, store string) { //nolint:thelper // it is a test
		a := startAPI(t)
		text := strings.Replace(pets, "      operationId: slow\n", "      operationId: slow\n      security: [{key: [], bearer: []}]\n", 1)
		site := strings.Replace(a.site(t, "async_after 100ms\n\tnamespace pets"), "store memory", store, 1)
		_, file, _ := strings.Cut(site, "openapi ")
		file, _, _ = strings.Cut(file, " ")
		site = strings.Replace(site, file, write(t, "both.yaml", text), 1)
		// Two sites of one process, and so two handlers that share nothing but the database.
		second := strings.Replace(strings.Replace(site, "{$PORT}", "{$PORT_SECOND}", 1), "namespace pets", "namespace pets\n\tkeep 23h", 1)
		p, process := startProcess(t, a, site+"\n"+second)
		other := *p
		other.base = "http://127.0.0.1:" + process.Port("PORT_SECOND")
		slow := make(chan struct{})
		release := sync.OnceFunc(func() { close(slow) })
		t.Cleanup(release)
		a.On(func(w http.ResponseWriter, r *http.Request) {
			<-slow
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"for":%q}`, r.Header.Get("X-Pets-Key")+r.Header.Get("Authorization"))
		})
		const token = "Bearer eyJhbGciOiJub25lIn0.e30."
		callers := map[string][]string{"key": {"X-Pets-Key", "mine"}, "token": {"Authorization", token}}
		runs := map[string][]answer{}
		for name, headers := range callers {
			runs[name] = append(runs[name], p.invoke("slow", `{}`, headers...), p.invoke("slow", `{}`, append(headers, key, "1")...))
		}
		runs["key"] = append(runs["key"], p.invoke("add-pet", `{"name":"Rex"}`, callers["key"]...))
		runs["token"] = append(runs["token"], p.invoke("list-pets", `{}`, callers["token"]...))
		if a.Count() != 6 {
			t.Fatalf("%d requests: %v", a.Count(), runs)
		}
		see := func(want int, caller string, got answer) {
			t.Helper()
			for _, at := range []*publisher{p, &other} {
				if now := at.get(at.in(got).Run.StatusURL, callers[caller]...); now.Status != want {
					t.Errorf("%s: %v", caller, now)
				}
				if now := at.get(at.in(got).Run.StatusURL); now.Status != http.StatusNotFound {
					t.Errorf("no one: %v", now)
				}
			}
		}
		for _, ended := range []bool{false, true} {
			for _, run := range runs["key"] {
				see(http.StatusOK, "key", run)
				see(http.StatusNotFound, "token", run)
			}
			for _, run := range runs["token"] {
				see(http.StatusOK, "token", run)
				see(http.StatusNotFound, "key", run)
			}
			if !ended {
				release()
				for name, all := range runs {
					for _, run := range all {
						want := fmt.Sprintf(`{"for":%q}`, strings.Join(callers[name][1:], ""))
						if end := other.await(other.in(run), callers[name]...); string(end.Run.Output) != want {
							t.Errorf("%s: %v", name, end)
						}
					}
				}
			}
		}
		for name, headers := range callers { // at the other instance
			if again := other.invoke("slow", `{}`, append(headers, key, "1")...); again.Run.ExecutionID != runs[name][1].Run.ExecutionID || a.Count() != 6 {
				t.Errorf("%s: %v", name, again)
			}
		}
	})
}

// S351: callers without a credential share their keys, so that these can't be guessed.
func TestS351GuessedKeys(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, "private_for {http.request.header.X-User}"))
	for _, guess := range []string{"1", `"1"`, "order-42", "00000000-0000-0000-0000-000000000000", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"} {
		if got := p.invoke("slow", `{}`, key, guess); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "random UUID") || a.Count() != 0 {
			t.Errorf("%s: %v", guess, got)
		}
		if got := p.invoke("slow", `{}`, key, guess, "X-Pets-Key", "of another operation"); got.Status != http.StatusBadRequest || a.Count() != 0 {
			t.Errorf("%s: %v", guess, got)
		}
	}
	for n, headers := range [][]string{{key, uuid}, {key, `"` + uuid3 + `"`}, {key, "1", "X-User", "ann"}} {
		if got := p.invoke("slow", `{}`, headers...); got.Run.Status != "completed" || a.Count() != n+1 {
			t.Errorf("%q: %v", headers, got)
		}
	}
	if got := p.invoke("add-pet", `{"name":"Rex"}`, key, "1"); got.Status != http.StatusUnauthorized || got.code() != "AUTH_REQUIRED" || !strings.Contains(got.Body, `"header":"X-Pets-Key"`) || a.Count() != 3 {
		t.Errorf("an operation that needs a credential: %v", got)
	}
	if got := p.invoke("add-pet", `{"name":"Rex"}`, key, "1", "X-Pets-Key", "mine"); got.Run.Status != "completed" {
		t.Errorf("%v", got)
	}
}

// After a 202, what the API refuses is a failed run with the same code.
func TestRefusedLater(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, "async_after 50ms"))
	for status, code := range map[int]string{
		401: "AUTH_REQUIRED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 408: "INVOCATION_TIMEOUT", 422: "VALIDATION_ERROR", 429: "RATE_LIMITED", 503: "ENDPOINT_UNREACHABLE",
	} {
		a.On(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(150 * time.Millisecond)
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
		})
		got := p.invoke("add-pet", `{"name":"Rex"}`)
		end := p.await(got)
		if got.Status != http.StatusAccepted || end.Status != http.StatusOK || end.Run.Status != "failed" || end.code() != code || string(end.Run.Error.Retry) != `{"max_attempts":3,"suggested_delay_ms":7000}` {
			t.Errorf("%d: %v\n%v", status, got, end)
		}
	}
}

// A call of the bridge whose operation is in progress ends with the API's answer although both sites are reloaded meanwhile.
func TestBridgeOverReload(t *testing.T) {
	a := startAPI(t)
	bridge := "http://127.0.0.1:{$PORT_BRIDGE} {\n\tskill_bridge {\n\t\trpc\n\t\tprovider http://127.0.0.1:{$PORT} {\n\t\t\tnamespace pets\n\t\t}\n\t\tallow_http\n\t\tallow_networks 127.0.0.0/8\n\t\tstore memory\n\t\tname b\n\t}\n}\n"
	p := start(t, a, a.site(t, "async_after 100ms\n\tnamespace pets")+bridge)
	slow := make(chan struct{})
	release := sync.OnceFunc(func() { close(slow) })
	t.Cleanup(release)
	a.On(func(w http.ResponseWriter, _ *http.Request) {
		<-slow
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"late":"answer"}`)
	})
	var group sync.WaitGroup
	var got answer
	group.Go(func() {
		got = p.send(http.MethodPost, "http://127.0.0.1:"+p.Port("PORT_BRIDGE")+"/rpc", `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"pets.slow","args":{}}}`)
	})
	testbed.Eventually(t, 10*time.Second, func() bool { return a.Count() == 1 }, "the API is asked")
	for _, option := range []string{"async_after 200ms", "async_after 300ms"} {
		if err := p.Reload(strings.Replace(p.text, "async_after 100ms", option, 1)); err != nil {
			t.Fatal(err)
		}
	}
	release()
	if group.Wait(); !strings.Contains(got.Body, `"late"`) || a.Count() != 1 {
		t.Errorf("%d requests: %v", a.Count(), got)
	}
}

// A document from a URL, or what it refers to, that can't be read any more leaves what was published.
func TestLostReferences(t *testing.T) {
	t.Parallel()
	a := startAPI(t)
	var mu sync.Mutex
	var answers map[string]string
	on := func(texts ...string) {
		mu.Lock()
		defer mu.Unlock()
		answers = map[string]string{}
		for i := 0; i < len(texts); i += 2 {
			answers[texts[i]] = texts[i+1]
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		text, ok := answers[r.URL.Path]
		if w.Header().Set("Cache-Control", "max-age=5"); !ok {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	document := strings.Replace(pets, "parameters:\n        - {name: petId,", "parameters:\n        - {$ref: 'p.yaml#/verbose'}\n        - {name: petId,", 1)
	document = strings.Replace(document, "bearer: {type: http, scheme: bearer}", "bearer: {type: openIdConnect, openIdConnectUrl: '"+server.URL+"/issuer'}", 1)
	document = strings.Replace(document, "        - {name: verbose, in: query, schema: {type: boolean}}\n", "", 1)
	const parameter, issuer = "verbose: {name: verbose, in: query, schema: {type: boolean}}", `{"authorization_endpoint":"https://id.example.com/a","token_endpoint":"https://id.example.com/t"}`
	on("/api.yaml", document, "/p.yaml", parameter, "/issuer", issuer)
	p, process := startProcess(t, a, testbed.Site("skill_publish {\n\topenapi "+server.URL+"/api.yaml {\n\t\tinclude *\n\t}\n\tallow_http\n\tallow_networks 127.0.0.1/32\n\tstore memory\n}", "reverse_proxy "+strings.TrimPrefix(a.URL, "http://")))
	complete := func() {
		t.Helper()
		if d := p.get("/skill-sharing/127.0.0.1/get-pet.json"); !strings.Contains(d.Body, `"verbose"`) {
			t.Errorf("%v", d)
		}
		if d := p.get("/skill-sharing/127.0.0.1/list-pets.json"); !strings.Contains(d.Body, `"auth":{"type":"oauth2","oauth2":{"authorization_url":"https://id.example.com/a"`) {
			t.Errorf("%v", d)
		}
	}
	complete()
	for path, texts := range map[string][]string{"/p.yaml": {"/api.yaml", document + "#\n", "/issuer", issuer}, "/issuer": {"/api.yaml", document + "##\n", "/p.yaml", parameter}} {
		on(texts...)
		testbed.Eventually(t, 30*time.Second, func() bool { return len(process.Log.Lines("what was published of it before stays", path)) == 1 }, "the log says that "+path+" can't be read")
		complete()
		on("/api.yaml", strings.Replace(document, "summary: Add a pet", "summary: After "+path, 1), "/p.yaml", parameter, "/issuer", issuer)
		testbed.Eventually(t, 30*time.Second, func() bool { return strings.Contains(p.get("/.well-known/skill-sharing").Body, "After "+path) }, "the change is published")
		complete()
	}
}

// A run that the bridge follows is lost if the publisher is killed, and another process takes its place: the caller learns it, and nothing is executed twice.
func TestBridgeOverKill(t *testing.T) {
	longtest.Need(t, longtest.Long)
	t.Parallel()
	inEachDatabase(t, func(t *testing.T, store string) { //nolint:thelper // it is a test
		a := startAPI(t)
		a.On(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		site := strings.Replace(a.site(t, "async_after 100ms\n\tnamespace pets", "log"), "store memory", store, 1)
		first, process := startProcess(t, a, site)
		p, _ := startProcess(t, a, testbed.Site("skill_bridge {\n\t\trpc /\n\t\tprovider "+first.base+" {\n\t\t\tnamespace pets\n\t\t}\n\t\tallow_http\n\t\tallow_networks 127.0.0.0/8\n\t\tstore memory\n\t\tname b\n\t}"))
		var group sync.WaitGroup
		var got answer
		group.Go(func() {
			got = p.send(http.MethodPost, "/", `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"pets.slow","args":{},"timeout_ms":240000}}`)
		})
		testbed.Eventually(t, time.Minute, func() bool { return len(process.Log.Lines("handled request", `"status":202`)) == 1 }, "the bridge's run is accepted")
		if own := first.invoke("slow", `{}`); own.Status != http.StatusAccepted {
			t.Fatalf("%v", own)
		}
		process.Signal(os.Kill)
		<-process.Exited()
		startProcess(t, a, strings.Replace(site, "http://127.0.0.1:{$PORT}", "http://127.0.0.1:{$PORT}, "+first.base, 1))
		if group.Wait(); !strings.Contains(got.Body, `"LOST"`) || !strings.Contains(got.Body, "is not executed again") || a.Count() != 2 {
			t.Errorf("%d requests: %v", a.Count(), got)
		}
	})
}
