package publish_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

const key = "Idempotency-Key"

// The index and the descriptors are valid, and have what is included, and nothing else.
func TestDocuments(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, ""))
	got := p.get("/.well-known/skill-sharing")
	index, err := document.ParseIndex([]byte(got.Body))
	if err != nil || got.Status != http.StatusOK || got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Cache-Control") != "max-age=60" {
		t.Fatalf("%v: %v", err, got)
	}
	if index.Provider.Name != "Pets" || len(index.Skills) != 4 {
		t.Errorf("%+v", index)
	}
	for _, e := range index.Skills {
		d := p.get(e.DescriptorURL)
		if _, err := document.ParseDescriptor([]byte(d.Body)); err != nil {
			t.Errorf("%s: %v", e.ID, err)
		}
	}
	if same := p.get("/.well-known/skill-sharing", "If-None-Match", got.Header.Get("ETag")); same.Status != http.StatusNotModified || same.Body != "" {
		t.Errorf("%v", same)
	}
	if head := p.send(http.MethodHead, "/.well-known/skill-sharing", ""); head.Status != http.StatusOK || head.Header.Get("ETag") != got.Header.Get("ETag") {
		t.Errorf("%v", head)
	}
	for kind, n := range map[string]int{"api": 4, "task": 0, "plugin": 0, "knowledge": 0} {
		for _, path := range []string{"/.well-known/skill-sharing", "/skill-sharing/skills"} {
			got := p.get(path + "?type=" + kind)
			if strings.Count(got.Body, "descriptor_url") != n || got.Status != http.StatusOK {
				t.Errorf("%s of %s: %v", path, kind, got)
			}
		}
	}
	if got := p.get("/skill-sharing/skills?type=apis"); got.Status != http.StatusBadRequest || got.code() != "VALIDATION_ERROR" {
		t.Errorf("%v", got)
	}
	if n := a.Count(); n != 0 {
		t.Errorf("the API got %d requests", n)
	}
	if got := p.get("/pets/1"); got.Status != http.StatusOK || a.Count() != 1 {
		t.Errorf("a request of another client: %v", got)
	}
}

// All descriptors name the provider of the index, which is the title of the first document.
func TestProvider(t *testing.T) {
	a := startAPI(t)
	second := write(t, "zoo.yaml", strings.NewReplacer("Pets", "Zoo", "operationId: ", "operationId: zoo-").Replace(pets))
	p := start(t, a, a.site(t, "openapi "+second+" {\n\t\tinclude *\n\t}"))
	for _, path := range []string{"get-pet.json", "zoo-get-pet.json"} {
		if d := p.get("/skill-sharing/127.0.0.1/" + path); !strings.Contains(d.Body, `"provider":{"name":"Pets"}`) {
			t.Errorf("%v", d)
		}
	}
}

// An invocation becomes one request, with the credential of the operation and no other.
func TestInvocation(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, ""))
	got := p.invoke("get-pet", `{"petId":"a/b c","verbose":true,"X-Shade":"blue"}`, "Authorization", "Bearer other", "X-Pets-Key", "secret", "Cookie", "a=b",
		"Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if got.Status != http.StatusOK || got.Run.Status != "completed" || got.Run.SkillID != "127.0.0.1/get-pet" || string(got.Run.Output) != `{"body":"","method":"GET","uri":"/pets/a%2Fb%20c?verbose=true"}` {
		t.Fatalf("%v", got)
	}
	if violations := document.CheckResponse([]byte(got.Body)); violations != nil {
		t.Errorf("%v", violations)
	}
	r := a.Last(t)
	if r.Header.Get("Authorization")+r.Header.Get("X-Pets-Key")+r.Header.Get("Cookie") != "" || r.Header.Get("X-Shade") != "blue" || r.Header.Get("Traceparent") == "" ||
		r.Header.Get("X-Forwarded-For") != "127.0.0.1" || !strings.HasPrefix(r.Host, "127.0.0.1:") {
		t.Errorf("%v %v", r.Host, r.Header)
	}
	if again := p.get(got.Run.StatusURL); again.Status != http.StatusOK || string(again.Run.Output) != string(got.Run.Output) {
		t.Errorf("%v", again)
	}
	got = p.invoke("add-pet", `{"name":"Rex","age":12345678901234567890}`, "X-Pets-Key", "secret", "Authorization", "Bearer other")
	if r := a.Last(t); got.Run.Status != "completed" || r.Header.Get("X-Pets-Key") != "secret" || r.Header.Get("Authorization") != "" || !strings.Contains(string(got.Run.Output), "12345678901234567890") {
		t.Errorf("%v %v", got, r.Header)
	}
}

