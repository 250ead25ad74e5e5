package command_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// desktop is a client of MCP that has started the command, and talks to it over pipes.
type desktop struct {
	t       *testing.T
	command *exec.Cmd
	folder  string // of Caddy's data
	in      io.WriteCloser
	out     *bufio.Reader
	errs    strings.Builder
}

// startDesktop starts the command with arguments and further variables of the environment.
func startDesktop(t *testing.T, environment []string, args ...string) *desktop {
	t.Helper()
	d := &desktop{t: t, command: exec.CommandContext(t.Context(), "caddy", append([]string{"skill-bridge", "mcp"}, args...)...)}
	d.folder = t.TempDir()
	d.command.Env = append(append(os.Environ(), "XDG_DATA_HOME="+d.folder, "XDG_CONFIG_HOME="+d.folder), environment...)
	d.command.Stderr = &d.errs
	var err error
	if d.in, err = d.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := d.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.out = bufio.NewReader(out)
	if err := d.command.Start(); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *desktop) send(messages ...string) {
	d.t.Helper()
	if _, err := io.WriteString(d.in, strings.Join(messages, "\n")+"\n"); err != nil {
		d.t.Fatal(err)
	}
}

// read returns the next message.
func (d *desktop) read() string {
	d.t.Helper()
	line, err := d.out.ReadString('\n')
	if err != nil {
		d.t.Fatalf("%v after %q; %s", err, line, &d.errs)
	}
	line = strings.TrimSuffix(line, "\n")
	if !jsontext.Value(line).IsValid() || !strings.HasPrefix(line, `{"jsonrpc":"2.0",`) {
		d.t.Errorf("no message: %q", line)
	}
	return line
}

// ends waits for the end of the command, which writes nothing more, and returns its exit status.
func (d *desktop) ends() int {
	d.t.Helper()
	if rest, err := io.ReadAll(d.out); len(rest) > 0 || err != nil {
		d.t.Errorf("further output: %q, %v", rest, err)
	}
	err := d.command.Wait()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return failed.ExitCode()
	} else if err != nil {
		d.t.Error(err)
	}
	return 0
}

// rpcRequest is a request as bridgeElsewhere reads it.
type rpcRequest struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params struct {
		Name string `json:"name"`
	} `json:"params"`
}

