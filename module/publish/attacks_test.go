package publish_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// raw sends a request line as it is, and returns the answer.
func (p *publisher) raw(method, target, body string) string {
	p.tb.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://"))
	if err != nil {
		p.tb.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		method, target, strings.TrimPrefix(p.base, "http://"), len(body), body)
	text, _ := io.ReadAll(c)
	return string(text)
}

// S250: no spelling of a path, an id or an input reaches an operation that is not included, or leaves the path of one that is.
func TestS250OtherOperations(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, ""))
	body := func(id string) string {
		return `{"caller":{"id":"a","type":"b"},"skill_id":"` + id + `","inputs":{}}`
	}
	for _, target := range []string{
		"/skill-sharing/127.0.0.1/secret", "/skill-sharing/127.0.0.1%2Fsecret", "/skill-sharing//127.0.0.1/secret", "/skill-sharing/./127.0.0.1/secret",
		"/skill-sharing/127.0.0.1/get-pet/../secret", "/skill-sharing/127.0.0.1/get-pet%2F..%2Fsecret", "/skill-sharing/127.0.0.1/SECRET", "/skill-sharing/127.0.0.1/secret/",
		"/skill-sharing/127.0.0.1/secret?x", "/skill-sharing/127.0.0.1/secret;x", "/skill-sharing/127.0.0.1/secret%00", "/skill-sharing/127.0.0.1/get-secret", "/skill-sharing/secret",
		"/skill-sharing/runs/../127.0.0.1/secret", "/skill-sharing/runs/127.0.0.1/secret", "/skill-sharing/skills/../127.0.0.1/secret", "/skill-sharing/%2e%2e/secret",
	} {
		for _, id := range []string{"127.0.0.1/secret", "127.0.0.1/get-pet", "127.0.0.1/../secret"} {
			if got := p.raw(http.MethodPost, target, body(id)); !strings.HasPrefix(got, "HTTP/1.1 404") && !strings.HasPrefix(got, "HTTP/1.1 400") && !strings.HasPrefix(got, "HTTP/1.1 405") {
				t.Errorf("%s: %s", target, got)
			}
		}
	}
	for _, id := range []string{"..", ".", "", "../secret", "..%2fsecret", "x/../../secret", "x?admin=1", "x#y", "x\\..\\secret", "%2e%2e", "x%00"} {
		got := p.invoke("get-pet", string(mustJSON(object{"petId": id})))
		if got.Status == http.StatusBadRequest {
			continue
		}
		if r := a.Last(t); !strings.HasPrefix(r.URL.EscapedPath(), "/pets/") || strings.Count(r.URL.EscapedPath(), "/") != 2 || r.URL.RawQuery != "" {
			t.Errorf("%q: %s", id, r.URL)
		}
	}
	for _, inputs := range []string{`{"petId":"1","Authorization":"x"}`, `{"petId":"1","X-Shade":"a\r\nAuthorization: x"}`, `{"petId":"1","Host":"evil"}`, `{"petId":"1","petId":"2"}`} {
		before := a.Count()
		if got := p.invoke("get-pet", inputs); got.Status != http.StatusBadRequest || a.Count() != before {
			t.Errorf("%s: %v", inputs, got)
		}
	}
}

// S251: a run's id is no credential for another caller, and says nothing about other runs.
func TestS251RunsOfOthers(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, "async_after 50ms\n\tprivate_for {http.request.header.X-User}"))
	a.On(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(150 * time.Millisecond)
		w.WriteHeader(http.StatusNoContent)
	})
	mine := p.invoke("add-pet", `{"name":"Rex"}`, "X-User", "ann", "X-Pets-Key", "mine")
	anonymous := p.invoke("slow", `{}`)
	if mine.Status != http.StatusAccepted || anonymous.Status != http.StatusAccepted {
		t.Fatalf("%v\n%v", mine, anonymous)
	}
	id := mine.Run.ExecutionID
	for _, path := range []string{id, id[:36], id[:37], id[:36] + "-" + strings.Repeat("A", 26), strings.ToUpper(id), id + "x", id[1:], "%00", "../" + id, id + "/", strings.Repeat("x", 5000)} {
		for _, headers := range [][]string{{}, {"X-User", "bob", "X-Pets-Key", "mine"}, {"X-User", "\tAA", "X-Pets-Key", "mine"}, {"X-User", "ann"}} {
			if got := p.get("/skill-sharing/runs/"+path, headers...); got.Status != http.StatusNotFound || strings.Contains(got.Body, "add-pet") {
				t.Errorf("%s: %v", path, got)
			}
		}
	}
	if got := p.await(mine, "X-User", "ann", "X-Pets-Key", "mine"); got.Run.Status != "completed" {
		t.Errorf("%v", got)
	}
	if got := p.get(anonymous.Run.StatusURL, "X-User", "ann"); got.Status != http.StatusNotFound {
		t.Errorf("%v", got)
	}
	if anonymous.Run.ExecutionID[37:] == id[37:] || len(id) < 36+1+26 {
		t.Errorf("%s and %s", anonymous.Run.ExecutionID, id)
	}
}

