package fronts_test

import (
	"encoding/json" // for answers
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/skill-bridge/caddy-skill-bridge/module"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// patience is how long a test waits for what should take no time at all.
const patience = 30 * time.Second

// receiver is a server that takes events.
type receiver struct {
	*httptest.Server
	answer func(n int, w http.ResponseWriter, r *http.Request) // nil: 200

	mu  sync.Mutex
	got []string // the state, or the kind, and the header of each request
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	text := string(body)
	kind, _, _ := strings.Cut(strings.TrimPrefix(text, `{"`), `"`)
	if _, state, ok := strings.Cut(text, `"state":"`); ok {
		state, _, _ = strings.Cut(state, `"`)
		kind += " " + state
	}
	r.mu.Lock()
	n := len(r.got)
	r.got = append(r.got, fmt.Sprint(kind, " ", q.Header.Get("Content-Type"), " ", q.Header["Authorization"], " ", q.Header["X-A2a-Notification-Token"]))
	r.mu.Unlock()
	if r.answer != nil {
		r.answer(n, w, q)
	}
}

func (r *receiver) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// await waits until the receiver has got events, in their order. An event whose answer comes too late is sent again.
func (r *receiver) await(t *testing.T, want ...string) {
	t.Helper()
	testbed.Eventually(t, patience, func() bool { return len(slices.Compact(r.all())) >= len(want) }, "the receiver has got "+fmt.Sprint(len(want))+" events")
	if got := slices.Compact(r.all()); !slices.Equal(got, want) {
		t.Errorf("the receiver has got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// agent returns a Caddyfile with A2A at /a2a, with these options of the handler.
func agent(p *hostile.Provider, handlerOptions string) string {
	return testbed.Site("skill_bridge {", "\tallow_http", "\tallow_networks 127.0.0.0/8", "\tallow_anonymous", "\tpoll_interval 10ms 50ms",
		"\tprovider "+p.URL()+" {", "\t\tnamespace acme", "\t}", "\ta2a", handlerOptions, "}")
}

const anyLocal = "webhooks {\nallow_http\nallow_networks 127.0.0.1\nallow_ports any\n}"

// call calls a method. A version of 1.0 is the default.
func call(t *testing.T, c *testbed.Caddy, version, method, params string) (result map[string]any, code float64, text string) {
	t.Helper()
	a := c.With(testbed.Header("A2A-Version", version), testbed.Fresh()).Send(http.MethodPost, "http://127.0.0.1:"+c.Port("PORT")+"/a2a",
		`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
	var answer struct {
		Result json.RawMessage
		Error  *struct{ Code float64 }
	}
	if err := json.Unmarshal(a.Body, &answer); err != nil {
		t.Fatalf("%v: %s", err, a.Body)
	}
	if answer.Error != nil {
		return nil, answer.Error.Code, string(a.Body)
	}
	_ = json.Unmarshal(answer.Result, &result)
	return result, 0, string(answer.Result)
}

// messageTo returns a message that invokes a skill.
func messageTo(skill, configuration string) string {
	return `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"call":"c"}}],"metadata":{"skillId":"acme.` + skill + `"}},"configuration":` + configuration + `}`
}

func TestPush(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "one"})
	r := newReceiver(t, nil)
	c := testbed.StartCaddy(t, agent(p, anyLocal))
	config := `{"url":"` + r.URL + `/hook?secret=q","token":"tok-1","authentication":{"scheme":"Bearer","credentials":"cred-1"}}`
	result, _, text := call(t, c, "1.0", "SendMessage", messageTo("one", `{"taskPushNotificationConfig":`+config+`}`))
	made, _ := result["task"].(map[string]any)
	id, _ := made["id"].(string)
	if id == "" {
		t.Fatal(text)
	}
	header := " application/a2a+json [Bearer cred-1] [tok-1]"
	r.await(t, "task TASK_STATE_SUBMITTED"+header, "statusUpdate TASK_STATE_WORKING"+header, "artifactUpdate"+header, "statusUpdate TASK_STATE_COMPLETED"+header)
	result, _, text = call(t, c, "1.0", "ListTaskPushNotificationConfigs", `{"taskId":"`+id+`"}`)
	configs, _ := result["configs"].([]any)
	if len(configs) != 1 || strings.Contains(text, "tok-1") || strings.Contains(text, "cred-1") || !strings.Contains(text, `"scheme":"Bearer"`) {
		t.Error(text)
	}
	c.Log.MustNotShow("tok-1", "cred-1", "secret=q")
}

func TestPushMethods(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "one"})
	c := testbed.StartCaddy(t, agent(p, anyLocal))
	result, _, _ := call(t, c, "1.0", "SendMessage", messageTo("one", "{}"))
	id := result["task"].(map[string]any)["id"].(string)
	for _, s := range []struct {
		version, method, params string
		code                    float64
		want                    string // part of the answer
	}{
		{"1.0", "CreateTaskPushNotificationConfig", `{"taskId":"` + id + `","id":"a","url":"https://example.com/a","token":"secret"}`, 0, `{"taskId":"` + id + `","id":"a","url":"https://example.com/a"}`},
		{"1.0", "GetTaskPushNotificationConfig", `{"taskId":"` + id + `","id":"a"}`, 0, `"https://example.com/a"`},
		{"1.0", "GetTaskPushNotificationConfig", `{"taskId":"` + id + `","id":"b"}`, -32001, ""},
		{"1.0", "GetTaskPushNotificationConfig", `{"taskId":"` + id + `"}`, -32602, `"field":"id"`},
		{"1.0", "GetTaskPushNotificationConfig", `{"taskId":"018f0000-0000-7000-8000-000000000000","id":"a"}`, -32001, ""},
		{"1.0", "ListTaskPushNotificationConfig", `{"taskId":"` + id + `"}`, 0, `"nextPageToken":""`},
		{"1.0", "DeleteTaskPushNotificationConfig", `{"taskId":"` + id + `","id":"a"}`, 0, `{}`},
		{"1.0", "DeleteTaskPushNotificationConfig", `{"taskId":"` + id + `","id":"a"}`, 0, `{}`},
		{"1.0", "GetTaskPushNotificationConfig", `{"taskId":"` + id + `","id":"a"}`, -32001, ""},
		{"0.3", "tasks/pushNotificationConfig/set", `{"taskId":"` + id + `","pushNotificationConfig":{"url":"https://example.com/b"}}`, 0, `{"id":"default","url":"https://example.com/b"}`},
		{"0.3", "tasks/pushNotificationConfig/get", `{"id":"` + id + `"}`, 0, `"https://example.com/b"`},
		{"0.3", "tasks/pushNotificationConfig/list", `{"id":"` + id + `"}`, 0, `[{"taskId":"` + id + `","pushNotificationConfig":{"id":"default"`},
		{"0.1", "tasks/pushNotification/get", `{"id":"` + id + `"}`, 0, `{"id":"` + id + `","pushNotificationConfig":{"url":"https://example.com/b"}}`},
		{"0.3", "tasks/pushNotificationConfig/delete", `{"id":"` + id + `","pushNotificationConfigId":"default"}`, 0, `null`},
		{"0.1", "tasks/pushNotification/get", `{"id":"` + id + `"}`, -32001, ""},
		{"0.1", "tasks/pushNotification/set", `{"id":"` + id + `","pushNotificationConfig":{"url":"https://example.com/c"}}`, 0, `"https://example.com/c"`},
		// Bad webhooks.
		{"1.0", "CreateTaskPushNotificationConfig", `{"taskId":"` + id + `"}`, -32602, `"field":"url"`},
		{"1.0", "CreateTaskPushNotificationConfig", `{"taskId":"` + id + `","url":"https://10.0.0.1/"}`, -32602, "address is not public"},
		{"1.0", "CreateTaskPushNotificationConfig", `{"taskId":"` + id + `","url":"https://169.254.169.254/latest"}`, -32602, "address is not public"},
		{"1.0", "CreateTaskPushNotificationConfig", `{"taskId":"` + id + `","url":"https://2130706433/"}`, -32602, "canonical"},
		{"1.0", "CreateTaskPushNotificationConfig", `{"taskId":"` + id + `","url":"https://u:p@example.com/"}`, -32602, `"field":"url"`},
		{"1.0", "CreateTaskPushNotificationConfig", `{"taskId":"` + id + `","url":"https://example.com/` + strings.Repeat("x", 2048) + `"}`, -32602, `"field":"url"`},
		{"1.0", "CreateTaskPushNotificationConfig", `{"taskId":"` + id + `","url":"https://example.com/","token":"a\r\nHost: b"}`, -32602, `"field":"token"`},
		{"1.0", "CreateTaskPushNotificationConfig", `{"taskId":"` + id + `","url":"https://example.com/","authentication":{"scheme":"A b","credentials":"c"}}`, -32602, `authentication.scheme`},
		{"1.0", "CreateTaskPushNotificationConfig", `{"taskId":"` + id + `","url":"https://example.com/","authentication":{"scheme":"A","credentials":"c\n"}}`, -32602, `authentication.credentials`},
		{"0.3", "tasks/pushNotificationConfig/set", `{"taskId":"` + id + `","pushNotificationConfig":{"url":"https://10.0.0.1"}}`, -32602, "pushNotificationConfig.url"},
		{"1.0", "SendMessage", messageTo("one", `{"taskPushNotificationConfig":{"url":"https://[::1]/"}}`), -32602, "configuration.taskPushNotificationConfig.url"},
		{"0.1", "tasks/send", `{"id":"0123456789abcdef","message":{"role":"user","parts":[{"type":"text","text":"x"}]},"pushNotification":{"url":"https://[::1]/"}}`, -32602, "pushNotification.url"},
	} {
		_, code, text := call(t, c, s.version, s.method, s.params)
		if code != s.code || !strings.Contains(text, s.want) || strings.Contains(text, "secret") {
			t.Errorf("%s %.200s:\n%s\nwant %v %s", s.method, s.params, text, s.code, s.want)
		}
	}
	for i := range 8 {
		_, code, text := call(t, c, "1.0", "CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"id":"n%d","url":"https://example.com/"}`, id, i))
		if full := i == 7; (code == -32602) != full { // one was set before
			t.Error(i, text)
		}
	}
	if _, code, text := call(t, c, "1.0", "CreateTaskPushNotificationConfig", `{"taskId":"`+id+`","id":"n0","url":"https://example.com/other"}`); code != 0 {
		t.Error("replacing one:", text)
	}
}

