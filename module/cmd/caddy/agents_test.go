package main_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
)

// agentBridge is the endpoint in the programs.
const agentBridge = "http://localhost:8080/rpc"

// typed matches the types in the TypeScript, which Node.js before 22.18 does not support.
var typed = regexp.MustCompile(`\)?: (Promise<any>|string|number|object\[\]|object|any\[\]|HeadersInit|Record<string, string>)`)

// runAgents runs the programs that are agents, each in a subtest, which gets what the program prints and whether it succeeds.
func runAgents(t *testing.T, endpoint, model string, variables []string, check func(t *testing.T, output string, err error)) {
	t.Helper()
	for language, p := range map[string]struct{ interpreter, name, text string }{
		"python": {"python3", "agent.py", manuals.Read(t, "translate/skillsprotocol/examples/agent.py")},
		"ts":     {"node", "agent.mjs", manuals.Read(t, "translate/skillsprotocol/examples/agent.ts")},
	} {
		t.Run(language, func(t *testing.T) {
			interpreter, err := exec.LookPath(p.interpreter)
			if err != nil {
				t.Skipf("there is no %s", p.interpreter)
			}
			text := strings.Replace(p.text, agentBridge, endpoint, 1)
			if language == "ts" {
				text = typed.ReplaceAllStringFunc(text, func(match string) string { return strings.Repeat(")", strings.Count(match, ")")) })
			}
			file := filepath.Join(t.TempDir(), p.name)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), interpreter, file)
			command.Env = append(os.Environ(), "OPENAI_BASE_URL="+model, "OPENAI_API_KEY=a-key", "MODEL=a-model", "NO_PROXY=*")
			command.Env = append(command.Env, variables...)
			output, err := command.CombinedOutput()
			check(t, string(output), err)
		})
	}
}

// TestREADMEPrograms runs the programs that are agents with the quickstart.
func TestREADMEPrograms(t *testing.T) {
	b := startQuickstart(open(t, "quickstart"))
	m := &llm{tool: "demo_markdown", arguments: []any{`{"markdown":"# Hello"}`}}
	runAgents(t, b.endpoint, m.start(t), nil, func(t *testing.T, output string, err error) {
		t.Helper()
		if err != nil || !strings.Contains(output, `<h1>Hello</h1>`) {
			t.Errorf("%v: it prints %s", err, output)
		}
	})
}

// TestREADMEProgramsVariables: a program without a variable that it needs says which one, and what it is, before it asks for anything.
func TestREADMEProgramsVariables(t *testing.T) {
	for name, want := range map[string]string{"OPENAI_BASE_URL": "the URL of an API like OpenAI's", "MODEL": "the name of a model there"} {
		t.Run(name, func(t *testing.T) {
			runAgents(t, agentBridge, "http://127.0.0.1:1", []string{name + "="}, func(t *testing.T, output string, err error) {
				t.Helper()
				if err == nil || !strings.HasPrefix(output, name+" is not set: "+want) || strings.Count(output, "\n") != 1 {
					t.Errorf("%v: it prints %s", err, output)
				}
			})
		})
	}
}

// An llm is an API like OpenAI's. Its model calls a tool once for each of the arguments, one after the other, and answers with all
// that the tool has returned. All calls have the same id, since some APIs count from 0 in each message.
type llm struct {
	tool      string
	arguments []any // members `arguments` of the calls; nil: the call has none
	key       string
}

func (m *llm) start(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	return server.URL
}

