package stdio_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/stdio"
)

// A batch is one request to the server. Each of its requests is answered once, also if the server, or the connection to it, fails.
func TestBatches(t *testing.T) {
	const (
		two   = `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":"a","method":"ping"}]`
		both  = `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":"a","result":{}}]`
		event = "data: "
	)
	for _, v := range []struct {
		about, line string
		status      int
		mediaType   string
		answer      string
		want        []string // parts of the lines
	}{
		{"an array", two, 200, "application/json", both, []string{both}},
		{"an array in lines", two, 200, "application/json", strings.ReplaceAll(both, "{}},", "{}}\n,\r\n"), []string{`"a"`}},
		{"a message for one", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, 200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{}}`, []string{`{"jsonrpc":"2.0","id":1,"result":{}}`}},
		{"a refusal", two, 400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32600,"message":"no batches"}}`, []string{`{"jsonrpc":"2.0","error":{"code":-32600,"message":"no batches"}}`}},
		{"an empty batch", `[]`, 400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32600,"message":"empty"}}`, []string{"empty"}},
		{"one is missing", two, 200, "application/json", `[{"jsonrpc":"2.0","id":1,"result":{}}]`, []string{`[{"jsonrpc":"2.0","id":1,"result":{}}]`, `[{"jsonrpc":"2.0","id":"a","error":{"code":-32603,`}},
		{"no JSON", two, 502, "text/html", `<html>`, []string{`[{"jsonrpc":"2.0","id":1,"error":{"code":-32603,`}},
		{"nothing", two, 200, "", "", []string{`},{"jsonrpc":"2.0","id":"a","error":{"code":-32603,`}},
		{"events", two, 200, "text/event-stream", event + `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}` + "\n\n" + event + `{"jsonrpc":"2.0","id":"a","result":{}}` + "\n\n" + event + `[{"jsonrpc":"2.0","id":1,"result":{}}]` + "\n\n" + event + "{}\n\n", []string{"progress", `"a"`, `[{"jsonrpc":"2.0","id":1`}},
		{"events that end", two, 200, "text/event-stream", event + `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n\n", []string{`"id":1`, `[{"jsonrpc":"2.0","id":"a","error"`}},
		{"notifications", `[{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":7,"result":{}}]`, 202, "", "", nil},
		{"what is no message", `[1,[]]`, 200, "application/json", `[{"jsonrpc":"2.0","error":{"code":-32600,"message":"x"}},{"jsonrpc":"2.0","error":{"code":-32600,"message":"x"}}]`, []string{"-32600"}},
	} {
		t.Run(v.about, func(t *testing.T) {
			sent := ""
			c := start(t, stdio.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text, _ := io.ReadAll(r.Body)
				sent = string(text)
				if v.mediaType != "" {
					w.Header().Set("Content-Type", v.mediaType)
				}
				w.WriteHeader(v.status)
				_, _ = io.WriteString(w, v.answer)
			})), stdio.Options{}).reads()
			c.send(v.line)
			lines := c.end()
			if sent != v.line || len(lines) != len(v.want) {
				t.Fatalf("the server got %s, and the client %q; warnings %s", sent, lines, c.warned())
			}
			for i, want := range v.want {
				if !strings.Contains(lines[i], want) || strings.ContainsAny(lines[i], "\r\n") {
					t.Errorf("line %q, want %q", lines[i], want)
				}
			}
		})
	}
}

// Notifications in a batch cancel requests, and a batch of a later version says so in the header, so that the server refuses it.
func TestBatchesOfOthers(t *testing.T) {
	called, gone := make(chan struct{}), make(chan struct{})
	var versions []string
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		switch {
		case strings.HasPrefix(string(text), "[") && !strings.Contains(string(text), "cancelled"):
			versions = append(versions, r.Header.Get("MCP-Protocol-Version"))
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}`)
		case strings.Contains(string(text), "initialize"):
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}`)
		case strings.Contains(string(text), "tools/call"):
			close(called)
			<-r.Context().Done()
			close(gone)
		}
	})
	c := start(t, stdio.InProcess(h), stdio.Options{}).reads()
	c.send(`[{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}]`)
	c.read()
	c.send(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
	c.read()
	c.send(`[{"jsonrpc":"2.0","id":2,"method":"ping"}]`)
	c.read()
	if strings.Join(versions, " ") != "2026-07-28 2025-11-25" {
		t.Errorf("versions %q", versions)
	}
	c.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call"}`)
	<-called
	c.send(`[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}]`)
	<-gone
	if lines := c.end(); len(lines) > 0 {
		t.Errorf("%q", lines)
	}
}
