package a2a_test

import (
	"bufio"
	"context"
	"encoding/json" // tests read answers as maps
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

type object = providertest.Object

// agent is a front over a bridge with one provider, behind HTTP.
type agent struct {
	*providertest.Provider
	skills  []object
	front   *a2a.Front
	db      *ledgertest.DB // shared by agents that are instances of one bridge
	store   *ledgertest.Store
	keep    ledger.Settings
	streams atomic.Int64
	bridge  *translate.Bridge
	config  translate.Config
	// credentials are those of acme. May be nil.
	credentials credential.Credentials
	handler     http.Handler
	bubble      bool // requests are passed on in memory
	server      *jsonrpc.Server
	// maxAnswers bounds the answers in memory, in bytes; 0: nothing does.
	maxAnswers int64
	url        string // empty in a bubble, where there is no network
	// say are header fields that post sends.
	say http.Header
}

// setup changes an agent before it serves.
type setup func(*agent)

// options changes the options of the front.
func options(change func(*a2a.Options)) setup {
	return func(a *agent) { change(&a.front.Options) }
}

// inBubble is for tests in a bubble of package synctest: requests are passed on in memory.
func inBubble(a *agent) {
	a.bubble = true
	a.config.Polling.Plan = polling.Backoff{Initial: time.Millisecond, Longest: 500 * time.Millisecond}
}

// newAgent returns an agent with the skills of skills.
func newAgent(tb testing.TB, setups ...setup) *agent {
	tb.Helper()
	a := &agent{Provider: providertest.New(), skills: skills(), say: http.Header{}}
	a.front = &a2a.Front{
		Streams:  new(share.Pool),
		Options:  a2a.Options{Versions: a2a.AllVersions, Wait: 50 * time.Second},
		Observer: &streaming{n: &a.streams},
	}
	a.front.Panicked = func(_ context.Context, value any, stack []byte) { tb.Errorf("panic: %v\n%s", value, stack) }
	a.config = providertest.Config(tb)
	for _, change := range setups {
		change(a)
	}
	if !a.bubble {
		a.Listen(tb)
	}
	a.Publish(a.skills...)
	acme := a.Source(tb, "acme")
	acme.Credentials = a.credentials
	a.config.Sources = append([]catalog.Source{acme}, a.config.Sources...)
	var err error
	if a.bridge, err = translate.New(a.config); err != nil {
		tb.Fatal(err)
	}
	if a.db == nil {
		a.db = ledgertest.New()
	}
	a.store = a.db.Instance(true)
	a.front.Bridge, a.front.Owner = a.bridge, owner
	a.front.Ledger.Ledger = ledger.New(ledger.Config{
		Store: a.store, Settings: a.keep, Trouble: func(error) {}, Panicked: a.front.Panicked,
	})
	a.front.Ledger.Begin(a)
	tb.Cleanup(func() { a.front.Ledger.Close(context.Background()) })
	eventually(tb, a.front.Ledger.IsReachable, "the store has answered") // before, also answers that are messages are kept as tasks
	a.server = &jsonrpc.Server{
		Handler: a.front.ServeRPC, Profile: a2a.Profile(20), MaxRequestSize: 1 << 20, MaxAnswers: a.maxAnswers,
		OnPanic: func(_ context.Context, value any, stack []byte) { tb.Errorf("panic: %v\n%s", value, stack) },
	}
	a.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := translate.WithCaller(r.Context(), run.Caller{Principal: r.Header.Get("User"), Arrived: time.Now()})
		if skill := strings.TrimPrefix(r.URL.Path, "/a2a/"); skill != r.URL.Path && skill != "" {
			ctx = a2a.WithSkill(ctx, skill)
		}
		a.server.Serve(ctx, w, r)
	})
	if !a.bubble {
		s := httptest.NewServer(a.handler)
		tb.Cleanup(s.Close)
		a.url = s.URL
	}
	return a
}

// streaming counts the open streams.
type streaming struct{ n *atomic.Int64 }

func (s *streaming) Streaming(n int) { s.n.Add(int64(n)) }
func (*streaming) TaskChanged(context.Context, string, *translate.Call, *run.Ref, string, string) {
}
func (*streaming) LeftRunning(context.Context, *translate.Call, *run.Ref) {}

