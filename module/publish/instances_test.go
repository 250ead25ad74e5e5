package publish_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/keeping"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// inEachDatabase runs a test with the option store for each database that instances can share.
func inEachDatabase(t *testing.T, test func(t *testing.T, store string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, "store sqlite "+filepath.Join(t.TempDir(), "runs.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, "store postgres "+postgrestest.Start(t))
	})
}

// startProcess starts an instance in a process of its own.
func startProcess(t *testing.T, a *api, caddyfile string) (*publisher, *testbed.Process) {
	t.Helper()
	p := testbed.StartProcess(t, testbed.Limits{}, caddyfile)
	return &publisher{nil, t, a, "http://127.0.0.1:" + p.Port("PORT"), caddyfile, "pets"}, p
}

// in returns the URL of a run at another instance.
func (p *publisher) in(a answer) answer {
	a.Run.StatusURL = p.base + a.Run.StatusURL[strings.Index(a.Run.StatusURL, "/skill-sharing"):]
	return a
}

// An operation goes on over a reload of the configuration, with the handlers that its request got to, and its run is found afterwards.
func TestReload(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, "async_after 100ms"))
	slow := make(chan struct{})
	a.On(func(w http.ResponseWriter, _ *http.Request) { <-slow; w.WriteHeader(http.StatusNoContent) })
	got := p.invoke("slow", `{}`)
	var waiting answer
	var group sync.WaitGroup
	group.Go(func() { waiting = p.invoke("slow", `{}`, key, uuid) })
	testbed.Eventually(t, 10*time.Second, func() bool { return a.Count() == 2 }, "the API is asked twice")
	other := startAPI(t)
	if err := p.Reload(strings.Replace(p.text, strings.TrimPrefix(a.URL, "http://"), strings.TrimPrefix(other.URL, "http://"), 1)); err != nil {
		t.Fatal(err)
	}
	if now := p.get(got.Run.StatusURL); now.Run.Status != "running" {
		t.Errorf("%v", now)
	}
	if again := p.invoke("slow", `{}`, key, uuid); again.Status != http.StatusAccepted {
		t.Errorf("%v", again)
	}
	close(slow)
	group.Wait()
	for _, run := range []answer{got, waiting} {
		if end := p.await(run); end.Run.Status != "completed" {
			t.Errorf("%v", end)
		}
	}
	if a.Count() != 2 || other.Count() != 0 {
		t.Errorf("%d and %d requests", a.Count(), other.Count())
	}
	if now := p.invoke("get-pet", `{"petId":"1"}`); now.Run.Status != "completed" || other.Count() != 1 {
		t.Errorf("%v", now)
	}
}

// R244: after a reload, runs of other instances are still adopted, and kept for as long as the newest configuration says.
func TestR244FollowedAfterReload(t *testing.T) {
	longtest.Need(t, longtest.Long) // instances are looked for each 10 seconds
	a := startAPI(t)
	file := filepath.Join(t.TempDir(), "runs.db")
	site := strings.Replace(a.site(t, ""), "store memory", "store sqlite "+file+"\n\tkeep 48h", 1)
	p := start(t, a, site)
	if err := p.Reload(strings.Replace(site, "keep 48h", "keep 72h", 1)); err != nil {
		t.Fatal(err)
	}
	db := store.New(store.Settings{Kind: store.SQLite, File: file})
	db.Start(zap.NewNop())
	e := &ledger.Entry{Owner: ledger.Owner{Realm: "skill_publish"}, ID: "018f0000-0000-7000-8000-000000000000", Front: "publish", Single: true}
	if _, err := db.Runs().Claim(t.Context(), e, time.Hour); err != nil {
		t.Fatal(err)
	}
	db.Close() // it is gone
	for kept := range keeping.Ledgers() {
		if followers := kept.Followers(); kept.DB.Status().Place == "SQLite in "+file && len(followers) != 1 {
			t.Errorf("followers: %v", followers)
		}
		testbed.Eventually(t, 20*time.Second, func() bool {
			now, err := kept.Get(t.Context(), e.Identity())
			return err == nil && now.State == ledger.Unknown
		}, "the run is adopted")
	}
}