// Requests that can't be executed are refused with an error that says why, and the API gets nothing.
func TestRefused(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, ""))
	const path = "/skill-sharing/127.0.0.1/get-pet"
	request := func(more string) string {
		return `{"caller":{"id":"a","type":"b"},"skill_id":"127.0.0.1/get-pet","inputs":{"petId":"1"}` + more + `}`
	}
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		code, text         string
	}{
		"no JSON":           {"POST", path, "{", nil, 400, "VALIDATION_ERROR", "is not JSON"},
		"another type":      {"POST", path, request(""), []string{"Content-Type", "text/plain"}, 415, "VALIDATION_ERROR", "application/json"},
		"too large":         {"POST", path, request(`,"x":"` + strings.Repeat("x", 1<<20) + `"`), nil, 413, "VALIDATION_ERROR", "1 MiB"},
		"no caller":         {"POST", path, `{"skill_id":"127.0.0.1/get-pet","inputs":{}}`, nil, 400, "VALIDATION_ERROR", "/caller"},
		"another skill":     {"POST", path, strings.Replace(request(""), "get-pet", "add-pet", 1), nil, 400, "VALIDATION_ERROR", "/skill_id"},
		"missing input":     {"POST", path, `{"caller":{"id":"a","type":"b"},"skill_id":"127.0.0.1/get-pet","inputs":{}}`, nil, 400, "VALIDATION_ERROR", `"path":"/inputs/petId","message":"argument \"petId\" is required","expected":"required","actual":"missing"`},
		"wrong type":        {"POST", path, strings.Replace(request(""), `"1"`, "1", 1), nil, 400, "VALIDATION_ERROR", `"expected":["string"],"actual":"number"`},
		"unknown input":     {"POST", path, strings.Replace(request(""), `"1"`, `"1","admin":true`, 1), nil, 400, "VALIDATION_ERROR", "/inputs/admin"},
		"dots":              {"POST", path, strings.Replace(request(""), `"1"`, `".."`, 1), nil, 400, "VALIDATION_ERROR", `"expected":"must not have . or .. as a segment: it is a part of the path","actual":".."`},
		"newer version":     {"POST", path, request(`,"protocol":{"version":"2.0.0"}`), nil, 422, "VERSION_INCOMPATIBLE", "2.0.0"},
		"GET":               {"GET", path, "", nil, 405, "VALIDATION_ERROR", "POST"},
		"POST to the index": {"POST", "/.well-known/skill-sharing", "{}", nil, 405, "VALIDATION_ERROR", "GET"},
		"no skill":          {"POST", "/skill-sharing/127.0.0.1/nothing", request(""), nil, 404, "SKILL_NOT_FOUND", "nothing"},
		"not included":      {"POST", "/skill-sharing/127.0.0.1/secret", request(""), nil, 404, "SKILL_NOT_FOUND", "secret"},
		"no descriptor":     {"GET", "/skill-sharing/127.0.0.1/secret.json", "", nil, 404, "SKILL_NOT_FOUND", "secret"},
		"no run":            {"GET", "/skill-sharing/runs/unknown", "", nil, 404, "SKILL_NOT_FOUND", "unknown"},
		"two keys":          {"POST", path, request(""), []string{key, strings.Repeat("x", 300)}, 400, "VALIDATION_ERROR", "Idempotency-Key"},
		"another port":      {"GET", "/.well-known/skill-sharing", "", []string{"Host", "127.0.0.1:1"}, 421, "ENDPOINT_UNREACHABLE", "url https://"},
	} {
		t.Run(name, func(t *testing.T) {
			got := p.send(c.method, c.path, c.body, c.headers...)
			if got.Status != c.status || got.code() != c.code || !strings.Contains(got.Body, c.text) || c.status == 405 && got.Header.Get("Allow") == "" {
				t.Errorf("%v", got)
			}
		})
	}
	if n := a.Count(); n != 0 {
		t.Errorf("the API got %d requests", n)
	}
}

