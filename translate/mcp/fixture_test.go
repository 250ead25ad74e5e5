package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json" // tests read answers as maps
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

type object = providertest.Object

// skill is a descriptor of a skill of acme, with changes.
func skill(slug string, changes object, inputs ...object) object {
	return providertest.Skill("acme/"+slug, changes, inputs...)
}

// output are the changes of a skill with an output; a nil schema is none.
func output(contentType string, schema object) object {
	o := object{"content_type": contentType}
	if schema != nil {
		o["schema"] = schema
	}
	return object{"output": o}
}

// server is a front over a bridge with one provider or several, behind HTTP.
type server struct {
	*providertest.Provider
	front  *mcp.Front
	config translate.Config
	url    string
	// bubble passes requests on in memory, for tests in a bubble of package synctest.
	bubble  bool
	handler http.Handler
	// maxAnswers is the memory for answers, in bytes; 0: no limit.
	maxAnswers int64
	memory     *share.Pool
	// wrote is called after each part of an answer was written; nil: no function is.
	wrote func(part []byte)
}

// writer calls a function after each part that was written.
type writer struct {
	http.ResponseWriter
	wrote func(part []byte)
}

func (w writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
func (w writer) Write(part []byte) (int, error) {
	n, err := w.ResponseWriter.Write(part)
	w.wrote(part)
	return n, err
}

// newServer returns a server of skills; change, which may be nil, changes it before it serves.
func newServer(tb testing.TB, change func(*server), skills ...object) *server {
	tb.Helper()
	s := &server{Provider: providertest.New()}
	s.Listen(tb)
	return s.serve(tb, change, skills...)
}

// inBubble is newServer for tests in a bubble of package synctest.
func inBubble(tb testing.TB, skills ...object) *server {
	tb.Helper()
	s := &server{Provider: providertest.New(), bubble: true}
	return s.serve(tb, nil, skills...)
}

func (s *server) serve(tb testing.TB, change func(*server), skills ...object) *server {
	tb.Helper()
	s.front = &mcp.Front{
		Canceled: new(ledger.Cancellations), Streaming: func(int) {},
		Options:  mcp.Options{Name: "test", Version: "1", Versions: mcp.AllVersions(), Wait: 5 * time.Second, TaskAfter: 0, Validate: true},
		Panicked: func(_ context.Context, value any, stack []byte) { tb.Errorf("panic: %v\n%s", value, stack) },
		Tokens:   tokens{runtoken.New(secret{runtoken.RestoreKey(runtoken.KeyID{1}, runtoken.Secret{2}, time.Time{})}, runtoken.Lifetime, nil)},
	}
	s.Publish(skills...)
	s.config = providertest.Config(tb, s.Source(tb, "acme"))
	if change != nil {
		change(s)
	}
	bridge, err := translate.New(s.config)
	if err != nil {
		tb.Fatal(err)
	}
	s.front.Bridge = bridge
	rpc := &jsonrpc.Server{
		Handler: s.front.ServeRPC, Profile: s.front.Options.Profile(5), MaxRequestSize: 1 << 20, MaxAnswers: s.maxAnswers, Memory: s.memory,
		OnPanic: func(_ context.Context, value any, stack []byte) { tb.Errorf("panic: %v\n%s", value, stack) },
	}
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.wrote != nil {
			w = writer{w, s.wrote}
		}
		rpc.Serve(translate.WithCaller(r.Context(), run.Caller{Principal: r.Header.Get("User"), Arrived: time.Now()}), w, r)
	})
	if !s.bubble {
		h := httptest.NewServer(s.handler)
		tb.Cleanup(h.Close)
		s.url = h.URL
	}
	return s
}

// source adds a provider.
func (s *server) source(tb testing.TB, namespace string, p *providertest.Provider) *catalog.Source {
	tb.Helper()
	s.config.Sources = append(s.config.Sources, p.Source(tb, namespace))
	return &s.config.Sources[len(s.config.Sources)-1]
}

// tokensOfAnotherBridge are made with the same key.
var tokensOfAnotherBridge = runtoken.New(secret{runtoken.RestoreKey(runtoken.KeyID{1}, runtoken.Secret{2}, time.Time{})}, runtoken.Lifetime, nil)

// secret is the only key.
type secret struct{ runtoken.Key }

func (k secret) Current(context.Context) (runtoken.Key, error) { return k.Key, nil }
func (k secret) Find(_ context.Context, id runtoken.KeyID) (runtoken.Key, bool, error) {
	return k.Key, id == k.ID, nil
}

// tokens are run tokens of one bridge.
type tokens struct{ *runtoken.Sealer }

func blockOf(source string) runtoken.Block { return runtoken.Block("test " + source) }

func (t tokens) Ready(context.Context) error { return nil }
func (t tokens) Seal(ctx context.Context, ref run.Ref, principal string) (string, error) {
	return t.Sealer.Seal(ctx, ref, blockOf(ref.Source), principal)
}

func (t tokens) Open(ctx context.Context, token, principal string) (run.Ref, error) {
	return t.Sealer.Open(ctx, token, blockOf, principal)
}

// got is an answer.
type got struct {
	status int
	header http.Header
	text   string
	events []object // of a stream
	body   object   // nil: it is no object
}

// result returns the result of an answer; nil: there is none.
func (g *got) result() object {
	r, _ := g.body["result"].(object)
	return r
}