// S252: the API gets no credential that its operation does not need, such as a password of basic_auth, and its answers set nothing at the caller.
func TestS252CredentialsForOthers(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, "", testbed.Accounts("ann")))
	login := []string{"Authorization", "Basic YW5uOmhpY2N1cA==", "Cookie", "session=1", "Proxy-Authorization", "Basic x", "X-Api-Key", "y", "X-Forwarded-User", "root"}
	a.On(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "session=2")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<script>alert(1)</script>")
	})
	for skill, inputs := range map[string]string{"get-pet": `{"petId":"1"}`, "add-pet": `{"name":"x"}`, "list-pets": "{}", "slow": "{}"} {
		got := p.invoke(skill, inputs, login...)
		if got.Status != http.StatusOK || got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Set-Cookie")+got.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", skill, got)
		}
		for name, values := range a.Last(t).Header {
			if text := strings.Join(values, ""); strings.Contains(text, "YW5u") || strings.Contains(text, "session") || name == "X-Api-Key" || name == "X-Forwarded-User" || name == "Proxy-Authorization" {
				t.Errorf("%s: %s: %s", skill, name, text)
			}
		}
	}
}

// S253: one caller's invocations leave room for others', and an answer without an end takes bounded memory.
func TestS253OneCallerTakesAll(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, "async_after off\n\tprivate_for {http.request.header.X-User}"))
	held := make(chan struct{})
	a.On(func(w http.ResponseWriter, _ *http.Request) { <-held; w.WriteHeader(http.StatusNoContent) })
	var refused atomic.Int64
	var group sync.WaitGroup
	for range 530 {
		group.Go(func() {
			if got := p.invoke("slow", "{}", "X-User", "mallory"); got.Status == http.StatusTooManyRequests && got.code() == "RATE_LIMITED" {
				refused.Add(1)
			}
		})
	}
	testbed.Eventually(t, time.Minute, func() bool { return refused.Load() >= 15 && int(refused.Load())+a.Count() == 530 }, "one caller has half of the memory")
	others, before := make(chan answer), a.Count()
	go func() { others <- p.invoke("slow", "{}", "X-User", "ann") }()
	testbed.Eventually(t, 10*time.Second, func() bool { return a.Count() == before+1 }, "another caller has memory")
	close(held)
	if got := <-others; got.Run.Status != "completed" {
		t.Errorf("%v", got)
	}
	group.Wait()
	var sent atomic.Int64
	a.On(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for part := make([]byte, 1<<20); ; sent.Add(1 << 20) {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	if got := p.invoke("slow", "{}", "X-User", "mallory"); got.code() != "TOO_LARGE" || sent.Load() > 40<<20 {
		t.Errorf("%d bytes: %.300s", sent.Load(), got.String())
	}
}

// R235: large requests in progress are bounded by their bytes, of which one caller's leave room for others'.
func TestR235LargeRequests(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, "async_after off\n\tprivate_for {http.request.header.X-User}"))
	held := make(chan struct{})
	a.On(func(w http.ResponseWriter, _ *http.Request) { <-held; w.WriteHeader(http.StatusNoContent) })
	inputs := `{"what":"` + strings.Repeat("x", 1000<<10) + `"}`
	var refused atomic.Int64
	var group sync.WaitGroup
	for range 120 {
		group.Go(func() {
			if got := p.invoke("slow", inputs, "X-User", "mallory"); got.Status == http.StatusTooManyRequests && got.code() == "RATE_LIMITED" {
				refused.Add(1)
			}
		})
	}
	defer group.Wait()
	defer close(held)
	testbed.Eventually(t, 4*time.Minute, func() bool { return refused.Load() >= 15 && int(refused.Load())+a.Count() == 120 }, "one caller has half of the memory")
	before := a.Count()
	group.Go(func() { p.invoke("slow", inputs, "X-User", "ann") })
	testbed.Eventually(t, time.Minute, func() bool { return a.Count() == before+1 }, "another caller has memory")
}

