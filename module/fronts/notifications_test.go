package fronts_test

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// callback is what a receiver of the ends of runs has got.
type callback struct {
	header http.Header
	body   string

	Type      string `json:"type"`
	Timestamp string `json:"timestamp"`
	Data      struct {
		Caller   string         `json:"caller"`
		Skill    string         `json:"skill"`
		RunID    string         `json:"run_id"`
		RunToken string         `json:"run_token"`
		Result   jsontext.Value `json:"result"`
		Error    jsontext.Value `json:"error"`
	} `json:"data"`
}

// signed reports whether a secret has signed it.
func (c *callback) signed(t *testing.T, secret string) bool {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, c.header.Get("Webhook-Id")+"."+c.header.Get("Webhook-Timestamp")+"."+c.body)
	return slices.Contains(strings.Fields(c.header.Get("Webhook-Signature")), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// endings is a server that is told the ends of runs.
type endings struct {
	*httptest.Server
	mu  sync.Mutex
	got []callback
}

// newEndings starts a receiver. answer may be nil.
func newEndings(t *testing.T, answer http.HandlerFunc) *endings {
	t.Helper()
	e := new(endings)
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c := callback{header: r.Header, body: string(body)}
		if err := json.Unmarshal(body, &c); err != nil {
			t.Errorf("%v: %s", err, body)
		}
		e.mu.Lock()
		e.got = append(e.got, c)
		e.mu.Unlock()
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endings) all() []callback {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.got)
}

// await waits until the receiver has got n call-backs.
func (e *endings) await(t *testing.T, n int) []callback {
	t.Helper()
	testbed.Eventually(t, patience, func() bool { return len(e.all()) >= n }, "call-backs have come")
	return e.all()
}

const (
	ownSecret   = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
	siteSecret  = "whsec_YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4"
	notifyLocal = "webhooks {\nallow_http\nallow_networks 127.0.0.1\nallow_ports any\nsecrets " + siteSecret + "\n}"
)

// notifying is a Caddyfile with a bridge whose callers say in a header who they are.
func notifying(t *testing.T, p *hostile.Provider, lines ...string) string {
	t.Helper()
	return "{\nstorage file_system " + folder(t) + "\n}\n" + inSite(p, alone, append([]string{"rpc", "name agents", "poll_interval 200ms 200ms", "principal {http.request.header.X-User}"}, lines...)...)
}

