package fronts_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// TestWebPage: a page of the origin in the manual can use MCP with the manual's Caddyfile, also where it gets errors, and no other page.
func TestWebPage(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	var site string
	for _, block := range manuals.In(t, "caddyfile", manuals.MCP) {
		if strings.Contains(block.Text, "@preflight") {
			site = strings.NewReplacer("tools.example.com {", "http://127.0.0.1:{$PORT} {", "provider https://skills.example.com",
				"allow_http\n\t\t\tallow_networks 127.0.0.1\n\t\t\tprovider "+p.URL()+" {\n\t\t\t\tnamespace acme\n\t\t\t}").Replace(block.Text)
		}
	}
	c := testbed.StartCaddy(t, site)
	const page = "https://app.example.com"
	for _, tc := range []struct {
		about, method, origin, body string
		status                      int
		allowed                     string // the origin
	}{
		{"preflight", http.MethodOptions, page, "", 204, page},
		{"a call", http.MethodPost, page, modern("tools/call", `"name":"acme_echo"`), 200, page},
		{"an error", http.MethodPost, page, modern("tools/nope", ""), 400, page}, // the field Mcp-Method says something else
		{"preflight of another page", http.MethodOptions, "https://other.example.com", "", 403, page},
		{"a call of another page", http.MethodPost, "https://other.example.com", modern("tools/call", `"name":"acme_echo"`), 403, page},
	} {
		options := []testbed.Option{
			testbed.Fresh(), testbed.Header("Origin", tc.origin), testbed.Header("Content-Type", "application/json"),
			testbed.Header("Mcp-Protocol-Version", "2026-07-28"), testbed.Header("Mcp-Method", "tools/call"), testbed.Header("Mcp-Name", "acme_echo"),
		}
		a := c.With(options...).Send(tc.method, base(c)+"/mcp", tc.body)
		if a.Err != nil || a.Status != tc.status || a.Header.Get("Access-Control-Allow-Origin") != tc.allowed || tc.status == 204 && !strings.Contains(a.Header.Get("Access-Control-Allow-Headers"), "Mcp-Name") {
			t.Errorf("%s: %v", tc.about, a)
		}
	}
}

// TestAccessLogWithoutTaskIDs: with the manual's Caddyfile, ids of tasks are not in the access log, where other fields of the header are.
func TestAccessLogWithoutTaskIDs(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	file := filepath.Join(t.TempDir(), "access.log")
	var site string
	for _, block := range manuals.In(t, "caddyfile", manuals.MCP) {
		if strings.Contains(block.Text, "format filter") {
			site = strings.NewReplacer("tools.example.com {", "http://127.0.0.1:{$PORT} {", "log {", "log {\n\t\toutput file "+file, "provider https://skills.example.com",
				"allow_http\n\t\tallow_networks 127.0.0.1\n\t\tprovider "+p.URL()+" {\n\t\t\tnamespace acme\n\t\t}").Replace(block.Text)
		}
	}
	c := testbed.StartCaddy(t, site)
	a := c.With(testbed.Fresh(), testbed.Header("Content-Type", "application/json"), testbed.Header("Mcp-Protocol-Version", "2026-07-28"),
		testbed.Header("Mcp-Method", "tasks/get"), testbed.Header("Mcp-Name", "the-id-of-a-task")).Send(http.MethodPost, base(c)+"/mcp", modern("tasks/get", `"taskId":"the-id-of-a-task"`))
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	c.Stop() // so that the line is written
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "tasks/get") || strings.Contains(string(text), "the-id-of-a-task") {
		t.Errorf("%v: %s", err, text)
	}
}