// The run of an earlier build, which noted a digest of the credential and a time, is read by its owner.
func TestRunOfEarlierBuild(t *testing.T) {
	a := startAPI(t)
	file := filepath.Join(t.TempDir(), "runs.db")
	p := start(t, a, strings.Replace(a.site(t, ""), "store memory", "store sqlite "+file, 1))
	kept := p.invoke("add-pet", `{"name":"Rex"}`, "X-Pets-Key", "mine", "Idempotency-Key", "a")
	id, secret := kept.Run.ExecutionID[:36], kept.Run.ExecutionID[37:]
	db := store.New(store.Settings{Kind: store.SQLite, File: file})
	db.Start(zap.NewNop())
	defer db.Close()
	e, err := db.Runs().Get(t.Context(), ledger.Identity{Owner: ledger.Owner{Realm: "skill_publish", Principal: ledger.Group + secret[:1]}, ID: id})
	if err != nil {
		t.Fatal(err)
	}
	var notes struct{ Credential string }
	if err := json.Unmarshal(e.Notes, &notes); err != nil || notes.Credential == "" {
		t.Fatal(string(e.Notes), err)
	}
	earlier := &ledger.Entry{
		Owner: e.Owner, ID: "018f0000-0000-7000-8000-000000000000", Front: e.Front, Skill: e.Skill, Asked: e.Asked, Ref: e.Ref, Single: true,
		Notes: []byte(notes.Credential + " 1767323045000"),
	}
	if _, err := db.Runs().Claim(t.Context(), earlier, time.Hour); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"mine": http.StatusOK, "other": http.StatusNotFound, "": http.StatusNotFound} {
		got := p.get(strings.Replace(kept.Run.StatusURL, id, earlier.ID, 1), "X-Pets-Key", key)
		if got.Status != want || want == http.StatusOK && !strings.Contains(got.Body, `"created_at":"2026-01-02T03:04:05Z"`) {
			t.Errorf("%s: %v", key, got)
		}
	}
}

// What was read of one document before a reload is published after it, if the other document can't be read then.
func TestReloadWhileReading(t *testing.T) {
	longtest.Need(t, longtest.Long)
	a := startAPI(t)
	reads := make(chan bool, 100)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads <- true
		switch len(reads) {
		case 1:
			w.Header().Set("Cache-Control", "max-age=5")
			_, _ = io.WriteString(w, strings.ReplaceAll(pets, "operationId: ", "operationId: other-"))
		case 2:
			<-r.Context().Done()
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(slow.Close)
	site := a.site(t, "allow_http\n\tallow_networks 127.0.0.1/32\n\topenapi "+slow.URL+"/a.yaml {\n\t\tinclude *\n\t}")
	p := start(t, a, site)
	shows := func(text string) func() bool {
		return func() bool { return strings.Contains(p.get("/.well-known/skill-sharing").Body, text) }
	}
	testbed.Eventually(t, 10*time.Second, shows("other-slow"), "both documents are read")
	_, file, _ := strings.Cut(site, "openapi ")
	file, _, _ = strings.Cut(file, " ")
	if err := os.WriteFile(file, []byte(strings.Replace(pets, "summary: Get a pet", "summary: Changed", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, 20*time.Second, func() bool { return len(reads) == 2 }, "the other document is read again")
	if err := p.Reload(strings.Replace(site, "allow_http", "async_after 3s\n\tallow_http", 1)); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, 10*time.Second, shows("Changed"), "the change is published")
}

// A document whose server starts after Caddy is published soon.
func TestDocumentOfLateServer(t *testing.T) {
	t.Parallel()
	a := startAPI(t)
	var reads atomic.Int64
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if reads.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, strings.ReplaceAll(pets, "operationId: ", "operationId: late-"))
	}))
	t.Cleanup(late.Close)
	p, _ := startProcess(t, a, a.site(t, "allow_http\n\tallow_networks 127.0.0.1/32\n\topenapi "+late.URL+"/a.yaml {\n\t\tinclude *\n\t}"))
	testbed.Eventually(t, 20*time.Second, func() bool {
		return strings.Contains(p.get("/.well-known/skill-sharing").Body, "late-slow")
	}, "the document is published")
}

