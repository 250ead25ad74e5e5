package mcp_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
)

// The versions of MCP.
const (
	modern = "2026-07-28"
	legacy = "2025-11-25"
)

// way is a way to connect to the bridge.
type way struct{ name, version, form string }

// ways are the forms of the command, and HTTP, with the versions.
func ways() []way {
	list := []way{{"HTTP " + "2025-06-18", "2025-06-18", ""}, {"HTTP " + "2025-03-26", "2025-03-26", ""}}
	for _, form := range []string{"", "provider", "config", "connect"} {
		for _, version := range []string{modern, legacy} {
			name := "HTTP " + version
			if form != "" {
				name = "standard input, " + form + ", " + version
			}
			list = append(list, way{name, version, form})
		}
	}
	return list
}

// arguments are those of the command.
func (s *server) arguments(form string) []string {
	own := map[string][]string{
		"provider": {"--allow-http", "--allow-networks", "127.0.0.0/8", "--namespace", "acme", s.provider.URL()},
		"config":   {"--config", s.file, "--adapter", "caddyfile"},
		"connect":  {"--allow-http", "--connect", s.endpoint},
	}[form]
	return append([]string{"skill-bridge", "mcp"}, own...)
}

// environment is that of the command.
func environment(t *testing.T) []string {
	t.Helper()
	folder := t.TempDir()
	return append(os.Environ(), asCaddy+"=1", "NO_PROXY=127.0.0.1", "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder, "PORT=0")
}

// transport returns a transport of the SDK.
func (s *server) transport(t *testing.T, w way) mcp.Transport {
	t.Helper()
	if w.form == "" {
		return &mcp.StreamableClientTransport{Endpoint: s.endpoint, MaxRetries: -1}
	}
	// The test's context ends before the session, whose end has to be clean.
	command := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], s.arguments(w.form)...)
	command.Env, command.Stderr = environment(t), t.Output()
	return &mcp.CommandTransport{Command: command, TerminateDuration: time.Minute}
}

// connect connects a client, which has to end without an error.
func (s *server) connect(t *testing.T, w way, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).
		Connect(ctx, s.transport(t, w), &mcp.ClientSessionOptions{ProtocolVersion: w.version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("the end of the session: %v", err)
		}
	})
	if got := session.InitializeResult().ProtocolVersion; got != w.version {
		t.Fatalf("the session speaks %s, want %s", got, w.version)
	}
	return session
}

// paramsOf returns the params of a call; without arguments, they are absent.
func paramsOf(name string, arguments map[string]any) *mcp.CallToolParams {
	p := &mcp.CallToolParams{Name: name}
	if arguments != nil {
		p.Arguments = arguments
	}
	return p
}

// call calls a tool.
func call(t *testing.T, session *mcp.ClientSession, name string, arguments map[string]any) *mcp.CallToolResult {
	t.Helper()
	result, err := session.CallTool(t.Context(), paramsOf(name, arguments))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return result
}

// textOf returns the text of a result with one.
func textOf(t *testing.T, content []mcp.Content) string {
	t.Helper()
	if len(content) == 1 {
		if text, ok := content[0].(*mcp.TextContent); ok {
			return text.Text
		}
	}
	t.Fatalf("the content is %+v, want one text", content)
	return ""
}

// code returns that of a JSON-RPC error; 0: it is none.
func code(err error) int64 {
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return fault.Code
	}
	return 0
}

func TestTools(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			s := startServer(t)
			session := s.connect(t, w, nil)
			page, err := session.ListTools(t.Context(), nil)
			if err != nil || page.NextCursor == "" {
				t.Fatalf("the first page: %+v: %v", page, err)
			}
			tools := map[string]*mcp.Tool{}
			for tool, err := range session.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				tools[tool.Name] = tool
			}
			if want := many + 8 + 1; len(tools) != want || tools["get_run"] == nil {
				t.Fatalf("%d tools, want %d", len(tools), want)
			}
			member := func(schema any, name string) any {
				object, _ := schema.(map[string]any)
				return object[name]
			}
			if echo := tools["acme_echo"]; echo == nil || echo.Title == "" || echo.Annotations == nil || member(echo.OutputSchema, "type") != "object" {
				t.Errorf("%+v", echo)
			}
			if ask := tools["acme_ask"]; ask == nil || fmt.Sprint(member(ask.InputSchema, "required")) != "[text count]" {
				t.Errorf("%+v", ask)
			}
			want := "integer"
			if w.version != modern {
				want = "object"
			}
			if count := tools["acme_count"]; count == nil || member(count.OutputSchema, "type") != want {
				t.Errorf("%+v", count)
			}
			if _, err := session.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: "none"}); code(err) != jsonrpc.CodeInvalidParams {
				t.Errorf("an unknown cursor: %v", err)
			}
		})
	}
}