func owner(principal string) ledger.Owner { return ledger.Owner{Realm: "main", Principal: principal} }

// Realm implements [ledger.Follower].
func (a *agent) Realm() string { return "main" }

// Poll implements [ledger.Follower].
func (a *agent) Poll(ctx context.Context, e *ledger.Entry, failing bool) run.Run {
	return ledger.Poll(ctx, a.bridge, e, failing, a.Room(e.Owner.Principal))
}

// Room implements [ledger.Follower].
func (a *agent) Room(principal string) exchange.AnswerBudget { return a.front.Server.Room(principal) }

// Granted implements [ledger.Follower].
func (a *agent) Granted(ctx context.Context, principal string) { a.front.Granted(ctx, principal) }

// View implements [ledger.Follower].
func (a *agent) View(string) ledger.View { return a.front }

// answer is an answer to an HTTP request.
type answer struct {
	status int
	header http.Header
	text   string
	json   any   // nil: the text is not JSON
	events []any // of a stream
	ids    []string
}

// post sends a body to a path.
func (a *agent) post(tb testing.TB, path, body string, header http.Header) *answer {
	tb.Helper()
	return a.postWith(tb, context.Background(), path, body, header)
}

func (a *agent) postWith(tb testing.TB, ctx context.Context, path, body string, header http.Header) *answer { //nolint:revive // as t.Context
	tb.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+path, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, h := range []http.Header{a.say, header} {
		for name, values := range h {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	return a.do(tb, r)
}

// do sends a request.
func (a *agent) do(tb testing.TB, r *http.Request) *answer {
	tb.Helper()
	var response *http.Response
	if a.bubble {
		recorder := httptest.NewRecorder()
		a.handler.ServeHTTP(recorder, r)
		response = recorder.Result()
	} else {
		var err error
		if response, err = http.DefaultClient.Do(r); err != nil {
			if r.Context().Err() != nil {
				return nil
			}
			tb.Fatal(err)
		}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil && r.Context().Err() == nil {
		tb.Fatal(err)
	}
	got := &answer{status: response.StatusCode, header: response.Header, text: string(text)}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		got.readEvents(tb)
		return got
	}
	if len(text) > 0 && json.Unmarshal(text, &got.json) != nil {
		got.json = nil
	}
	return got
}

func (a *answer) readEvents(tb testing.TB) {
	tb.Helper()
	lines := bufio.NewScanner(strings.NewReader(a.text))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			a.ids = append(a.ids, id)
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var event any
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			tb.Fatalf("%v: %s", err, data)
		}
		a.events = append(a.events, event)
	}
	a.json = a.events
}