// The end of a run is sent to the URL that its caller has chosen, as get_run answers it.
func TestNotify(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/soon"}, hostile.Skill{ID: "acme/bad"})
	p.On("acme/soon", hostile.Invoke, hostile.Accept(2))
	p.On("acme/bad", hostile.Invoke, hostile.Fail("NO_PAPER", "There is no paper."))
	e := newEndings(t, nil)
	c := testbed.StartCaddy(t, notifying(t, p, notifyLocal))
	ada := c.With(testbed.Header("X-User", "ada"), testbed.Param("wait_ms", 0), testbed.Param("notify", hostile.Object{"url": e.URL + "/end", "token": ownSecret}))
	for n, skill := range []string{"acme.now", "acme.soon", "acme.bad"} {
		begun := ada.Execute(skill, nil)
		got := e.await(t, n+1)[n]
		if got.Type != "run.ended" || got.Timestamp == "" || got.Data.Caller != "ada" || got.Data.Skill != skill || got.Data.RunID != begun.Run().RunID || got.Data.Error != nil || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s", skill, got.body)
		}
		if !got.signed(t, ownSecret) || !got.signed(t, siteSecret) || strings.Contains(got.body, ownSecret) {
			t.Errorf("%s: %s %v", skill, got.body, got.header)
		}
		asked := c.With(testbed.Header("X-User", "ada")).Call("get_run", hostile.Object{"run_token": got.Data.RunToken})
		var told, answered testbed.Run
		if json.Unmarshal(got.Data.Result, &told) != nil || json.Unmarshal(asked.Result, &answered) != nil || told.Status != answered.Status || told.RunID != answered.RunID || string(told.Output) != string(answered.Output) || told.Status == "running" {
			t.Errorf("%s: %s, but get_run answers %s", skill, got.Data.Result, asked)
		}
		if a := c.With(testbed.Header("X-User", "bob")).Call("get_run", hostile.Object{"run_token": got.Data.RunToken}); a.Code != -32602 {
			t.Errorf("%s: another caller uses the token: %s", skill, a)
		}
	}
	// With a key, the call is executed once, and its end is told once. Another URL is another call, and so is another token.
	keyed := ada.With(testbed.Header("Idempotency-Key", `"k"`))
	first := keyed.Execute("acme.now", hostile.Object{"call": "k"})
	if again := keyed.Execute("acme.now", hostile.Object{"call": "k"}); again.Run().RunID != first.Run().RunID {
		t.Errorf("%s, then %s", first, again)
	}
	for _, other := range []hostile.Object{
		{"url": e.URL + "/other", "token": ownSecret}, {"url": e.URL + "/end", "token": siteSecret}, {"url": e.URL + "/end"},
	} {
		if a := keyed.With(testbed.Param("notify", other)).Execute("acme.now", hostile.Object{"call": "k"}); a.Code != -32602 || a.Data.Reason != "key_reused" {
			t.Errorf("with another receiver: %s", a)
		}
	}
	if a := keyed.With(testbed.Param("notify", nil)).Execute("acme.now", hostile.Object{"call": "k"}); a.Code != -32602 {
		t.Errorf("without a receiver: %s", a)
	}
	if got := e.await(t, 4); len(got) != 4 || got[3].Data.RunID != first.Run().RunID {
		t.Errorf("%d call-backs", len(got))
	}
	c.Log.MustNotShow(ownSecret[6:])
	c.Log.MustNotShow(siteSecret[6:])
}

// TestReceiverInManual runs the receiver to which the manual refers: it takes a call-back that the bridge has signed, and no other. The call-back has the members
// that the manual shows.
func TestReceiverInManual(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	examples := manuals.In(t, "json", manuals.Methods)
	if len(examples) != 1 {
		t.Fatalf("%d examples", len(examples))
	}
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"})
	c := testbed.StartCaddy(t, notifying(t, p, notifyLocal))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	if err := listener.Close(); err != nil { // for the receiver
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), python, filepath.Join(manuals.Repository(t), "translate/skillsprotocol/examples/receiver.py"))
	command.Env = append(os.Environ(), "WEBHOOK_SECRET="+ownSecret, "PORT="+port)
	output, input := io.Pipe()
	command.Stdout, command.Stderr = input, os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = output.Close()
	})
	e := newEndings(t, nil)
	url := "http://127.0.0.1:" + port + "/"
	testbed.Eventually(t, patience, func() bool {
		r, err := http.Post(url, "application/json", strings.NewReader("{}"))
		if err == nil {
			_ = r.Body.Close()
		}
		return err == nil && r.StatusCode == http.StatusUnauthorized
	}, "the receiver refuses a request without a signature")
	notify := func(url, token string) {
		a := c.With(testbed.Param("notify", hostile.Object{"url": url, "token": token})).Execute("acme.now", hostile.Object{"call": "for " + url})
		if a.Outcome() != "completed" {
			t.Fatal(a)
		}
	}
	notify(url, siteSecret) // which the receiver does not know
	notify(e.URL, ownSecret)
	notify(url, ownSecret)
	select {
	case line := <-lines:
		if !strings.Contains(line, "acme.now") || !strings.Contains(line, "completed") {
			t.Errorf("the receiver prints %s", line)
		}
	case <-time.After(patience):
		t.Error("the receiver prints nothing")
	}
	// The same request again is answered 204, and has no effect; another body is refused.
	got := e.await(t, 1)[0]
	for body, want := range map[string]int{got.body: http.StatusNoContent, got.body + " ": http.StatusUnauthorized} {
		r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = got.header.Clone()
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("status %d, want %d", answer.StatusCode, want)
		}
	}
	var example callback
	if err := json.Unmarshal([]byte(examples[0].Text), &example, json.RejectUnknownMembers(true)); err != nil || example.Type != got.Type || len(example.Data.Result) == 0 {
		t.Errorf("%v: %s", err, examples[0].Text)
	}
}