func TestPushIsOff(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "one"})
	c := testbed.StartCaddy(t, agent(p, ""))
	for method, version := range map[string]string{
		"CreateTaskPushNotificationConfig": "1.0", "GetTaskPushNotificationConfig": "1.0", "ListTaskPushNotificationConfigs": "1.0", "DeleteTaskPushNotificationConfig": "1.0",
		"tasks/pushNotificationConfig/set": "0.3", "tasks/pushNotificationConfig/get": "0.3", "tasks/pushNotificationConfig/list": "0.3", "tasks/pushNotificationConfig/delete": "0.3",
		"tasks/pushNotification/set": "0.1", "tasks/pushNotification/get": "0.1",
	} {
		if _, code, text := call(t, c, version, method, "{}"); code != -32003 {
			t.Error(method, text)
		}
	}
	if _, code, text := call(t, c, "1.0", "SendMessage", messageTo("one", `{"taskPushNotificationConfig":{"url":"https://example.com/"}}`)); code != -32003 {
		t.Error(text)
	}
}

// A receiver that redirects is not followed, and names that lead to private addresses are refused when they are dialed.
func TestPushGuard(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "one"})
	target := newReceiver(t, nil)
	r := newReceiver(t, func(_ int, w http.ResponseWriter, q *http.Request) {
		http.Redirect(w, q, target.URL, http.StatusTemporaryRedirect)
	})
	c := testbed.StartCaddy(t, agent(p, anyLocal))
	call(t, c, "1.0", "SendMessage", messageTo("one", `{"taskPushNotificationConfig":{"url":"`+r.URL+`"}}`))
	testbed.Eventually(t, patience, func() bool { return len(r.all()) >= 2 }, "the event is sent again")
	if len(target.all()) != 0 {
		t.Error("a redirect was followed")
	}
	if len(c.Log.Lines("a webhook did not take an event", "Temporary Redirect")) == 0 {
		t.Error("no log line about a redirect")
	}

	if err := c.Reload(agent(p, "webhooks {\nallow_http\nallow_ports any\n}")); err != nil {
		t.Fatal(err)
	}
	name := strings.Replace(r.URL, "127.0.0.1", "localhost", 1)
	before := len(r.all())
	if _, code, text := call(t, c, "1.0", "SendMessage", messageTo("one", `{"taskPushNotificationConfig":{"url":"`+name+`"}}`)); code != 0 {
		t.Error(text)
	}
	testbed.Eventually(t, patience, func() bool {
		return len(c.Log.Lines("a webhook did not take an event", "localhost", "no address that may be called")) > 0
	}, "the connection is refused")
	if n := len(r.all()); n > before {
		t.Errorf("%d requests to a private address", n-before)
	}
}