func TestCall(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			s := startServer(t)
			session := s.connect(t, w, nil)
			for range session.Tools(t.Context(), nil) { // the client checks results against the schemas that it has read
			}
			got := call(t, session, "acme_echo", map[string]any{"call": "one"})
			object, _ := got.StructuredContent.(map[string]any)
			if got.IsError || object["call"] != "one" || !strings.Contains(textOf(t, got.Content), `"call":"one"`) {
				t.Errorf("%+v", got)
			}
			got = call(t, session, "acme_count", nil)
			count := got.StructuredContent
			if w.version != modern {
				object, _ = count.(map[string]any)
				count = object["result"]
			}
			if got.IsError || count != float64(3) {
				t.Errorf("%+v", got)
			}
			got = call(t, session, "acme_picture", nil)
			if image, ok := got.Content[0].(*mcp.ImageContent); !ok || image.MIMEType != "image/png" || string(image.Data) != "\x89PNG\r\n\x1a\n" {
				t.Errorf("%+v", got.Content)
			}
			if got = call(t, session, "acme.echo", map[string]any{"call": "two"}); got.IsError {
				t.Errorf("by the name of the skill: %+v", got)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			s := startServer(t)
			session := s.connect(t, w, nil)
			for _, test := range []struct {
				name      string
				arguments map[string]any
				has       string // in the text of a result
				code      int64  // of an error
			}{
				{"acme_ask", map[string]any{"text": "hip", "count": "many"}, "count", 0},
				{"acme_ask", nil, "text", 0},
				{"acme_fails", nil, "It is broken.", 0},
				{"get_run", map[string]any{"run_token": "none"}, "run_token", 0},
				{"acme_eccho", nil, "", jsonrpc.CodeInvalidParams},
				{"acme_broken", nil, "", jsonrpc.CodeInternalError},
			} {
				got, err := session.CallTool(t.Context(), paramsOf(test.name, test.arguments))
				switch {
				case code(err) != test.code:
					t.Errorf("%s: %v, want the code %d", test.name, err, test.code)
				case err == nil && (!got.IsError || !strings.Contains(textOf(t, got.Content), test.has)):
					t.Errorf("%s: %+v", test.name, got)
				}
			}
			if got := call(t, session, "acme_echo", nil); got.IsError { // errors don't end the session
				t.Errorf("after errors: %+v", got)
			}
		})
	}
}

// TestProgress: a client sees progress while a run goes on, and the answer when it has ended.
func TestProgress(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			s := startServer(t)
			gate := s.hold(t)
			last := -1.0
			var tokens []any
			session := s.connect(t, w, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					if r.Params.Progress <= last {
						t.Errorf("progress %v after %v", r.Params.Progress, last)
					}
					last = r.Params.Progress
					tokens = append(tokens, r.Params.ProgressToken)
					gate.Open()
				},
			})
			params := &mcp.CallToolParams{Name: "acme_later", Arguments: map[string]any{"call": "one"}}
			params.SetProgressToken("a token")
			got, err := session.CallTool(t.Context(), params)
			if err != nil || got.IsError || !strings.Contains(textOf(t, got.Content), `"call":"one"`) {
				t.Errorf("%+v: %v", got, err)
			}
			if len(tokens) == 0 || tokens[0] != "a token" {
				t.Errorf("the tokens of the progress: %v", tokens)
			}
		})
	}
}

