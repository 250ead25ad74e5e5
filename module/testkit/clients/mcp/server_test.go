package mcp_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/skill-bridge/caddy-skill-bridge/module"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// asCaddy is the environment variable of a process of this binary that is Caddy.
const asCaddy = "CLIENTS_CADDY"

func TestMain(m *testing.M) {
	if os.Getenv(asCaddy) != "" {
		caddycmd.Main()
		return
	}
	testbed.Main(m)
}

// many is the number of skills that are only there to fill pages.
const many = 120

// server is a bridge with MCP and its provider.
type server struct {
	endpoint string // such as http://127.0.0.1:8080/mcp
	file     string // a configuration of the bridge, for --config
	provider *hostile.Provider
}

// startServer runs a bridge with these skills:
//
//   - acme.echo is completed at once. Its output is an object with the texts skill and call.
//   - acme.later is accepted, and ends when a gate is open; see [server.hold].
//   - acme.count is completed with the number 3.
//   - acme.picture is completed with an image.
//   - acme.ask requires the inputs text and count.
//   - acme.fails fails, and the answers of acme.broken are invalid.
//   - acme.poem is of the type knowledge, and completed with a text. Its input mood is sad or merry.
//   - acme.fill-0 and so on do the same as acme.echo.
func startServer(t *testing.T) *server {
	t.Helper()
	output := func(contentType string, schema hostile.Object) func(hostile.Object) {
		return func(descriptor hostile.Object) {
			descriptor["output"] = hostile.Object{"content_type": contentType}
			if schema != nil {
				descriptor["output"] = hostile.Object{"content_type": contentType, "schema": schema}
			}
		}
	}
	text := hostile.Object{"type": "string"}
	skills := []hostile.Skill{
		{ID: "acme/echo", Edit: output("application/json", hostile.Object{
			"type": "object", "properties": hostile.Object{"skill": text, "call": text}, "required": []string{"skill", "call"},
		})},
		{ID: "acme/later"},
		{ID: "acme/count", Edit: output("application/json", hostile.Object{"type": "integer"})},
		{ID: "acme/picture", Edit: output("image/png", nil)},
		{ID: "acme/fails"},
		{ID: "acme/broken"},
		{ID: "acme/ask", Edit: func(descriptor hostile.Object) {
			descriptor["inputs"] = []hostile.Object{
				{"name": "text", "type": "string", "description": "What to repeat.", "required": true},
				{"name": "count", "type": "number", "description": "How often.", "required": true},
			}
		}},
		{ID: "acme/poem", EditEntry: func(entry hostile.Object) { entry["capability_type"] = "knowledge" }, Edit: func(descriptor hostile.Object) {
			output("text/plain", nil)(descriptor)
			descriptor["capability_type"] = "knowledge"
			descriptor["inputs"] = []hostile.Object{
				{"name": "mood", "type": "string", "description": "Of the poem.", "required": true, "schema": hostile.Object{"type": "string", "enum": []string{"sad", "merry"}}},
			}
		}},
	}
	for i := range many {
		skills = append(skills, hostile.Skill{ID: "acme/fill-" + strconv.Itoa(i)})
	}
	p := hostile.NewProvider(t, skills...)
	p.On("", hostile.Index, func(x *hostile.Exchange) {
		x.Writer.Header().Set("Cache-Control", "max-age=1")
		hostile.Usual()(x)
	})
	p.On("acme/count", hostile.Invoke, hostile.Complete(3))
	p.On("acme/picture", hostile.Invoke, hostile.Complete("iVBORw0KGgo="))
	p.On("acme/fails", hostile.Invoke, hostile.Fail("BROKEN", "It is broken."))
	p.On("acme/broken", hostile.Invoke, hostile.Respond(http.StatusOK, "{"))
	p.On("acme/poem", hostile.Invoke, hostile.Complete("Roses are red."))
	bridge := strings.Join([]string{
		"skill_bridge {", "\tallow_http", "\tallow_networks 127.0.0.0/8", "\tprovider " + p.URL() + " {", "\t\tnamespace acme", "\t}",
		"\tpoll_interval 10ms 50ms", "\twait 2s", "\tmcp {", "\t\ttask_after 0s", "\t}", "}",
	}, "\n")
	s := &server{provider: p, file: filepath.Join(t.TempDir(), "Caddyfile")}
	if err := os.WriteFile(s.file, []byte(testbed.Site(bridge)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.endpoint = strings.TrimSuffix(testbed.StartCaddy(t, testbed.Site(bridge)).URL, "/rpc") + "/mcp"
	return s
}

// hold makes further runs of acme.later wait for the gate.
func (s *server) hold(t *testing.T) *hostile.Gate {
	t.Helper()
	gate := hostile.NewGate(t)
	s.provider.On("acme/later", hostile.Invoke, hostile.Accept(0))
	s.provider.On("acme/later", hostile.Status, gate.Then(hostile.Usual()))
	return gate
}
