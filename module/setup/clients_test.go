package setup_test

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/setup"
)

// client returns the client of an id.
func client(t *testing.T, id string) *setup.Client {
	t.Helper()
	for i := range setup.Clients {
		if setup.Clients[i].ID == id {
			return &setup.Clients[i]
		}
	}
	t.Fatalf("there is no client %s", id)
	return nil
}

func compact(text string) string {
	v := jsontext.Value(text)
	if err := v.Compact(); err != nil {
		return err.Error()
	}
	return string(v)
}

// Each client's file has the bridge in the form that the client's documentation says, beside all that it had, in its order.
func TestAddClient(t *testing.T) {
	const header = `"headers":{"Authorization":"Bearer `
	for about, c := range map[string]struct{ id, token, before, want string }{
		"new":               {"cursor", "", "", `{"mcpServers":{"skills":{"url":"https://b.example.com/mcp"}}}`},
		"empty":             {"claude", "", "\n", `{"mcpServers":{"skills":{"type":"http","url":"https://b.example.com/mcp"}}}`},
		"others":            {"cursor", "KEY", `{"z":[1.0,1e400],"mcpServers":{"b":{"command":"x"},"a":{"url":"y"}},"a":"\u00e9"}`, `{"z":[1.0,1e400],"mcpServers":{"b":{"command":"x"},"a":{"url":"y"},"skills":{"url":"https://b.example.com/mcp",` + header + `${env:KEY}"}}},"a":"\u00e9"}`},
		"no servers":        {"gemini", "KEY", `{"theme":"x"}`, `{"theme":"x","mcpServers":{"skills":{"httpUrl":"https://b.example.com/mcp",` + header + `${KEY}"}}}}`},
		"Claude Code":       {"claude", "KEY", "{}", `{"mcpServers":{"skills":{"type":"http","url":"https://b.example.com/mcp",` + header + `${KEY}"}}}}`},
		"Windsurf":          {"windsurf", "KEY", "{}", `{"mcpServers":{"skills":{"serverUrl":"https://b.example.com/mcp",` + header + `${env:KEY}"}}}}`},
		"a program":         {"claude-desktop", "KEY", "{}", `{"mcpServers":{"skills":{"command":"/bin/caddy","args":["skill-bridge","mcp","--connect","https://b.example.com/mcp","--bearer-env","KEY"],"env":{"KEY":"<token>"}}}}`},
		"a program, open":   {"claude-desktop", "", "{}", `{"mcpServers":{"skills":{"command":"/bin/caddy","args":["skill-bridge","mcp","--connect","https://b.example.com/mcp"]}}}`},
		"asked for":         {"vscode", "KEY", `{"inputs":[{"id":"other"}]}`, `{"inputs":[{"id":"other"},{"type":"promptString","id":"KEY","description":"Token of the skill bridge","password":true}],"servers":{"skills":{"type":"http","url":"https://b.example.com/mcp",` + header + `${input:KEY}"}}}}`},
		"asked for already": {"vscode", "KEY", `{"inputs":[{"id":"KEY"}]}`, `{"inputs":[{"id":"KEY"}],"servers":{"skills":{"type":"http","url":"https://b.example.com/mcp",` + header + `${input:KEY}"}}}}`},
	} {
		t.Run(about, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a", "b.json")
			if c.before != "" {
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(c.before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s := setup.Server{Name: "skills", URL: "https://b.example.com/mcp", Program: "/bin/caddy"}
			if c.token != "" {
				s = s.WithToken(client(t, c.id), c.token)
			}
			for _, first := range []bool{true, false} {
				_, changed, err := client(t, c.id).Add(file, &s)
				text, readErr := os.ReadFile(file)
				if err != nil || readErr != nil || changed != first || compact(string(text)) != compact(c.want) || !strings.HasSuffix(string(text), "\n}\n") {
					t.Errorf("changed %t, %v, %v:\n%s, want\n%s", changed, err, readErr, text, c.want)
				}
			}
			if info, err := os.Stat(file); err != nil || c.before != "" && info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".skill*")); err != nil || len(left) > 0 {
				t.Errorf("it leaves %q, %v", left, err)
			}
		})
	}
}