// S371: a document that is not answered delays neither the others nor their changes.
func TestS371DocumentThatIsNotAnswered(t *testing.T) {
	longtest.Need(t, longtest.Long)
	t.Parallel()
	a := startAPI(t)
	end := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(end) })
	site := a.site(t, "allow_http\n\tallow_networks 127.0.0.1/32\n\topenapi "+silent.URL+"/a.yaml {\n\t\tinclude *\n\t}\n\topenapi "+silent.URL+"/b.yaml {\n\t\tinclude *\n\t}")
	_, file, _ := strings.Cut(site, "openapi ")
	file, _, _ = strings.Cut(file, " ")
	p, _ := startProcess(t, a, site)
	began := time.Now()
	if got := p.get("/.well-known/skill-sharing"); strings.Count(got.Body, "descriptor_url") != 4 || got.Header.Get("Cache-Control") != "max-age=5" || time.Since(began) > 20*time.Second {
		t.Errorf("after %s: %v", time.Since(began), got)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(pets, "summary: Get a pet", "summary: Changed", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, 15*time.Second, func() bool { return strings.Contains(p.get("/.well-known/skill-sharing").Body, "Changed") }, "the change is published")
}

// Two instances that share a database know each other's kept runs, and execute what has a key once. A run whose process is killed is lost, and not executed again.
func TestInstances(t *testing.T) {
	longtest.Need(t, longtest.Long)
	t.Parallel()
	inEachDatabase(t, func(t *testing.T, store string) { //nolint:thelper // it is a test
		a := startAPI(t)
		slow := make(chan struct{})
		t.Cleanup(sync.OnceFunc(func() { close(slow) }))
		a.On(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				select {
				case <-slow:
				case <-r.Context().Done():
				}
			}
			time.Sleep(200 * time.Millisecond)
			w.WriteHeader(http.StatusNoContent)
		})
		site := strings.Replace(a.site(t, "async_after 100ms\n\tnamespace pets"), "store memory", store, 1)
		first, process := startProcess(t, a, site)
		second, _ := startProcess(t, a, site)
		var group sync.WaitGroup
		answers := make([]answer, 2)
		for i, p := range []*publisher{first, second} {
			group.Go(func() { answers[i] = p.invoke("add-pet", `{"name":"Rex"}`, key, uuid) })
		}
		group.Wait()
		if a.Count() != 1 || answers[0].Run.ExecutionID != answers[1].Run.ExecutionID {
			t.Errorf("%d requests: %v\n%v", a.Count(), answers[0], answers[1])
		}
		if end := second.await(second.in(answers[0])); end.Run.Status != "completed" {
			t.Errorf("%v", end)
		}
		kept, keyed := first.invoke("slow", `{}`), first.invoke("slow", `{}`, key, uuid3)
		if now := second.get(second.in(kept).Run.StatusURL); now.Run.Status != "running" {
			t.Errorf("%v", now)
		}
		before := a.Count()
		process.Signal(os.Kill)
		<-process.Exited()
		testbed.Eventually(t, time.Minute, func() bool { return second.get(second.in(kept).Run.StatusURL).Run.Status == "failed" }, "the run is lost")
		for _, got := range []answer{second.get(second.in(kept).Run.StatusURL), second.get(second.in(keyed).Run.StatusURL), second.invoke("slow", `{}`, key, uuid3)} {
			if got.Status != http.StatusOK || got.Run.Status != "failed" || got.code() != "LOST" {
				t.Errorf("%v", got)
			}
		}
		if n := a.Count() - before; n != 0 {
			t.Errorf("%d requests after the kill", n)
		}
	})
}

// A process that stops ends what it executes, and says so.
func TestStop(t *testing.T) {
	a := startAPI(t)
	ended := make(chan struct{})
	a.On(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done(); close(ended) })
	store := "store sqlite " + filepath.Join(t.TempDir(), "runs.db")
	site := strings.Replace(a.site(t, "async_after 100ms\n\tnamespace pets"), "store memory", store, 1)
	p, process := startProcess(t, a, site)
	got := p.invoke("slow", `{}`)
	process.Signal(os.Interrupt)
	process.Wait(20 * time.Second)
	<-ended
	next, _ := startProcess(t, a, site)
	if end := next.get(next.in(got).Run.StatusURL); end.Run.Status != "failed" || end.code() != "LOST" {
		t.Errorf("%v", end)
	}
}