// failure returns the error of an answer; nil: there is none.
func (g *got) failure() object {
	e, _ := g.body["error"].(object)
	return e
}

// at returns the value at a path of names of members, or indexes of arrays, in a value.
func at(v any, path ...any) any {
	for _, name := range path {
		switch name := name.(type) {
		case string:
			o, _ := v.(object)
			v = o[name]
		case int:
			list, _ := v.([]any)
			if name >= len(list) {
				return nil
			}
			v = list[name]
		}
	}
	return v
}

// isJSON reports whether a value is that of a JSON text.
func isJSON(v any, text string) bool {
	var want any
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		panic(err)
	}
	a, _ := json.Marshal(v)
	b, _ := json.Marshal(want)
	return bytes.Equal(a, b)
}

// send sends a body with header fields, by name and value.
func (s *server) send(tb testing.TB, body string, header ...string) *got {
	tb.Helper()
	response := s.open(tb, tb.Context(), body, header...)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}
	g := &got{status: response.StatusCode, header: response.Header, text: string(text)}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		for line := range strings.Lines(g.text) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				g.events = append(g.events, parse(tb, data))
			}
		}
		g.body = g.events[len(g.events)-1]
		return g
	}
	if len(text) > 0 && text[0] == '{' {
		g.body = parse(tb, g.text)
	}
	return g
}

func (s *server) open(tb testing.TB, ctx context.Context, body string, header ...string) *http.Response { //nolint:revive // as t.Context
	tb.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header[http.CanonicalHeaderKey(header[i])] = []string{header[i+1]}
	}
	if s.bubble {
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		return w.Result()
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	return response
}

func parse(tb testing.TB, text string) (o object) {
	tb.Helper()
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		tb.Fatalf("%v: %s", err, text)
	}
	return o
}

// asTaker is a header field that makes a modern request one of a client that takes tasks. It is not sent.
const asTaker = "Tasks"

// modern sends a modern request; params are those besides _meta.
func (s *server) modern(tb testing.TB, method string, params object, header ...string) *got {
	tb.Helper()
	return s.modernWith(tb, object{}, method, params, header...)
}

// modernWith is modern for a client with capabilities.
func (s *server) modernWith(tb testing.TB, capabilities object, method string, params object, header ...string) *got {
	tb.Helper()
	const meta = "io.modelcontextprotocol/clientCapabilities"
	body, fields := modernRequest(tb, method, params, header...)
	if len(capabilities) > 0 {
		request := parse(tb, body)
		at(request, "params", "_meta").(object)[meta] = capabilities
		text, err := json.Marshal(request)
		if err != nil {
			tb.Fatal(err)
		}
		body = string(text)
	}
	return s.send(tb, body, fields...)
}

func modernRequest(tb testing.TB, method string, params object, header ...string) (body string, fields []string) {
	tb.Helper()
	capabilities, meta := object{}, object{}
	fields = []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	for _, name := range []string{"name", "uri", "taskId"} {
		if value, ok := params[name].(string); ok {
			fields = append(fields, "Mcp-Name", value)
		}
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == asTaker {
			capabilities["extensions"] = object{"io.modelcontextprotocol/tasks": object{}}
			continue
		}
		fields = append(fields, header[i], header[i+1])
	}
	if own, ok := params["_meta"].(object); ok {
		meta = own
	}
	if params = maps.Clone(params); params == nil {
		params = object{}
	}
	params["_meta"] = providertest.Merge(meta, object{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": capabilities,
	})
	text, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		tb.Fatal(err)
	}
	return string(text), fields
}

// legacy sends a request of 2025-11-25.
func (s *server) legacy(tb testing.TB, method string, params object, header ...string) *got {
	tb.Helper()
	text, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		tb.Fatal(err)
	}
	return s.send(tb, string(text), append([]string{"MCP-Protocol-Version", "2025-11-25"}, header...)...)
}

// call calls a tool as a modern client.
func (s *server) call(tb testing.TB, tool string, arguments object, header ...string) *got {
	tb.Helper()
	return s.modern(tb, "tools/call", object{"name": tool, "arguments": arguments}, header...)
}

// stream is a stream of events.
type stream struct {
	tb    testing.TB
	lines *bufio.Scanner
	end   context.CancelFunc
}

// listen opens a subscription.
func (s *server) listen(tb testing.TB, notifications object, header ...string) *stream {
	tb.Helper()
	body, fields := modernRequest(tb, "subscriptions/listen", object{"notifications": notifications}, append(header, "Accept", "text/event-stream")...)
	ctx, end := context.WithCancel(tb.Context())
	tb.Cleanup(end)
	response := s.open(tb, ctx, body, fields...)
	tb.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		tb.Fatalf("status %d", response.StatusCode)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 4<<20)
	return &stream{tb, lines, end}
}

// next returns the data of the next event; nil: the stream has ended. If no event comes, it ends the stream.
func (s *stream) next() object {
	s.tb.Helper()
	limit := time.AfterFunc(time.Minute, func() {
		s.tb.Errorf("there is no event")
		s.end()
	})
	defer limit.Stop()
	for s.lines.Scan() {
		if data, ok := strings.CutPrefix(s.lines.Text(), "data: "); ok {
			return parse(s.tb, data)
		}
	}
	return nil
}

// eventually waits until something holds.
func eventually(tb testing.TB, holds func() bool, what string) {
	tb.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			tb.Fatalf("it does not happen that %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}