// TestSlow: a run that goes on after the wait is followed by get_run.
func TestSlow(t *testing.T) {
	for _, w := range []way{{"HTTP", modern, ""}, {"standard input", legacy, "config"}} {
		t.Run(w.name, func(t *testing.T) {
			s := startServer(t)
			gate := s.hold(t)
			session := s.connect(t, w, nil)
			got := call(t, session, "acme_later", map[string]any{"call": "one"})
			about, _ := got.Meta["io.github.skill-bridge/error"].(map[string]any)
			if !got.IsError || about["code"] != "STILL_RUNNING" || !strings.Contains(textOf(t, got.Content), "get_run") {
				t.Fatalf("%+v", got)
			}
			gate.Open()
			if got = call(t, session, "get_run", map[string]any{"run_token": about["runToken"]}); got.IsError || !strings.Contains(textOf(t, got.Content), `"call":"one"`) {
				t.Errorf("%+v", got)
			}
			if n := len(s.provider.Requests("acme/later", hostile.Invoke)); n != 1 {
				t.Errorf("the skill was invoked %d times", n)
			}
		})
	}
}

// TestLeave: a client that gives up a call goes on with others.
func TestLeave(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			s := startServer(t)
			gate := s.hold(t)
			session := s.connect(t, w, nil)
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				for gate.Waiting() == 0 && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				leave()
			}()
			if got, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "acme_later"}); !errors.Is(err, context.Canceled) {
				t.Errorf("%+v: %v", got, err)
			}
			if got := call(t, session, "acme_echo", nil); got.IsError {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestResources(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			s := startServer(t)
			session := s.connect(t, w, nil)
			var uris []string
			for r, err := range session.Resources(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				uris = append(uris, r.URI)
			}
			if len(uris) != many+8 || !slices.Contains(uris, "skill://acme.echo/SKILL.md") {
				t.Errorf("%d resources: %q", len(uris), uris)
			}
			for r, err := range session.ResourceTemplates(t.Context(), nil) {
				if err != nil || r.URITemplate != "skill://{name}/{file}" {
					t.Errorf("%+v: %v", r, err)
				}
			}
			for uri, has := range map[string]string{"skill://acme.echo/SKILL.md": "acme_echo", "skill://acme.echo/descriptor.json": `"endpoint"`} {
				got, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
				if err != nil || len(got.Contents) != 1 || got.Contents[0].URI != uri || !strings.Contains(got.Contents[0].Text, has) {
					t.Errorf("%s: %+v: %v", uri, got, err)
				}
			}
			want := int64(-32002)
			if w.version == modern {
				want = jsonrpc.CodeInvalidParams
			}
			if _, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "skill://acme.none/SKILL.md"}); code(err) != want {
				t.Errorf("an unknown resource: %v", err)
			}
		})
	}
}

// skillsParams and skillsResult are those of skills/list and skills/get (SEP-2640), which the SDK does not have yet.
type (
	skillsParams struct {
		mcp.ParamsBase

		URI    string `json:"uri,omitempty"`
		Cursor string `json:"cursor,omitempty"`
	}
	skillsResult struct {
		mcp.ResultBase

		Skills     []skillEntry `json:"skills"`
		Skill      skillEntry   `json:"skill"`
		NextCursor string       `json:"nextCursor"`
	}
	skillEntry struct {
		URI         string         `json:"uri"`
		Frontmatter map[string]any `json:"frontmatter"`
		Resources   []struct {
			URI    string `json:"uri"`
			Digest string `json:"digest"`
			Size   int    `json:"size"`
		} `json:"resources"`
	}
)