// command runs a command of the bridge.
func command(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program, append([]string{"skill-bridge"}, arguments...)...)
	c.Env = append(os.Environ(), "TESTBED_CADDY=1", "HOME="+t.TempDir(), "KEY=mine", "GOCOVERDIR="+t.TempDir())
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	text, err := c.CombinedOutput()
	return string(text), err
}

// What is published passes our own validator, at once and as runs.
func TestValidator(t *testing.T) {
	a := startAPI(t)
	a.On(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Pets-Key") != "mine" && r.URL.Path == "/pets" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/slow" {
			time.Sleep(400 * time.Millisecond)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"name":"Rex"}`))
	})
	p := start(t, a, a.site(t, "async_after 200ms\n\tnamespace pets"))
	to := []string{"validate", "--allow-http", "--allow-networks=127.0.0.0/8", p.base}
	if text, err := command(t, append(to, "--strict")...); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	for _, arguments := range [][]string{
		{"--run", "pets.get-pet", "--args", `{"petId":"1"}`},
		{"--run", "pets.slow", "--args", `{}`},
		{"--run", "pets.add-pet", "--args", `{"name":"Rex"}`, "--api-key-env", "KEY"},
	} {
		if text, err := command(t, append(to, arguments...)...); err != nil || strings.Contains(text, "failed") {
			t.Errorf("%q: %v\n%s", arguments, err, text)
		}
	}
}

// The command check says what is published, what is left out and why, which document can't be read, and whether the database can be used.
func TestCheck(t *testing.T) {
	for _, c := range []struct{ operations, store, want string }{
		{"getPet", "memory", ""},
		{"getPet events", "memory", "warning"},
		{"getPet getPett", "memory", "no operation is named so"},
		{"getPet vague", "memory", "warning"},
		{"getPet broken", "memory", `the reference "#/none" leads nowhere`},
		{"getPet", "sqlite /dev/null/a.db", "the database can't be used"},
	} {
		more := "  /events: {get: {operationId: events, responses: {'200': {description: Events., content: {text/event-stream: {}}}}}}\n  /broken: {get: {operationId: broken, parameters: [{$ref: '#/none'}], responses: {}}, put: {operationId: vague, responses: {'200': {$ref: '#/none'}}}}\n"
		site := "http://localhost:9 {\n\tskill_publish {\n\t\topenapi " + write(t, "pets.yaml", pets+more) + " {\n\t\t\tinclude " + c.operations + "\n\t\t}\n\t\tstore " + c.store + "\n\t}\n}\n"
		text, err := command(t, "check", "--config", write(t, "Caddyfile", site))
		if failed := c.want != "" && c.want != "warning"; (err != nil) != failed || !strings.Contains(text, c.want) || strings.Contains(text, "failed") != failed {
			t.Errorf("%+v: %v\n%s", c, err, text)
		}
	}
	for address, want := range map[string][]string{
		":9": {"names no host, so that consumers are not told any URLs: write url", "no operation is published: ", "write namespace"},
	} {
		text, err := command(t, "check", "--config", write(t, "Caddyfile", address+" {\n\tskill_publish {\n\t\topenapi "+write(t, "pets.yaml", pets)+" {\n\t\t\tinclude *\n\t\t}\n\t\tstore memory\n\t}\n}\n"))
		for _, want := range want {
			if err == nil || !strings.Contains(text, want) || strings.Contains(text, "skills are published") {
				t.Errorf("%s: %v\n%s, want %s", address, err, text, want)
			}
		}
	}
	text, err := command(t, "check", "--config", write(t, "Caddyfile", ":9 {\n\tskill_publish {\n\t\topenapi a.yaml {\n\t\t\tinclude *\n\t\t}\n\t\tstore postgres {env.SKILL_BRIDGE_NONE}\n\t}\n}\n"))
	if err == nil || !strings.Contains(text, "/Caddyfile: skill_publish: store: placeholder {env.SKILL_BRIDGE_NONE} is empty") || strings.Contains(text, "loading") {
		t.Errorf("a fault of a value: %v\n%s", err, text)
	}
	document := write(t, "pets.yaml", pets+"  /events:\n    get:\n      operationId: events\n      responses: {\"200\": {description: Events., content: {text/event-stream: {}}}}\n")
	config := write(t, "Caddyfile", "http://localhost:9 {\n\tskill_publish {\n\t\topenapi "+document+" {\n\t\t\tinclude *\n\t\t}\n\t\topenapi missing.yaml {\n\t\t\tinclude *\n\t\t}\n\t\tstore memory\n\t}\n}\n")
	text, err = command(t, "check", "--config", config)
	if err == nil || !strings.Contains(text, "skills are published: 5") || !strings.Contains(text, "the operation is not published: ") || !strings.Contains(text, "events") || !strings.Contains(text, "nothing of the document is published: ") {
		t.Errorf("%v\n%s", err, text)
	}
}

// A caller of our own bridge reaches the API by each of its protocols. The caller's credential of the bridge does not reach the API, and that of the API nobody else.
func TestBridge(t *testing.T) { //nolint:tparallel // its parts use one API in turns
	t.Parallel()
	a := startAPI(t)
	bridge := "http://127.0.0.1:{$PORT_BRIDGE} {\n\tskill_bridge {\n\t\trpc\n\t\tmcp\n\t\ta2a {\n\t\t\turl http://127.0.0.1:{$PORT_BRIDGE}\n\t\t}\n\t\tprovider http://127.0.0.1:{$PORT} {\n" +
		"\t\t\tnamespace pets\n\t\t\tcredentials api_key secret-of-the-api\n\t\t}\n\t\tallow_http\n\t\tallow_networks 127.0.0.0/8\n\t\tallow_anonymous\n\t\tstore memory\n\t\tname b\n\t}\n}\n"
	p, process := startProcess(t, a, a.site(t, "async_after 200ms\n\tnamespace pets")+bridge)
	to := "http://127.0.0.1:" + process.Port("PORT_BRIDGE")
	for name, c := range map[string]struct{ path, method, params string }{
		"skills protocol": {"/rpc", "execute_skill", `{"name":"pets.%s","args":%s}`},
		"mcp":             {"/mcp", "tools/call", `{"name":"pets_%s","arguments":%s}`},
		"a2a":             {"/a2a", "SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"skill":"pets.%s","input":%s}}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			call := func(skill, inputs string) string {
				t.Helper()
				params := strings.Replace(strings.Replace(c.params, "%s", skill, 1), "%s", inputs, 1)
				return p.send(http.MethodPost, to+c.path, `{"jsonrpc":"2.0","id":1,"method":"`+c.method+`","params":`+params+`}`, "Authorization", "Bearer of-the-caller").Body
			}
			a.On(nil)
			if got := call("get-pet", `{"petId":"a/b","verbose":false,"X-Shade":"blue"}`); !strings.Contains(got, `/pets/a%2Fb?verbose=false`) {
				t.Errorf("%s", got)
			}
			if r := a.Last(t); r.Header.Get("X-Shade") != "blue" || r.Header.Get("X-Pets-Key")+r.Header.Get("Authorization") != "" {
				t.Errorf("%v", r.Header)
			}
			if got := call("add-pet", `{"name":"Rex","age":9007199254740993}`); !strings.Contains(got, "9007199254740993") {
				t.Errorf("%s", got)
			}
			if r := a.Last(t); r.Header.Get("X-Pets-Key") != "secret-of-the-api" || r.Header.Get("Authorization") != "" {
				t.Errorf("%v", r.Header)
			}
			a.On(func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(500 * time.Millisecond)
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"late":"answer"}`))
			})
			if got := call("slow", `{"what":"x"}`); !strings.Contains(got, `"late"`) {
				t.Errorf("%s", got)
			}
			for status, text := range map[int]string{http.StatusNotFound: "NOT_FOUND", http.StatusForbidden: "PERMISSION_DENIED", http.StatusTooManyRequests: "RATE_LIMITED", http.StatusConflict: "No such name"} {
				a.On(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/problem+json")
					w.WriteHeader(status)
					_, _ = w.Write([]byte(`{"title":"No such name"}`))
				})
				if got := call("get-pet", `{"petId":"1"}`); !strings.Contains(got, text) {
					t.Errorf("%d: %s", status, got)
				}
			}
		})
	}
}