// bridgeElsewhere answers as the MCP endpoint of a bridge does, in both eras.
func bridgeElsewhere(t *testing.T, token string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m rpcRequest
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &m) != nil {
			t.Errorf("%v: %s", err, body)
		}
		version := r.Header.Get("Mcp-Protocol-Version")
		modern := version == "2026-07-28"
		answer := func(result string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		}
		switch {
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/mcp", http.StatusTemporaryRedirect)
		case r.URL.Path == "/basic" && r.Header.Get("Authorization") == "Basic YWxpY2U6b3BlbiBzZXNhbWU=":
			answer(`"alice"`)
		case r.URL.Path == "/mistyped": // as where Caddy has no handler
		case token != "" && r.Header.Get("Authorization") != "Bearer "+token:
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
		case modern != (r.Header.Get("Mcp-Method") != "") || modern && r.Header.Get("Mcp-Method") != m.Method || modern && r.Header.Get("Mcp-Name") != m.Params.Name:
			t.Errorf("%v: %s", r.Header, body)
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		case m.Method == "initialize":
			answer(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"skill-bridge","version":"1"}}`)
		case !modern && version != "2025-11-25":
			t.Errorf("the version is %q: %s", version, body)
		case m.Method == "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ": hello\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":1}}\n\n")
			_ = http.NewResponseController(w).Flush()
			if m.Params.Name == "never" {
				<-r.Context().Done()
			}
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", m.ID)
		default:
			answer(`{"tools":[]}`)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestConnect connects a client with a bridge elsewhere.
func TestConnect(t *testing.T) {
	s := bridgeElsewhere(t, "open-sesame")
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	t.Run("legacy", func(t *testing.T) {
		d := startDesktop(t, []string{"TOKEN=open-sesame\n"}, "--connect", s.URL+"/mcp", "--bearer-env", "TOKEN")
		d.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		if line := d.read(); !strings.Contains(line, `"protocolVersion":"2025-11-25"`) {
			t.Error(line)
		}
		d.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":"a","method":"tools/list"}`)
		if line := d.read(); line != `{"jsonrpc":"2.0","id":"a","result":{"tools":[]}}` {
			t.Error(line)
		}
		_ = d.in.Close()
		if status := d.ends(); status != 0 || d.errs.Len() > 0 {
			t.Errorf("exit status %d: %s", status, &d.errs)
		}
	})
	t.Run("modern", func(t *testing.T) {
		d := startDesktop(t, []string{"TOKEN=open-sesame"}, "--connect", s.URL+"/mcp", "--bearer-env", "TOKEN")
		d.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"acme_slow",` + meta + `}}`)
		if progress, answer := d.read(), d.read(); !strings.Contains(progress, "notifications/progress") || !strings.Contains(answer, `"id":1,"result"`) {
			t.Errorf("%s, %s", progress, answer)
		}
		d.send("hello", `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{`+meta+`}}`)
		if lines := d.read() + d.read(); !strings.Contains(lines, `-32700`) || !strings.Contains(lines, `"id":2,"result"`) {
			t.Error(lines)
		}
		d.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"never",` + meta + `}}`)
		d.read()
		stopping := time.Now()
		if err := d.command.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if status := d.ends(); status != 0 || d.errs.Len() > 0 || time.Since(stopping) > time.Minute {
			t.Errorf("exit status %d after %v: %s", status, time.Since(stopping), &d.errs)
		}
	})
	t.Run("a user name and a password", func(t *testing.T) {
		d := startDesktop(t, []string{"LOGIN=alice:open sesame\n"}, "--connect", s.URL+"/basic", "--basic-env", "LOGIN")
		d.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if line := d.read(); !strings.Contains(line, `"id":1,"result":"alice"`) {
			t.Error(line)
		}
		_ = d.in.Close()
		if status := d.ends(); status != 0 || d.errs.Len() > 0 {
			t.Errorf("exit status %d: %s", status, &d.errs)
		}
	})
	t.Run("refused", func(t *testing.T) {
		for _, tc := range []struct{ path, token, want string }{
			{"/mcp", "abracadabra", "Check that it takes what the environment variable TOKEN contains"},
			{"/mistyped", "open-sesame", "nothing serves MCP there. Check that the URL"},
			{"/moved", "open-sesame", "redirects to " + s.URL + "/mcp, which is not followed"},
		} {
			d := startDesktop(t, []string{"TOKEN=" + tc.token}, "--connect", s.URL+tc.path, "--bearer-env", "TOKEN")
			d.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
			if line := d.read(); !strings.Contains(line, `"id":1,"error":{"code":-32603,`) || !strings.Contains(line, tc.want) || strings.Contains(line, tc.token) {
				t.Error(line)
			}
			_ = d.in.Close()
			if status := d.ends(); status != 0 {
				t.Errorf("exit status %d: %s", status, &d.errs)
			}
		}
		d := startDesktop(t, nil, "--connect", s.URL+"/mcp")
		d.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		if line := d.read(); !strings.Contains(line, "with --bearer-env") {
			t.Error(line)
		}
		_ = d.in.Close()
		if status := d.ends(); status != 0 || !strings.Contains(d.errs.String(), "notifications/initialized") {
			t.Errorf("exit status %d: %s", status, &d.errs)
		}
	})
	t.Run("a closed output", func(t *testing.T) {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = read.Close()
		command := exec.CommandContext(t.Context(), "caddy", "skill-bridge", "mcp", "--connect", s.URL+"/mcp")
		var errs strings.Builder
		command.Stdout, command.Stderr = write, &errs
		in, err := command.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		_ = write.Close()
		if _, err := io.WriteString(in, "hello\n"); err != nil {
			t.Error(err)
		}
		if err := command.Wait(); err != nil || errs.Len() > 0 { // the input is still open
			t.Errorf("%v: %s", err, &errs)
		}
	})
}