// What the operator does not allow is refused before anything is sent.
func TestNotifyRefused(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"})
	c := testbed.StartCaddy(t, notifying(t, p))
	const disabled, enabled, local = "", "webhooks", notifyLocal
	for name, test := range map[string]struct {
		options       string
		notify        any
		param, reason string
	}{
		"disabled":               {disabled, hostile.Object{"url": "https://example.com/"}, "notify", "unsupported"},
		"a private address":      {enabled, hostile.Object{"url": "https://10.0.0.1/", "token": ownSecret}, "notify.url", "invalid"},
		"loopback":               {enabled, hostile.Object{"url": "https://[::ffff:127.0.0.1]/", "token": ownSecret}, "notify.url", "invalid"},
		"metadata":               {enabled, hostile.Object{"url": "https://169.254.169.254/latest", "token": ownSecret}, "notify.url", "invalid"},
		"a decimal address":      {enabled, hostile.Object{"url": "https://2130706433/", "token": ownSecret}, "notify.url", "invalid"},
		"a port":                 {enabled, hostile.Object{"url": "https://example.com:22/", "token": ownSecret}, "notify.url", "invalid"},
		"no TLS":                 {enabled, hostile.Object{"url": "http://example.com/", "token": ownSecret}, "notify.url", "invalid"},
		"a user":                 {enabled, hostile.Object{"url": "https://a:b@example.com/", "token": ownSecret}, "notify.url", "invalid"},
		"a fragment":             {enabled, hostile.Object{"url": "https://example.com/#a", "token": ownSecret}, "notify.url", "invalid"},
		"no URL":                 {enabled, hostile.Object{"token": ownSecret}, "notify.url", "required"},
		"a URL that is no text":  {enabled, hostile.Object{"url": 1}, "notify.url", "invalid"},
		"no secret at all":       {enabled, hostile.Object{"url": "https://example.com/"}, "notify.token", "required"},
		"a token in other words": {local, hostile.Object{"url": "https://example.com/", "token": "hunter2"}, "notify.token", "invalid"},
		"a short token":          {local, hostile.Object{"url": "https://example.com/", "token": "whsec_AAAA"}, "notify.token", "invalid"},
		"no object":              {local, "https://example.com/", "notify", "invalid"},
		"null":                   {local, []any{}, "notify", "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.Reload(notifying(t, p, test.options)); err != nil {
				t.Fatal(err)
			}
			a := c.With(testbed.Fresh(), testbed.Header("X-User", "ada"), testbed.Param("notify", test.notify)).Execute("acme.now", nil)
			if a.Code != -32602 || a.Data.Param != test.param || !strings.Contains(string(a.Body), `"reason":"`+test.reason+`"`) || !strings.Contains(string(a.Body), `"executed":"no"`) {
				t.Errorf("%s", a.Body)
			}
		})
	}
	twice := `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.now","notify":{"url":"https://example.com/","url":"https://example.org/"}}}`
	if a := c.With(testbed.Fresh()).Post(twice); a.Code != -32602 {
		t.Errorf("a member that is there twice: %s", a)
	}
	if n := p.Count("acme/now", hostile.Invoke); n != 0 {
		t.Errorf("%d invocations", n)
	}
}