func (m *llm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type message struct {
		Role       string `json:"role"`
		Content    string `json:"content"`
		ToolCallID string `json:"tool_call_id"`
	}
	var request struct {
		Model    string    `json:"model"`
		Messages []message `json:"messages"`
		Tools    []struct {
			Type     string `json:"type"`
			Function struct {
				Name        string `json:"name"`
				Description string `json:"description"`
				Parameters  object `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
	}
	key := m.key
	if key == "" {
		key = "a-key"
	}
	if r.Header.Get("Authorization") != "Bearer "+key {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if err := json.UnmarshalRead(r.Body, &request); err != nil || r.URL.Path != "/chat/completions" || request.Model != "a-model" ||
		!strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		http.Error(w, "this is no request for completions", http.StatusBadRequest)
		return
	}
	if n := len(request.Tools); n == 0 || n > 128 {
		http.Error(w, fmt.Sprintf(`{"error":{"message":"tools: %d: expected 1 to 128"}}`, n), http.StatusBadRequest)
		return
	}
	answer := object{"role": "assistant"}
	offered := false
	for _, tool := range request.Tools {
		offered = offered || tool.Type == "function" && tool.Function.Name == m.tool && tool.Function.Parameters["type"] == "object" && tool.Function.Description != ""
	}
	var returned []string
	for _, earlier := range request.Messages {
		if earlier.Role == "tool" && earlier.ToolCallID == "call-0" {
			returned = append(returned, earlier.Content)
		}
	}
	switch {
	case !offered:
		answer["content"] = "the tool is not offered"
	case len(returned) == len(m.arguments):
		answer["content"] = strings.Join(returned, "\n")
	default:
		function := object{"name": m.tool}
		if arguments := m.arguments[len(returned)]; arguments != nil {
			function["arguments"] = arguments
		}
		answer["tool_calls"] = []object{{"id": "call-0", "type": "function", "function": function}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.MarshalWrite(w, object{"choices": []object{{"message": answer}}}) // the program fails then
}

// A gate stands between the programs and a bridge. It notes the calls, and can answer them in the bridge's place.
type gate struct {
	t      *testing.T
	bridge *httputil.ReverseProxy
	answer func(method string, w http.ResponseWriter, r *http.Request) bool // nil: the bridge answers all

	mu   sync.Mutex
	seen []gateCall
}

type gateCall struct {
	Method string `json:"method"`
	Params struct {
		Key      string `json:"idempotency_key"`
		RunToken string `json:"run_token"`
	} `json:"params"`
}

func openGate(t *testing.T, b *bridge, answer func(string, http.ResponseWriter, *http.Request) bool) (*gate, string) {
	t.Helper()
	to, err := url.Parse(strings.TrimSuffix(b.endpoint, "/rpc"))
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, answer: answer, bridge: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: b.client.Transport}}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	return g, server.URL + "/rpc"
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var call gateCall
	if err == nil {
		err = json.Unmarshal(body, &call)
	}
	if err != nil {
		g.t.Errorf("%v: %s", err, body)
	}
	g.mu.Lock()
	g.seen = append(g.seen, call)
	g.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	if g.answer != nil && g.answer(call.Method, w, r) {
		return
	}
	g.bridge.ServeHTTP(w, r)
}

// calls returns the calls of a method since the last time, and forgets all others.
func (g *gate) calls(method string) []gateCall {
	g.mu.Lock()
	defer g.mu.Unlock()
	seen := g.seen
	g.seen = nil
	return slices.DeleteFunc(seen, func(c gateCall) bool { return c.Method != method })
}

// A slowProvider has the skill acme/slow, whose runs end when the test says so, and which needs no inputs.
type slowProvider struct {
	*httptest.Server
	mu    sync.Mutex
	runs  int
	ended bool
}

func newSlowProvider(t *testing.T) *slowProvider {
	t.Helper()
	p := new(slowProvider)
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *slowProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	version, provider := object{"version": "1.0.0"}, object{"name": "Test"}
	skill := object{
		"id": "acme/slow", "name": "Slow", "description": "Turns Markdown into something.", "version": "1.0.0", "capability_type": "api", "access": "public",
	}
	var answer object
	switch r.URL.Path {
	case "/.well-known/skill-sharing":
		skill["descriptor_url"] = p.URL + "/slow.json"
		answer = object{"protocol": version, "provider": provider, "skills": []object{skill}}
	case "/slow.json":
		answer = skill
		maps.Copy(answer, object{
			"protocol": version, "provider": provider, "inputs": []object{}, "auth": object{"type": "none"},
			"endpoint": object{"url": p.URL + "/run", "method": "POST", "status_url": p.URL + "/runs/{execution_id}"},
			"output":   object{"content_type": "application/json"},
		})
	default:
		const moment = "2026-01-02T03:04:05Z"
		answer = object{"execution_id": "run-1", "skill_id": "acme/slow", "status": "running", "timestamps": object{"created_at": moment, "updated_at": moment}}
		if r.Method == http.MethodPost {
			p.runs++
		}
		if p.ended {
			answer["status"], answer["output"] = "completed", object{"text": "it has ended"}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.MarshalWrite(w, answer) // the call fails then
}

// set sets whether runs have ended, and returns how many have begun since the last time.
func (p *slowProvider) set(ended bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	runs := p.runs
	p.runs, p.ended = 0, ended
	return runs
}

// startSlow starts a bridge to a slowProvider, with further options.
func startSlow(t *testing.T, options ...string) (*slowProvider, *bridge) {
	t.Helper()
	p := newSlowProvider(t)
	e := newExample(t, "http://localhost:8080 {\n\tskill_bridge /rpc {\n\t\tprovider "+p.URL+" {\n\t\t\tnamespace acme\n\t\t}\n"+
		"\t\tpoll_interval 2ms 10ms\n\t\tallow_anonymous\n\t}\n}\n")
	e.onLoopback()
	for _, option := range options {
		e.option(option)
	}
	return p, e.start()
}

// TestREADMEProgramsFollow: a run that takes longer than the bridge waits is executed once, and followed to its end.
func TestREADMEProgramsFollow(t *testing.T) {
	longtest.Need(t, longtest.Long)
	p, b := startSlow(t, "timeout 1s 1s")
	followed := 0
	g, endpoint := openGate(t, b, func(method string, _ http.ResponseWriter, _ *http.Request) bool {
		if method == "get_run" {
			followed++
		}
		if followed == 2 { // the first one is answered that the run goes on
			p.set(true)
		}
		return false
	})
	m := &llm{tool: "acme_slow", arguments: []any{`{}`}}
	runAgents(t, endpoint, m.start(t), nil, func(t *testing.T, output string, err error) {
		t.Helper()
		if err != nil || !strings.Contains(output, "it has ended") || len(g.calls("execute_skill")) != 1 {
			t.Errorf("%v: it prints %s", err, output)
		}
		followed = 0
		p.set(false)
	})
}

// TestREADMEProgramsLost: the connection is lost before the answer of a call. The program sends it again, and the skill is executed once.
func TestREADMEProgramsLost(t *testing.T) {
	longtest.Need(t, longtest.Long)
	p, b := startSlow(t)
	p.set(true)
	var (
		g        *gate
		endpoint string
	)
	lost := false
	g, endpoint = openGate(t, b, func(method string, _ http.ResponseWriter, r *http.Request) bool {
		if method == "execute_skill" && !lost {
			lost = true
			g.bridge.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		return false
	})
	m := &llm{tool: "acme_slow", arguments: []any{`{}`}}
	runAgents(t, endpoint, m.start(t), nil, func(t *testing.T, output string, err error) {
		t.Helper()
		if runs := p.set(true); err != nil || !strings.Contains(output, "it has ended") || len(g.calls("execute_skill")) != 2 || runs != 1 {
			t.Errorf("%v: %d runs, and it prints %s", err, runs, output)
		}
		lost = false
	})
}

// TestREADMEProgramsGetRun: the model calls the tool get_run without its argument, and gets told.
func TestREADMEProgramsGetRun(t *testing.T) {
	_, b := startSlow(t)
	_, endpoint := openGate(t, b, nil)
	m := &llm{tool: "get_run", arguments: []any{`{}`, `{"run_token":null}`}}
	runAgents(t, endpoint, m.start(t), nil, func(t *testing.T, output string, err error) {
		t.Helper()
		if err != nil || strings.Count(output, "'run_token' is required") != 2 {
			t.Errorf("%v: it prints %s", err, output)
		}
	})
}

// TestREADMEProgramsArguments: the arguments of a model are empty, absent or broken, and the program goes on.
func TestREADMEProgramsArguments(t *testing.T) {
	longtest.Need(t, longtest.Long)
	p, b := startSlow(t)
	g, endpoint := openGate(t, b, nil)
	for name, c := range map[string]struct {
		arguments any
		want      string // in the output
		runs      int
	}{
		"empty":        {"", "it has ended", 1},
		"null":         {jsonNull{}, "it has ended", 1},
		"absent":       {nil, "it has ended", 1},
		"an object":    {"{}", "it has ended", 1},
		"broken":       {`{"text": `, "not JSON", 0},
		"a word":       {`hello`, "not JSON", 0},
		"no object":    {`["a"]`, "must be an object", 0},
		"not as text":  {object{"text": "a"}, "not JSON", 0},
		"two in a row": {`{} {}`, "not JSON", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p.set(true)
			m := &llm{tool: "acme_slow", arguments: []any{c.arguments, c.arguments}}
			runAgents(t, endpoint, m.start(t), nil, func(t *testing.T, output string, err error) {
				t.Helper()
				if runs := p.set(true); err != nil || strings.Count(output, c.want) != 2 || runs != 2*c.runs {
					t.Errorf("%v: %d runs, and it prints %s", err, runs, output)
				}
				keys := make(map[string]bool)
				for _, call := range g.calls("execute_skill") {
					if keys[call.Params.Key] || call.Params.Key == "" {
						t.Errorf("the idempotency key %q is sent twice, or none", call.Params.Key)
					}
					keys[call.Params.Key] = true
				}
			})
		})
	}
}

// jsonNull is null in JSON.
type jsonNull struct{}

// MarshalJSON returns null.
func (jsonNull) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// TestREADMEProgramsRefused: the program ends with what to do if a server refuses it, and without the trace of an exception.
func TestREADMEProgramsRefused(t *testing.T) {
	p, b := startSlow(t)
	p.set(true)
	refuse := func(_ string, w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Basic right" {
			return false
		}
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	fail := func(method string, w http.ResponseWriter, _ *http.Request) bool {
		if method == "list_skills" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the list is not there","data":{"next":"retry"}}}`) // the program fails then
		}
		return method == "list_skills"
	}
	empty := func(_ string, w http.ResponseWriter, _ *http.Request) bool {
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"tools":[],"next_cursor":null}}`) // the program fails then
		return true
	}
	for name, c := range map[string]struct {
		answer    func(string, http.ResponseWriter, *http.Request) bool
		key       string // of the model's API
		variables []string
		want      string
		works     bool
	}{
		"no credential":        {refuse, "", nil, "BRIDGE_AUTHORIZATION", false},
		"a wrong credential":   {refuse, "", []string{"BRIDGE_AUTHORIZATION=Basic wrong"}, "BRIDGE_AUTHORIZATION", false},
		"the credential":       {refuse, "", []string{"BRIDGE_AUTHORIZATION=Basic right"}, "it has ended", true},
		"the model's API":      {nil, "another-key", nil, "OPENAI_API_KEY", false},
		"an error of the list": {fail, "", nil, "the list is not there", false},
		"no tools":             {empty, "", nil, "there are no tools", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, endpoint := openGate(t, b, c.answer)
			m := &llm{tool: "acme_slow", arguments: []any{`{}`}, key: c.key}
			runAgents(t, endpoint, m.start(t), c.variables, func(t *testing.T, output string, err error) {
				t.Helper()
				if (err == nil) != c.works || !strings.Contains(output, c.want) {
					t.Errorf("%v: it prints %s, want %q", err, output, c.want)
				}
				if strings.Contains(output, "Traceback") || strings.Contains(output, "    at ") {
					t.Errorf("it ends with a trace: %s", output)
				}
			})
		})
	}
}

// TestREADMEProgramsManySkills: of more skills than a request to a model may have, the program offers those that fit the task.
func TestREADMEProgramsManySkills(t *testing.T) {
	var skills []skill
	for i := range 200 {
		skills = append(skills, skill{id: fmt.Sprintf("acme/skill-%03d", i)})
	}
	p := newProvider(t, append(skills, skill{id: "acme/turn-markdown-into-html"})...)
	e := newExample(t, "http://localhost:8080 {\n\tskill_bridge /rpc {\n\t\tprovider "+p.URL+" {\n\t\t\tnamespace acme\n\t\t}\n\t\tallow_anonymous\n\t}\n}\n")
	e.onLoopback()
	m := &llm{tool: "acme_turn-markdown-into-html", arguments: []any{`{"text":"# Hello"}`}}
	runAgents(t, e.start().endpoint, m.start(t), nil, func(t *testing.T, output string, err error) {
		t.Helper()
		if err != nil || !strings.Contains(output, `"completed"`) {
			t.Errorf("%v: it prints %s", err, output)
		}
	})
}