// A client that does not send the rest of a request that is too large is answered, and disconnected.
func TestRestOfLargeRequest(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, a.site(t, ""))
	host := strings.TrimPrefix(p.base, "http://")
	c, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second)) // less than the publisher waits for a request
	_, _ = fmt.Fprintf(c, "POST /skill-sharing/127.0.0.1/get-pet HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", host, 1<<20+100, strings.Repeat(" ", 1<<20+50))
	if got, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || got.StatusCode != http.StatusRequestEntityTooLarge || !got.Close { //nolint:bodyclose // the connection is closed
		t.Errorf("%v %v", got, err)
	}
}

// S254: a private skill can't be told from one that does not exist.
func TestS254PrivateSkills(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, strings.Replace(a.site(t, "private_for {http.request.header.X-User}"), "include getPet", "access private\n\t\t\tinclude getPet", 1))
	for _, path := range []string{"/skill-sharing/127.0.0.1/%s", "/skill-sharing/127.0.0.1/%s.json"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodHead} {
			there, not := p.send(method, fmt.Sprintf(path, "get-pet"), "{}"), p.send(method, fmt.Sprintf(path, "get-dog"), "{}")
			if there.Status != http.StatusNotFound || there.Body != strings.ReplaceAll(not.Body, "get-dog", "get-pet") || fmt.Sprint(there.Header["Allow"]) != fmt.Sprint(not.Header["Allow"]) {
				t.Errorf("%s %s: %v, and %v", method, path, there, not)
			}
		}
	}
	first := p.get("/.well-known/skill-sharing")
	if own := p.get("/.well-known/skill-sharing", "X-User", "ann"); own.Header.Get("ETag") == first.Header.Get("ETag") || strings.Contains(first.Body, "get-pet") {
		t.Errorf("%v\n%v", own, first)
	}
}

// S255: a request can't choose the host in the documents of others.
func TestS255Host(t *testing.T) {
	a := startAPI(t)
	p := start(t, a, strings.Replace(a.site(t, ""), "http://127.0.0.1:{$PORT} {", "http://127.0.0.1:{$PORT}, http://*.example.com:{$PORT} {", 1))
	for host, status := range map[string]int{"evil.example.com": 421, "127.0.0.1:1": 421, "127.0.0.1": 200, "127.0.0.1:" + p.Port("PORT"): 200, "127.0.0.1:x": 0, "127.0.0.1.": 0, "u@127.0.0.1": 0} {
		got := p.get("/.well-known/skill-sharing", "Host", host, "X-Forwarded-Host", "evil.example.com", "X-Forwarded-Proto", "https")
		if status > 0 && got.Status != status || strings.Contains(got.Body, "evil") || strings.Contains(got.Body, "https://127") || strings.Contains(got.Body, ":1/") {
			t.Errorf("%s: %v", host, got)
		}
	}
}