// Redirects are not followed, little is read of an answer, and a name that leads to a private address is refused when it is dialed.
func TestNotifyGuard(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"})
	target := newEndings(t, nil)
	redirects := newEndings(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL, http.StatusTemporaryRedirect)
	})
	large := newEndings(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 10<<20)) })
	c := testbed.StartCaddy(t, notifying(t, p, notifyLocal))
	call := func(url string) {
		t.Helper()
		if a := c.With(testbed.Fresh(), testbed.Param("notify", hostile.Object{"url": url, "token": ownSecret})).Execute("acme.now", hostile.Object{"call": url}); a.Outcome() != "completed" {
			t.Fatal(a)
		}
	}
	call(large.URL)
	large.await(t, 1)
	call(redirects.URL)
	testbed.Eventually(t, patience, func() bool {
		return len(c.Log.Lines("did not take the end of a run", "Temporary Redirect")) > 0
	}, "a redirect is a failure")
	if n := len(target.all()); n != 0 {
		t.Error("a redirect was followed")
	}
	if err := c.Reload(notifying(t, p, "webhooks {\nallow_http\nallow_ports any\n}")); err != nil {
		t.Fatal(err)
	}
	call(strings.Replace(target.URL, "127.0.0.1", "localhost", 1))
	testbed.Eventually(t, patience, func() bool {
		return len(c.Log.Lines("did not take the end of a run", "localhost", "no address that may be called")) > 0
	}, "the connection is refused")
	if n := len(target.all()); n != 0 {
		t.Errorf("%d requests to a private address", n)
	}
}

// A reload that removes the option ends call-backs; one that writes it again sends those that were waiting.
func TestNotifyRemoved(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/later"})
	gate := hostile.NewGate(t)
	p.On("acme/later", hostile.Invoke, hostile.Accept(0))
	p.On("acme/later", hostile.Status, gate.Then(hostile.Usual()))
	e := newEndings(t, nil)
	storage := "{\nstorage file_system " + folder(t) + "\n}\n"
	config := func(options string) string {
		return storage + inSite(p, alone, "rpc", "name agents", "poll_interval 200ms 200ms", "principal {http.request.header.X-User}", options)
	}
	c := testbed.StartCaddy(t, config(notifyLocal))
	ada := c.With(testbed.Fresh(), testbed.Header("X-User", "ada"))
	begun := ada.With(testbed.Param("wait_ms", 0), testbed.Param("notify", hostile.Object{"url": e.URL, "token": ownSecret})).Execute("acme.later", nil)
	if begun.Outcome() != "running" {
		t.Fatal(begun)
	}
	if err := c.Reload(config("")); err != nil {
		t.Fatal(err)
	}
	gate.Open()
	if a := ada.Call("get_run", hostile.Object{"run_token": tokenIn(t, begun)}); a.Outcome() != "completed" {
		t.Error(a)
	}
	testbed.Eventually(t, patience, func() bool {
		page := list(t, ada, nil)
		return len(page.Runs) == 1 && page.Runs[0].Status == "completed"
	}, "the run has ended")
	if n := len(e.all()); n != 0 {
		t.Errorf("%d call-backs without the option", n)
	}
	if err := c.Reload(config(notifyLocal)); err != nil {
		t.Fatal(err)
	}
	if got := e.await(t, 1)[0]; got.Data.RunID != begun.Run().RunID || !got.signed(t, ownSecret) {
		t.Error(got.body)
	}
}

// An outcome that waits for its receiver is not sent any more once the access rules deny the skill to its caller.
func TestNotifyDenied(t *testing.T) {
	longtest.Need(t, longtest.Long)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"})
	e := newEndings(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	storage := "{\nstorage file_system " + folder(t) + "\n}\n"
	config := func(options ...string) string {
		return storage + inSite(p, alone, append([]string{"rpc", "name agents", "principal {http.request.header.X-User}", notifyLocal}, options...)...)
	}
	c := testbed.StartCaddy(t, config())
	ada := c.With(testbed.Header("X-User", "ada"), testbed.Param("notify", hostile.Object{"url": e.URL, "token": ownSecret}))
	if a := ada.Execute("acme.now", nil); a.Outcome() != "completed" {
		t.Fatal(a)
	}
	e.await(t, 1)
	if err := c.Reload(config("access {", "deny ada *", "allow * *", "}")); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, patience, func() bool {
		return len(c.Log.Lines("gave up telling a caller the end of a run", "access rules deny")) > 0
	}, "the call-back is given up")
	if n := len(e.all()); n != 1 {
		t.Errorf("%d requests", n)
	}
}