// What can't be merged stays as it is, and the error has what the user has to write.
func TestAddClientLeavesFile(t *testing.T) {
	for about, c := range map[string]struct{ before, want string }{
		"no JSON":        {"{\n// a comment\n}", "it is not JSON"},
		"half":           {`{"mcpServers":{`, "it is not JSON"},
		"an array":       {`[]`, "no object"},
		"servers":        {`{"mcpServers":[]}`, "no object"},
		"null":           {`{"mcpServers":null}`, "no object"},
		"another bridge": {`{"mcpServers":{"skills":{"url":"https://other.example.com/mcp"}}}`, `it has another server "skills": name this one with --name`},
	} {
		t.Run(about, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "mcp.json")
			if err := os.WriteFile(file, []byte(c.before), 0o600); err != nil {
				t.Fatal(err)
			}
			_, changed, err := client(t, "cursor").Add(file, &setup.Server{Name: "skills", URL: "https://b.example.com/mcp"})
			text, readErr := os.ReadFile(file)
			if changed || err == nil || readErr != nil || string(text) != c.before {
				t.Fatalf("changed %t, %v, %v: %s", changed, err, readErr, text)
			}
			for _, want := range []string{c.want, file, `{"mcpServers": {"skills": {"url": "https://b.example.com/mcp"}}}`} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %s", err, want)
				}
			}
		})
	}
}

// A file to which the user writes a token can be read by nobody else; another one keeps its mode.
func TestAddClientMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes there")
	}
	for _, c := range []struct {
		id, token    string
		before, want os.FileMode
	}{{"claude-desktop", "KEY", 0o644, 0o600}, {"claude-desktop", "KEY", 0o400, 0o400}, {"claude-desktop", "", 0o644, 0o644}, {"cursor", "KEY", 0o664, 0o664}} {
		file := filepath.Join(t.TempDir(), "b.json")
		if err := cmp.Or(os.WriteFile(file, []byte("{}"), 0o600), os.Chmod(file, c.before)); err != nil {
			t.Fatal(err)
		}
		s := setup.Server{Name: "skills", URL: "https://b.example.com/mcp", Program: "/bin/caddy"}
		if c.token != "" {
			s = s.WithToken(client(t, c.id), c.token)
		}
		_, _, err := client(t, c.id).Add(file, &s)
		if info, statErr := os.Stat(file); err != nil || statErr != nil || info.Mode().Perm() != c.want {
			t.Errorf("%+v: %v, %v, %v", c, info.Mode(), err, statErr)
		}
	}
}

// A link to a file stays a link, and one to none, too.
func TestAddClientToLink(t *testing.T) {
	folder := t.TempDir()
	file, link := filepath.Join(folder, "file.json"), filepath.Join(folder, "link.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Skip(err)
	}
	if _, _, err := client(t, "cursor").Add(link, &setup.Server{Name: "skills", URL: "https://b.example.com/mcp"}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	text, readErr := os.ReadFile(file)
	if err != nil || readErr != nil || info.Mode()&os.ModeSymlink == 0 || !strings.Contains(string(text), "b.example.com") {
		t.Errorf("%v, %v, %v: %s", info, err, readErr, text)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	_, _, err = client(t, "cursor").Add(link, &setup.Server{Name: "skills", URL: "https://b.example.com/mcp"})
	if to, readErr := os.Readlink(link); err == nil || !strings.Contains(err.Error(), link+" is a link that leads to no file: ") || !strings.Contains(err.Error(), file) || to != file {
		t.Errorf("a link without a file: %v; it leads to %q, %v", err, to, readErr)
	}
}

// A Caddyfile that came to be while questions were answered is replaced only if it may be.
func TestWriteKeeps(t *testing.T) {
	file := filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := setup.Bridge{Site: "localhost:8080", Provider: "https://a.example.com", Key: setup.NoKey, Callers: setup.Anyone}
	for _, force := range []bool{false, true} {
		_, _, err := b.Write(file, force)
		if text, readErr := os.ReadFile(file); (err == nil) != force || (string(text) != "mine") != force || readErr != nil {
			t.Errorf("force %t: %v, %v: %s", force, err, readErr, text)
		}
	}
}