// TestSkills: a host finds the skills, and verifies the files that it reads.
func TestSkills(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			s := startServer(t)
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
			for _, method := range []string{"skills/list", "skills/get"} {
				if err := mcp.AddSendingCustomMethod[*skillsParams, *skillsResult](client, method); err != nil {
					t.Fatal(err)
				}
			}
			session, err := client.Connect(t.Context(), s.transport(t, w), &mcp.ClientSessionOptions{ProtocolVersion: w.version})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			if session.InitializeResult().Capabilities.Extensions["io.modelcontextprotocol/skills"] == nil {
				t.Errorf("%+v", session.InitializeResult().Capabilities)
			}
			byURI := map[string]skillEntry{}
			for cursor, pages := "", 0; cursor != "" || pages == 0; pages++ {
				page, err := mcp.CallCustomMethod[*skillsParams, *skillsResult](t.Context(), session, "skills/list", &skillsParams{Cursor: cursor})
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range page.Skills {
					byURI[e.URI] = e
				}
				cursor = page.NextCursor
			}
			echo := byURI["skill://acme/echo/SKILL.md"]
			got, err := mcp.CallCustomMethod[*skillsParams, *skillsResult](t.Context(), session, "skills/get", &skillsParams{URI: echo.URI})
			if err != nil || !reflect.DeepEqual(got.Skill, echo) || echo.Frontmatter["name"] != "echo" || len(echo.Resources) != 2 || len(byURI) < many {
				t.Errorf("%d skills, %+v, %+v: %v", len(byURI), echo, got, err)
			}
			for _, file := range echo.Resources {
				got, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: file.URI})
				if err != nil || len(got.Contents) != 1 || len(got.Contents[0].Text) != file.Size || fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(got.Contents[0].Text))) != file.Digest {
					t.Errorf("%+v: %+v: %v", file, got, err)
				}
			}
			_, err = mcp.CallCustomMethod[*skillsParams, *skillsResult](t.Context(), session, "skills/get", &skillsParams{URI: "skill://acme/none/SKILL.md"})
			if code(err) != jsonrpc.CodeInvalidParams {
				t.Errorf("an unknown skill: %v", err)
			}
		})
	}
}

func TestPrompts(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			s := startServer(t)
			session := s.connect(t, w, nil)
			var names []string
			for p, err := range session.Prompts(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, p.Name)
			}
			if !slices.Equal(names, []string{"acme_poem"}) {
				t.Fatalf("the prompts are %q", names)
			}
			got, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "acme_poem", Arguments: map[string]string{"mood": "sad"}})
			if err != nil || len(got.Messages) != 1 || got.Messages[0].Role != "user" || textOf(t, []mcp.Content{got.Messages[0].Content}) != "Roses are red." {
				t.Errorf("%+v: %v", got, err)
			}
			for _, arguments := range []map[string]string{nil, {"mood": "angry"}} {
				if _, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "acme_poem", Arguments: arguments}); code(err) != jsonrpc.CodeInvalidParams {
					t.Errorf("with %v: %v", arguments, err)
				}
			}
			for _, test := range []struct {
				ref        *mcp.CompleteReference
				name, text string
				want       []string
			}{
				{&mcp.CompleteReference{Type: "ref/prompt", Name: "acme_poem"}, "mood", "m", []string{"merry"}},
				{&mcp.CompleteReference{Type: "ref/resource", URI: "skill://{name}/{file}"}, "name", "acme.p", []string{"acme.picture", "acme.poem"}},
			} {
				got, err := session.Complete(t.Context(), &mcp.CompleteParams{Ref: test.ref, Argument: mcp.CompleteParamsArgument{Name: test.name, Value: test.text}})
				if err != nil || !slices.Equal(got.Completion.Values, test.want) {
					t.Errorf("%s: %+v, want %q: %v", test.name, got, test.want, err)
				}
			}
		})
	}
}

// TestChanges: clients that listen learn of a new skill, and can call it.
func TestChanges(t *testing.T) {
	s := startServer(t)
	type listener struct {
		*mcp.ClientSession
		changed chan struct{}
	}
	listeners := map[string]listener{}
	for _, w := range ways() {
		if w.version != modern {
			continue
		}
		changed := make(chan struct{}, 10)
		listeners[w.name] = listener{s.connect(t, w, &mcp.ClientOptions{
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
		}), changed}
		call(t, listeners[w.name].ClientSession, "acme_echo", nil) // also while it listens
	}
	s.provider.Publish(hostile.Skill{ID: "acme/news"})
	for name, l := range listeners {
		isListed := false
		for !isListed { // the first notification may be older than the new skill
			select {
			case <-l.changed:
			case <-time.After(time.Minute):
				t.Fatalf("%s: the client did not learn of the new skill", name)
			}
			for tool, err := range l.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				isListed = isListed || tool.Name == "acme_news"
			}
		}
		if got := call(t, l.ClientSession, "acme_news", nil); got.IsError {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