// S256: a document by URL is read from public addresses only, as far as no option allows others, over TLS, without redirects, and within its size.
func TestS256Documents(t *testing.T) {
	a := startAPI(t)
	var asked atomic.Int64
	documents := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.URL.Path {
		case "/moved.yaml":
			http.Redirect(w, r, "/pets.yaml", http.StatusFound)
		case "/large.yaml":
			_, _ = io.WriteString(w, pets+strings.Repeat("#", 17<<20))
		default:
			_, _ = io.WriteString(w, pets)
		}
	}))
	t.Cleanup(documents.Close)
	site := func(name string, lines ...string) string {
		return testbed.Site("skill_publish {\n\topenapi " + documents.URL + "/" + name + " {\n\t\tinclude *\n\t}\n\tallow_http\n\tstore memory\n" + strings.Join(lines, "\n") + "\n}")
	}
	p := start(t, a, site("pets.yaml"))
	if got := p.get("/.well-known/skill-sharing"); strings.Contains(got.Body, "descriptor_url") || asked.Load() != 0 {
		t.Errorf("%d requests: %v", asked.Load(), got)
	}
	for name, n := range map[string]int{"moved.yaml": 0, "large.yaml": 0, "pets.yaml": 5} {
		if err := p.Reload(site(name, "allow_networks 127.0.0.1/32")); err != nil {
			t.Fatal(err)
		}
		if got := p.get("/.well-known/skill-sharing"); strings.Count(got.Body, "descriptor_url") != n {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// R262: documents at a host that is not allowed fill no log: there is one line about the host, however often it is tried.
func TestR262RefusedHostsAreLoggedOnce(t *testing.T) {
	a := startAPI(t)
	documents := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(documents.Close)
	openapi := "openapi " + documents.URL + "/a.yaml {\n\t\tinclude *\n\t}\n\t"
	site := testbed.Site("skill_publish {\n\t" + openapi + strings.Replace(openapi, "/a.", "/b.", 1) + "allow_http\n\tstore memory\n}")
	p := start(t, a, site)
	if err := p.Reload(site + "\n# again"); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, 20*time.Second, func() bool { return p.Log.Has("/a.yaml") && p.Log.Has("/b.yaml") }, "the log names both documents")
	if lines := p.Log.Lines("the publisher does not connect to"); len(lines) != 1 || !strings.Contains(lines[0], "127.0.0.1") {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}

// S339: of the cookies of a caller, the API gets those that its security names, and a run is found without the others.
func TestS339CookiesOfOthers(t *testing.T) {
	a := startAPI(t)
	text := strings.Replace(pets, "securitySchemes:\n", "securitySchemes:\n    session: {type: apiKey, in: cookie, name: sid}\n", 1)
	text = strings.Replace(text, "      operationId: slow\n", "      operationId: slow\n      security: [{session: []}]\n", 1)
	p := start(t, a, testbed.Site("skill_publish {\n\topenapi "+write(t, "pets.yaml", text)+" {\n\t\tinclude slow getPet\n\t}\n\tstore memory\n\tasync_after 50ms\n}", "reverse_proxy "+strings.TrimPrefix(a.URL, "http://")))
	a.On(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(100 * time.Millisecond)
		w.WriteHeader(http.StatusNoContent)
	})
	for skill, want := range map[string]string{"get-pet": "", "slow": "[sid=1]"} {
		p.invoke(skill, map[string]string{"get-pet": `{"petId":"1"}`, "slow": `{}`}[skill], "Cookie", `login=caddys; sid=1; SID=2; xsid=3`)
		if got := a.Last(t).Header["Cookie"]; strings.TrimPrefix(fmt.Sprint(got), "[]") != want {
			t.Errorf("%s: %q", skill, got)
		}
	}
	mine := p.invoke("slow", `{}`, "Cookie", "sid=1; seen=1")
	if got := p.await(mine, "Cookie", "seen=2; sid=1"); mine.Status != http.StatusAccepted || got.Run.Status != "completed" {
		t.Errorf("%v\n%v", mine, got)
	}
	for _, cookie := range []string{"", "seen=1", "sid=2; seen=1"} {
		if got := p.get(mine.Run.StatusURL, "Cookie", cookie); got.Status != http.StatusNotFound {
			t.Errorf("%q: %v", cookie, got)
		}
	}
	if p.invoke("slow", `{}`, "Cookie", "seen=1"); a.Last(t).Header["Cookie"] != nil {
		t.Errorf("%q", a.Last(t).Header)
	}
}

// S354: the issuer that a document names is not asked at an address that is not public, nor at a port that no document has.
func TestS354Issuers(t *testing.T) {
	a := startAPI(t)
	var asked atomic.Int64
	issuer := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"authorization_endpoint":"https://id.example.com/a","token_endpoint":"https://id.example.com/t"}`)
	}))
	issuer.Config.ConnState = func(net.Conn, http.ConnState) { asked.Add(1) }
	issuer.StartTLS()
	t.Cleanup(issuer.Close)
	document := strings.Replace(pets, "bearer: {type: http, scheme: bearer}", "bearer: {type: openIdConnect, openIdConnectUrl: '"+issuer.URL+"'}", 1)
	site := testbed.Site("skill_publish {\n\topenapi " + write(t, "a.yaml", document) + " {\n\t\tinclude *\n\t}\n\tstore memory\n}")
	p := start(t, a, site)
	for _, option := range []string{"", "allow_networks 127.0.0.1/32"} {
		if err := p.Reload(strings.Replace(site, "store memory", "store memory\n\t"+option, 1)); err != nil {
			t.Fatal(err)
		}
		if d := p.get("/skill-sharing/127.0.0.1/list-pets.json"); !strings.Contains(d.Body, `"type":"custom"`) || !strings.Contains(d.Body, issuer.URL) || asked.Load() != 0 {
			t.Errorf("%s: asked %d times: %v", option, asked.Load(), d)
		}
	}
}

// S372: clients that read nothing of a large index take bounded memory, which leaves room for others, and not for long.
func TestS372UnreadDocuments(t *testing.T) {
	longtest.Need(t, longtest.Long)
	paths := object{}
	for i := range 640 {
		paths[fmt.Sprintf("/a%d", i)] = object{"get": object{"operationId": fmt.Sprintf("a%d", i), "description": strings.Repeat("x", 16<<10), "responses": object{"200": object{"description": "A."}}}}
	}
	text := string(mustJSON(object{"openapi": "3.1.0", "info": object{"title": "Many", "version": "1"}, "paths": paths}))
	a := startAPI(t)
	p := start(t, a, testbed.Site("skill_publish {\n\topenapi "+write(t, "many.json", text)+" {\n\t\tinclude *\n\t}\n\tstore memory\n}"))
	get := func(from byte) net.Conn {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, from)}}
		c, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(p.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10) //nolint:forcetypeassert // it is one
		_, _ = io.WriteString(c, "GET /.well-known/skill-sharing HTTP/1.1\r\nHost: "+strings.TrimPrefix(p.base, "http://")+"\r\n\r\n")
		return c
	}
	own := func() int { return p.get("/.well-known/skill-sharing").Status }
	if status := own(); status != http.StatusOK {
		t.Fatal(status)
	}
	for range 100 {
		if get(1); own() == http.StatusTooManyRequests {
			break
		}
	}
	if status := own(); status != http.StatusTooManyRequests {
		t.Errorf("with many that read nothing: %d", status)
	}
	other := get(2)
	_ = other.SetReadDeadline(time.Now().Add(time.Minute))
	if line, err := bufio.NewReader(other).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Errorf("from another address: %s %v", line, err)
	}
	testbed.Eventually(t, 50*time.Second, func() bool { return own() == http.StatusOK }, "the memory is free")
}

// leaving cancels the context of a request that has been read, as if its caller had left. It is also the API, which counts what it gets.
type leaving struct{}

var got atomic.Int64

type read struct {
	io.ReadCloser
	end context.CancelFunc
}

func (b read) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (leaving) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_leaving", New: func() caddy.Module { return new(leaving) }}
}

func (leaving) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.URL.Path == "/slow" {
		got.Add(1)
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	r = r.WithContext(ctx)
	r.Body = read{r.Body, cancel}
	return next.ServeHTTP(w, r)
}

func init() {
	caddy.RegisterModule(leaving{})
	httpcaddyfile.RegisterHandlerDirective("test_leaving", func(httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) { return leaving{}, nil })
}

// S373: nothing is sent to the API for a caller who has left while inputs wait for their check, which then was not made.
func TestS373UncheckedInputs(t *testing.T) {
	a := startAPI(t)
	text := strings.Replace(pets, "properties: {what: {type: string}}", "properties: {what: {type: array, maxItems: 1, items: {type: string, pattern: '^(a|b|c|d)*$'}}}", 1)
	p := start(t, a, testbed.Site("route {\n\ttest_leaving", "skill_publish {\n\topenapi "+write(t, "pets.yaml", text)+" {\n\t\tinclude slow\n\t}\n\tstore memory\n}", "test_leaving\n}"))
	inputs := `{"what":["` + strings.Repeat("abcd", 110<<10) + `","` + strings.Repeat("abcd", 110<<10) + `"]}`
	for range 30 {
		p.invoke("slow", inputs)
	}
	if n := got.Load(); n > 0 {
		t.Errorf("the API got %d requests", n)
	}
}