// Reloads lose nothing; after a restart, the newest state is sent.
func TestPushRestart(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "one"})
	var down sync.Mutex
	isDown := true
	r := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		down.Lock()
		defer down.Unlock()
		if isDown {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	c := testbed.StartCaddy(t, agent(p, anyLocal))
	result, _, text := call(t, c, "1.0", "SendMessage", messageTo("one", `{"taskPushNotificationConfig":{"url":"`+r.URL+`","token":"t"}}`))
	if result == nil {
		t.Fatal(text)
	}
	testbed.Eventually(t, patience, func() bool { return len(r.all()) > 0 }, "an event was sent")
	if err := c.Reload("http://127.0.0.1:{$PORT} {\n\trespond \"no bridge here\"\n}\n"); err != nil {
		t.Fatal(err)
	}
	down.Lock()
	isDown = false
	down.Unlock()
	before := len(r.all())
	if err := c.Reload(agent(p, anyLocal)); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, patience, func() bool { return len(r.all()) > before }, "the last state is sent")
	if got := r.all()[before:]; !slices.Equal(got, []string{"task TASK_STATE_COMPLETED application/a2a+json [] [t]"}) {
		t.Error(got)
	}
}

func TestPushReload(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "one"})
	r := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	c := testbed.StartCaddy(t, agent(p, anyLocal))
	call(t, c, "1.0", "SendMessage", messageTo("one", `{"taskPushNotificationConfig":{"url":"`+r.URL+`"}}`))
	testbed.Eventually(t, patience, func() bool { return len(r.all()) > 0 }, "an event was sent")
	if err := c.Reload(agent(p, anyLocal+"\ntimeout 40s")); err != nil {
		t.Fatal(err)
	}
	header := " application/a2a+json [] []"
	r.await(t, "task TASK_STATE_SUBMITTED"+header,
		"statusUpdate TASK_STATE_WORKING"+header, "artifactUpdate"+header, "statusUpdate TASK_STATE_COMPLETED"+header)
	if got := r.all(); got[1] != got[0] {
		t.Errorf("the refused event was not sent again:\n%s", strings.Join(got, "\n"))
	}
}