// What the API answers is what the caller learns.
func TestAnswers(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, ""))
	for name, c := range map[string]struct {
		status       int
		header, body string // of the API
		want         int
		run, code    string
	}{
		"no content":   {204, "", "", 200, "completed", ""},
		"not found":    {404, "", `{"title":"No such pet"}`, 200, "failed", "NOT_FOUND"},
		"redirect":     {302, "", "", 200, "failed", ""},
		"key":          {401, "", "", 401, "", "AUTH_REQUIRED"},
		"forbidden":    {403, "", "", 403, "", "PERMISSION_DENIED"},
		"invalid":      {422, "", "", 422, "", "VALIDATION_ERROR"},
		"too many":     {429, "7", "", 429, "", "RATE_LIMITED"},
		"unavailable":  {503, "3", "", 503, "", "ENDPOINT_UNREACHABLE"},
		"server error": {500, "", "boom", 200, "failed", ""},
		"large":        {200, "", `"` + strings.Repeat("x", 11<<20) + `"`, 200, "failed", "TOO_LARGE"},
	} {
		t.Run(name, func(t *testing.T) {
			a.On(func(w http.ResponseWriter, _ *http.Request) {
				if c.header != "" {
					w.Header().Set("Retry-After", c.header)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			})
			got := p.invoke("add-pet", `{"name":"Rex"}`)
			if got.Status != c.want || got.Run.Status != c.run || c.code != "" && got.code() != c.code || c.run == "failed" && got.Run.Error == nil {
				t.Errorf("%.500s", got.String())
			}
			if c.header != "" && (got.Header.Get("Retry-After") != c.header || !strings.Contains(string(got.Run.Error.Retry), c.header+"000")) {
				t.Errorf("%v", got)
			}
		})
	}
	a.On(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "9")
		_, _ = w.Write([]byte(`"half`))
	})
	if got := p.invoke("get-pet", `{"petId":"1"}`); got.Run.Status != "failed" || got.Run.Error.Message != "The API gave no whole answer; the operation may have been executed" {
		t.Errorf("an answer that breaks off: %v", got)
	}
	a.CloseClientConnections()
	a.Close()
	got := p.invoke("get-pet", `{"petId":"1"}`)
	if got.Status != http.StatusServiceUnavailable || got.code() != "ENDPOINT_UNREACHABLE" || got.Header.Get("Retry-After") != "2" || string(got.Run.Error.Retry) != `{"max_attempts":3,"suggested_delay_ms":2000}` {
		t.Errorf("an API that does not run: %v", got)
	}
	if lines := p.Log.Lines("the API can't be asked", "connection refused"); len(lines) != 1 || !strings.Contains(lines[0], `"level":"warn"`) || !strings.Contains(lines[0], `"skill_id":"127.0.0.1/get-pet"`) {
		t.Errorf("%q", lines)
	}
}

// R260: consumers fill no log while the API is down, or nothing behind the publisher has it.
func TestR260LogOfFailures(t *testing.T) {
	const here = "skill_publish {\n\topenapi FILE {\n\t\tinclude *\n\t}\n\tstore memory\n}"
	for api, want := range map[string]string{"reverse_proxy 127.0.0.1:" + testbed.UnusedPort(t): "the API can't be asked", "": "no handler behind skill_publish answers"} {
		t.Run(want, func(t *testing.T) {
			p := start(t, startAPI(t), testbed.Site(strings.Replace(here, "FILE", write(t, "pets.yaml", pets), 1), api))
			for range 5 {
				p.invoke("get-pet", `{"petId":"1"}`)
				p.invoke("slow", `{}`)
			}
			if lines := p.Log.Lines(`"level":"warn"`, want); len(lines) != 1 || !strings.Contains(lines[0], `"skill_id":"127.0.0.1/get-pet"`) || strings.Contains(lines[0], "{id=") {
				t.Errorf("%q", lines)
			}
		})
	}
}