// request returns a JSON-RPC request.
func request(method, params string) string {
	if params == "" {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q}`, method)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
}

// call calls a method.
func (a *agent) call(tb testing.TB, method, params string) *answer {
	tb.Helper()
	return a.post(tb, "/a2a", request(method, params), nil)
}

// as returns header fields of a version; empty: none.
func as(version string) http.Header {
	h := http.Header{}
	if version != "" {
		h.Set("A2A-Version", version)
	}
	return h
}

// find returns what a path such as error.data.0.reason leads to; ok is false if there is nothing.
func find(v any, path string) (found any, ok bool) {
	for path != "" {
		if rest, isExtension := strings.CutPrefix(path, "EXT"); isExtension { // contains dots
			m, _ := v.(object)
			if v, ok = m[wire.Extension]; !ok {
				return nil, false
			}
			path = strings.TrimPrefix(rest, ".")
			continue
		}
		var name string
		name, path, _ = strings.Cut(path, ".")
		switch in := v.(type) {
		case object:
			if v, ok = in[name]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(name)
			if name == "#" {
				v = float64(len(in))
				continue
			}
			if i < 0 {
				i += len(in)
			}
			if err != nil || i < 0 || i >= len(in) {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// text returns what a path leads to, as text.
func (a *answer) at(path string) string {
	v, _ := find(a.json, path)
	if s, ok := v.(string); ok {
		return s
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// check compares an answer with expectations, which are separated by " ; ": an HTTP status, path=value, path~part of a value,
// path (it exists), or !path (it does not).
func (a *answer) check(tb testing.TB, want string) {
	tb.Helper()
	for expectation := range strings.SplitSeq(want, ";") {
		expectation = strings.TrimSpace(expectation)
		if expectation == "" {
			continue
		}
		if status, err := strconv.Atoi(expectation); err == nil {
			if a.status != status {
				tb.Errorf("status %d, want %d: %.600s", a.status, status, a.text)
			}
			continue
		}
		if path, absent := strings.CutPrefix(expectation, "!"); absent {
			if _, ok := find(a.json, path); ok {
				tb.Errorf("%s is there: %.1000s", path, a.text)
			}
			continue
		}
		at := strings.IndexAny(expectation, "=~")
		if at < 0 {
			if _, ok := find(a.json, expectation); !ok {
				tb.Errorf("%s is not there: %.1000s", expectation, a.text)
			}
			continue
		}
		path, value := expectation[:at], expectation[at+1:]
		got := a.at(path)
		if expectation[at] == '=' && got != value || expectation[at] == '~' && !strings.Contains(got, value) {
			tb.Errorf("%s is %.600s, want %s: %.1000s", path, got, value, a.text)
		}
	}
}

// message returns a message of a version with parts and further members.
func message(version, parts, more string) string {
	head := `"messageId":"m","role":"ROLE_USER"`
	switch version {
	case "0.3":
		head = `"messageId":"m","role":"user","kind":"message"`
	case "0.1":
		head = `"role":"user"`
	}
	if more != "" {
		more = "," + more
	}
	return `{` + head + `,"parts":[` + parts + `]` + more + `}`
}

// text returns a part with a text.
func text(version, s string) string {
	quoted, _ := json.Marshal(s)
	switch version {
	case "0.3":
		return `{"kind":"text","text":` + string(quoted) + `}`
	case "0.1":
		return `{"type":"text","text":` + string(quoted) + `}`
	}
	return `{"text":` + string(quoted) + `}`
}

// data returns a part with data.
func data(version, value string) string {
	switch version {
	case "0.3":
		return `{"kind":"data","data":` + value + `}`
	case "0.1":
		return `{"type":"data","data":` + value + `}`
	}
	return `{"data":` + value + `}`
}

// dialect has what differs between versions in tests that are the same for all.
type dialect struct {
	version, send, stream, get, cancel, subscribe string
	task                                          string // path of the task in the result of send
	state                                         func(name string) string
}

var dialects = []dialect{
	{"1.0", "SendMessage", "SendStreamingMessage", "GetTask", "CancelTask", "SubscribeToTask", "result.task", func(s string) string {
		return "TASK_STATE_" + strings.ToUpper(strings.ReplaceAll(s, "-", "_"))
	}},
	{"0.3", "message/send", "message/stream", "tasks/get", "tasks/cancel", "tasks/resubscribe", "result", func(s string) string { return s }},
	{"0.1", "tasks/send", "tasks/sendSubscribe", "tasks/get", "tasks/cancel", "tasks/resubscribe", "result", func(s string) string {
		switch s {
		case "rejected":
			return "failed"
		case "auth-required":
			return "input-required"
		}
		return s
	}},
}

// named is the id of tasks in params of 0.1.
const named = "0123456789abcdef"

// params returns the params that send a message. id is the task's, in 0.1 the one that the client gives; empty: a new one.
func (d *dialect) params(id, parts, more string) string {
	if d.version == "0.1" {
		if id == "" {
			id = named
		}
		if more != "" {
			more = "," + more
		}
		return fmt.Sprintf(`{"id":%q,"message":%s%s}`, id, message(d.version, parts, ""), more)
	}
	of := ""
	if id != "" {
		of = fmt.Sprintf(`"taskId":%q`, id)
	}
	if more != "" {
		more = "," + more
	}
	return `{"message":` + message(d.version, parts, of) + more + `}`
}

// forEach runs a test in each version, with an agent of its own.
func forEach(t *testing.T, test func(t *testing.T, d *dialect)) {
	t.Helper()
	for i := range dialects {
		t.Run(dialects[i].version, func(t *testing.T) { test(t, &dialects[i]) })
	}
}

// eventually waits for a condition.
func eventually(tb testing.TB, condition func() bool, what string) {
	tb.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("it does not happen: %s", what)
		}
	}
}