// A handler that refuses a request without asking the API has executed nothing, and its status says so.
func TestRefusingHandler(t *testing.T) {
	p := start(t, startAPI(t), testbed.Site("skill_publish {\n\topenapi "+write(t, "pets.yaml", pets)+" {\n\t\tinclude getPet\n\t}\n\tstore memory\n}", "error 503"))
	if got := p.invoke("get-pet", `{"petId":"1"}`); got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, "The API answered HTTP 503 ") {
		t.Errorf("no API at all: %v", got)
	}
}

// A text whose JSON takes more than all that is remembered is answered, and takes nothing from others.
func TestLargeOutput(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, "async_after off"))
	small := p.invoke("get-pet", `{"petId":"1"}`)
	a.On(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(make([]byte, 6<<20))
	})
	large := p.invoke("get-pet", `{"petId":"1"}`)
	if large.Run.Status != "completed" || len(large.Run.Output) != 36<<20+2 {
		t.Errorf("%.500s", large.String())
	}
	for run, status := range map[string]int{small.Run.StatusURL: http.StatusOK, large.Run.StatusURL: http.StatusNotFound} {
		if got := p.get(run); got.Status != status {
			t.Errorf("%s: %.500s", run, got.String())
		}
	}
}

// An operation that takes longer than async_after is answered with 202, and its run has the answer.
func TestAsynchronous(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, "async_after 100ms"))
	slow := make(chan struct{})
	a.On(func(w http.ResponseWriter, _ *http.Request) {
		<-slow
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"n":1.50}`))
	})
	got := p.invoke("slow", `{"what":"x"}`)
	if got.Status != http.StatusAccepted || got.Run.Status != "accepted" || got.Run.StatusURL != p.base+"/skill-sharing/runs/"+got.Run.ExecutionID || got.Header.Get("Retry-After") == "" {
		t.Fatalf("%v", got)
	}
	if now := p.get(got.Run.StatusURL); now.Run.Status != "running" || now.Header.Get("Retry-After") == "" || now.Run.ExecutionID != got.Run.ExecutionID {
		t.Errorf("%v", now)
	}
	close(slow)
	end := p.await(got)
	if times := end.Run.Timestamps; end.Run.Status != "completed" || string(end.Run.Output) != `{"n":1.50}` || times.Completed.Sub(times.Created) < 100*time.Millisecond {
		t.Errorf("%v", end)
	}
	if n := a.Count(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// An operation that takes too long ends.
func TestTimeout(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, "async_after off\n\ttimeout 200ms"))
	a.On(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
		}
	})
	if got := p.invoke("slow", `{}`); got.Status != http.StatusOK || got.Run.Status != "timeout" || got.code() != "INVOCATION_TIMEOUT" {
		t.Errorf("%v", got)
	}
}

// An invocation with an idempotency key is executed once.
func TestIdempotency(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, "async_after 100ms"))
	first := p.invoke("add-pet", `{"name":"Rex"}`, key, "k1", "X-Pets-Key", "mine")
	again := p.invoke("add-pet", `{"name":"Rex"}`, key, "k1", "X-Pets-Key", "mine")
	if first.Run.Status != "completed" || again.Run.ExecutionID != first.Run.ExecutionID || string(again.Run.Output) != string(first.Run.Output) || a.Count() != 1 {
		t.Errorf("%v\n%v\n%d requests", first, again, a.Count())
	}
	if a.Last(t).Header.Get(key) != "k1" {
		t.Error("the API did not get the key")
	}
	if got := p.invoke("add-pet", `{"name":"Max"}`, key, "k1", "X-Pets-Key", "mine"); got.Status != http.StatusBadRequest || got.code() != "VALIDATION_ERROR" {
		t.Errorf("other inputs: %v", got)
	}
	if got := p.invoke("add-pet", `{"name":"Rex"}`, key, "k1", "X-Pets-Key", "theirs"); got.Run.ExecutionID == first.Run.ExecutionID || a.Count() != 2 {
		t.Errorf("another caller: %v", got)
	}
	slow := make(chan struct{})
	a.On(func(w http.ResponseWriter, _ *http.Request) { <-slow; w.WriteHeader(http.StatusNoContent) })
	first = p.invoke("slow", `{}`, key, uuid)
	again = p.invoke("slow", `{}`, key, uuid)
	if first.Status != http.StatusAccepted || again.Status != http.StatusAccepted || again.Run.ExecutionID != first.Run.ExecutionID || a.Count() != 3 {
		t.Errorf("%v\n%v", first, again)
	}
	close(slow)
	if end := p.await(again); end.Run.Status != "completed" {
		t.Errorf("%v", end)
	}
	a.On(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	if got := p.invoke("add-pet", `{"name":"Rex"}`, key, uuid3); got.Status != http.StatusUnauthorized {
		t.Errorf("%v", got)
	}
	a.On(nil)
	if got := p.invoke("add-pet", `{"name":"Rex"}`, key, uuid3); got.Run.Status != "completed" {
		t.Errorf("a key whose invocation was refused: %v", got)
	}
}

// A run belongs to the caller and the credential that went with it.
func TestOwners(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, "async_after 100ms\n\tprivate_for {http.request.header.X-User}"))
	a.On(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(300 * time.Millisecond)
		w.WriteHeader(http.StatusNoContent)
	})
	kept := p.invoke("add-pet", `{"name":"Rex"}`, "X-User", "ann", "X-Pets-Key", "mine")
	a.On(nil)
	quick := p.invoke("add-pet", `{"name":"Rex"}`, "X-User", "ann", "X-Pets-Key", "mine")
	if kept.Status != http.StatusAccepted || quick.Status != http.StatusOK {
		t.Fatalf("%v\n%v", kept, quick)
	}
	for _, run := range []answer{kept, quick} {
		if got := p.await(run, "X-User", "ann", "X-Pets-Key", "mine"); got.Run.Status != "completed" {
			t.Errorf("%v", got)
		}
		for _, headers := range [][]string{{}, {"X-User", "bob", "X-Pets-Key", "mine"}, {"X-User", "ann", "X-Pets-Key", "other"}, {"X-User", "ann"}, {"X-Pets-Key", "mine"}} {
			if got := p.get(run.Run.StatusURL, headers...); got.Status != http.StatusNotFound {
				t.Errorf("%q: %v", headers, got)
			}
		}
	}
}

// A run is read by its owner, with the credential that went with it, also when its operation is not published any more.
func TestRunOfFormerOperation(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, "async_after 100ms"))
	slow := make(chan struct{})
	a.On(func(w http.ResponseWriter, _ *http.Request) { <-slow; w.WriteHeader(http.StatusNoContent) })
	kept := p.invoke("add-pet", `{"name":"Rex"}`, "X-Pets-Key", "mine")
	if err := p.Reload(strings.Replace(p.text, " addPet ", " ", 1)); err != nil {
		t.Fatal(err)
	}
	if got := p.invoke("add-pet", `{"name":"Rex"}`, "X-Pets-Key", "mine"); got.Status != http.StatusNotFound {
		t.Errorf("%v", got)
	}
	if got := p.get(kept.Run.StatusURL, "X-Pets-Key", "mine"); got.Run.Status != "running" {
		t.Errorf("%v", got)
	}
	close(slow)
	for key, want := range map[string]string{"mine": "completed", "other": "", "": ""} {
		if got := p.await(kept, "X-Pets-Key", key); got.Run.Status != want || (want == "") != (got.Status == http.StatusNotFound) {
			t.Errorf("%s: %v", key, got)
		}
	}
}

// Private skills are shown to callers only.
func TestPrivate(t *testing.T) {
	a := startAPI(t)
	site := strings.Replace(a.site(t, "", testbed.Accounts("ann")), "basic_auth {", "@login header Authorization Basic*\nbasic_auth @login {", 1)
	p := start(t, a, strings.Replace(site, "include getPet", "access private\n\t\t\tinclude getPet", 1))
	login := []string{"Authorization", "Basic YW5uOmhpY2N1cA=="}
	if got := p.get("/.well-known/skill-sharing"); strings.Contains(got.Body, "descriptor_url") || got.Header.Get("Cache-Control") != "max-age=60" {
		t.Errorf("%v", got)
	}
	if got := p.get("/.well-known/skill-sharing", login...); strings.Count(got.Body, "descriptor_url") != 4 || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", got)
	}
	const path = "/skill-sharing/127.0.0.1/list-pets"
	if got := p.get(path + ".json"); got.Status != http.StatusNotFound {
		t.Errorf("%v", got)
	}
	if got := p.get(path+".json", login...); got.Status != http.StatusOK || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", got)
	}
	if got := p.invoke("list-pets", "{}"); got.Status != http.StatusNotFound || a.Count() != 0 {
		t.Errorf("%v", got)
	}
	if got := p.invoke("list-pets", "{}", login...); got.Run.Status != "completed" || a.Last(t).Header.Get("Authorization") != "" {
		t.Errorf("%v %v", got, a.Last(t).Header)
	}
}

// A document is read again when it changes; one that breaks leaves what was published. So are descriptors that were written by hand.
func TestChangedDocuments(t *testing.T) {
	longtest.Need(t, longtest.Long)
	t.Parallel()
	a := startAPI(t)
	folder := t.TempDir()
	site := a.site(t, "skills "+folder)
	p, process := startProcess(t, a, site)
	_, file, _ := strings.Cut(site, "openapi ")
	file, _, _ = strings.Cut(file, " ")
	ids := func() int { return strings.Count(p.get("/.well-known/skill-sharing").Body, "descriptor_url") }
	change := func(name, text string, want int) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		testbed.Eventually(t, 20*time.Second, func() bool { return ids() == want }, "the index has changed")
	}
	change(file, strings.Replace(pets, "operationId: slow", "operationId: other", 1), 3)
	descriptor := strings.ReplaceAll(p.get("/skill-sharing/127.0.0.1/get-pet.json").Body, "127.0.0.1/get-pet", "elsewhere/get-pet")
	change(filepath.Join(folder, "hand.json"), descriptor, 4)
	if got := p.get("/skill-sharing/elsewhere/get-pet.json"); got.Body != descriptor {
		t.Errorf("%v", got)
	}
	if got := p.send(http.MethodPost, "/skill-sharing/elsewhere/get-pet", "{}"); got.Status != http.StatusNotFound {
		t.Errorf("%v", got)
	}
	if err := os.WriteFile(file, []byte("openapi: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, 20*time.Second, func() bool { return strings.Contains(process.Log.Text(), "what was published of it before stays") }, "the log says that the document is broken")
	if n := ids(); n != 4 {
		t.Errorf("%d skills", n)
	}
	change(file, pets, 5)
}

// A password of basic_auth gets to no API. Any other one gets to an API whose operation needs HTTP Basic, and if something else has established the caller,
// to none that needs other credentials in the same header.
func TestPasswordsOfCaddy(t *testing.T) {
	const document = `openapi: 3.0.0
info: {title: A, version: 1.0.0}
components:
  securitySchemes:
    key: {type: apiKey, in: header, name: X-Key}
    bearer: {type: http, scheme: bearer}
    digest: {type: http, scheme: digest}
    open: {type: openIdConnect, openIdConnectUrl: "https://id.example.com/"}
    basic: {type: http, scheme: basic}
paths:
  /both: {get: {operationId: both, security: [{key: [], bearer: []}], responses: {}}}
  /digest: {get: {operationId: digest, security: [{digest: []}], responses: {}}}
  /open: {get: {operationId: open, security: [{open: []}], responses: {}}}
  /basic: {get: {operationId: basic, security: [{basic: []}], responses: {}}}
  /keyed: {get: {operationId: keyed, security: [{basic: [], key: []}], responses: {}}}
`
	a := startAPI(t)
	const login = "Basic YW5uOmhpY2N1cA=="
	for name, c := range map[string]struct {
		front   string
		headers []string
		want    map[string]string
	}{
		"basic_auth":      {testbed.Accounts("ann"), nil, map[string]string{}},
		"an odd name":     {testbed.Accounts(`"ann "`), []string{"Authorization", "Basic YW5uIDpoaWNjdXA="}, map[string]string{}},
		"another handler": {"", []string{"X-User", "ann"}, map[string]string{"basic": login, "keyed": login}},
		"no caller":       {"", nil, map[string]string{"both": login, "digest": login, "open": login, "basic": login, "keyed": login}},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, a, testbed.Site(c.front, "skill_publish {\n\topenapi "+write(t, "a.yaml", document)+" {\n\t\tinclude *\n\t}\n\tstore memory\n"+
				"\tprivate_for {http.request.header.X-User}\n}", "reverse_proxy "+strings.TrimPrefix(a.URL, "http://")))
			for _, skill := range []string{"both", "digest", "open", "basic", "keyed"} {
				got := p.invoke(skill, "{}", append([]string{"Authorization", login, "X-Key", "k"}, c.headers...)...)
				if passed := a.Last(t).Header.Get("Authorization"); got.Run.Status != "completed" || passed != c.want[skill] {
					t.Errorf("%s: %q %v", skill, passed, got)
				}
			}
		})
	}
}

// A path that is no text in UTF-8 leads to nothing, like any other.
func TestOddPaths(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, ""))
	for _, path := range []string{"runs/%ff", "runs/" + strings.Repeat("%ff", 36) + "-%ff%00%ff", "%ff.json", "127.0.0.1/get-pet%00"} {
		if got := p.get("/skill-sharing/" + path); got.Status != http.StatusNotFound || got.code() != "SKILL_NOT_FOUND" {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// Clients that send nothing of a body, or read nothing of an answer, are disconnected: others need the memory.
func TestUnreadAnswers(t *testing.T) {
	longtest.Need(t, longtest.Long)
	t.Parallel()
	a := startAPI(t)
	p, _ := startProcess(t, a, a.site(t, "async_after off"))
	p.ns = "127.0.0.1"
	large := strings.Repeat("x", 9<<20)
	a.On(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, large)
	})
	address := strings.TrimPrefix(p.base, "http://")
	connect := func(from byte, request string) net.Conn {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, from)}}
		c, err := dialer.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10) //nolint:forcetypeassert // it is one
		_, _ = io.WriteString(c, "POST /skill-sharing/127.0.0.1/get-pet HTTP/1.1\r\nHost: "+address+"\r\nContent-Type: application/json\r\n"+request)
		return c
	}
	slow := connect(2, "Content-Length: 100\r\n\r\n{")
	const body = `{"caller":{"id":"test","type":"service"},"skill_id":"127.0.0.1/get-pet","inputs":{"petId":"a"}}`
	small := func() bool { return p.invoke("get-pet", `{"petId":"a"}`).code() == "" }
	from := byte(3)
	testbed.Eventually(t, 20*time.Second, func() bool {
		connect(from, fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body))
		from = max(3, from+1)
		return !small()
	}, "the memory is taken")
	testbed.Eventually(t, 50*time.Second, small, "the memory is free")
	_ = slow.SetReadDeadline(time.Now().Add(time.Minute))
	if text, err := io.ReadAll(slow); err != nil || !strings.Contains(string(text), "is incomplete") {
		t.Errorf("%s %v", text, err)
	}
}

// The details of errors count as what is kept in memory, as outputs do.
func TestKeptDetails(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, ""))
	details := `{"x":"` + strings.Repeat("x", 60<<10) + `"}`
	a.On(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, details)
	})
	first := p.invoke("get-pet", `{"petId":"a"}`)
	if got := p.get(first.Run.StatusURL); got.Status != http.StatusOK || got.code() != first.code() {
		t.Fatalf("%v", got)
	}
	for range 600 {
		p.invoke("get-pet", `{"petId":"a"}`)
	}
	if got := p.get(first.Run.StatusURL); got.Status != http.StatusNotFound {
		t.Errorf("%v", got)
	}
}

// Metrics have each invocation once, when it has ended, and those in progress.
func TestMetrics(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, testbed.AdminAPI+a.site(t, "namespace measured\n\tasync_after 50ms"))
	p.ns = "measured"
	end := make(chan struct{})
	a.On(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/pets":
			w.WriteHeader(http.StatusUnauthorized)
		case "/slow":
			<-end
		}
	})
	has := func(series string) func() bool {
		return func() bool {
			return strings.Contains(p.get(p.Admin()+"/metrics").Body, "caddy_skill_bridge_published_calls_"+series+"\n")
		}
	}
	p.invoke("get-pet", `{"petId":"1"}`)
	p.invoke("get-pet", `{"petId":1}`)
	p.invoke("list-pets", `{}`)
	before := has(`in_progress 0`)
	testbed.Eventually(t, 5*time.Second, before, "nothing is in progress")
	slow := p.invoke("slow", `{}`)
	if slow.Status != http.StatusAccepted || !has(`in_progress 1`)() || has(`total{outcome="completed",skill="measured/slow"} 1`)() {
		t.Errorf("%v: it is not in progress", slow)
	}
	close(end)
	p.await(slow)
	testbed.Eventually(t, 5*time.Second, before, "nothing is in progress again")
	for _, series := range []string{
		`outcome="completed",skill="measured/get-pet"`, `outcome="invalid_arguments",skill="measured/get-pet"`, `outcome="auth_required",skill="measured/list-pets"`,
		`outcome="completed",skill="measured/slow"`,
	} {
		if !has("total{" + series + "} 1")() {
			t.Error(series)
		}
	}
}

// Without a bridge, probes, the admin API and metrics know the publisher and its database.
func TestWithoutBridge(t *testing.T) {
	a, end := startAPI(t), make(chan struct{})
	defer close(end)
	a.On(func(http.ResponseWriter, *http.Request) { <-end })
	site := a.site(t, "async_after 50ms\nkeep 1h 500")
	p := start(t, a, testbed.AdminAPI+site)
	if got := p.invoke("slow", `{}`); got.Status != http.StatusAccepted {
		t.Fatalf("%v", got)
	}
	want := func(path string, texts ...string) {
		t.Helper()
		testbed.Eventually(t, 10*time.Second, func() bool {
			got := p.get(p.Admin() + path).Body
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(got, text) })
		}, path+" has "+strings.Join(texts, " and "))
	}
	want("/skill_bridge/readyz", `{"status":"ready"}`)
	want("/skill_bridge/runs", `"kept":1,"open":{"publish":{"submitting":1}}`)
	want("/skill_bridge/runs?principal=", `"bridge_name":"skill_publish"`)
	want("/skill_bridge/status", `"stores":[{"bridges":[],"kind":"memory","place":"SQLite in memory","state":"open"}]`)
	want("/metrics", "caddy_skill_bridge_kept_runs 1", "caddy_skill_bridge_kept_runs_max 500", `caddy_skill_bridge_open_runs{front="publish",state="submitting"} 1`, `caddy_skill_bridge_database_usable{database="SQLite in memory"} 1`)
	for from, to := range map[string]string{"store memory": "store sqlite /dev/null/a.db", "include getPet addPet listPets slow": "include none"} {
		if err := p.Reload(testbed.AdminAPI + strings.Replace(site, from, to, 1)); err != nil {
			t.Fatal(err)
		}
		want("/skill_bridge/readyz", map[string]string{
			"store memory": `{"status":"unready","problems":["database: SQLite in /dev/null/a.db: mkdir /dev/null: not a directory"]`, "include getPet addPet listPets slow": `{"status":"degraded","problems":["documents: no skill is published"]`,
		}[from])
	}
}
