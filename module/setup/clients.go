// Package setup writes the first files of an operator and of users: a Caddyfile with a bridge, and the configurations of clients of MCP.
package setup

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// Client is a client of MCP.
type Client struct {
	ID, Name string
	// File is its configuration: in the home folder (~), in that for configurations (~config), or in the folder of a project.
	File    string
	servers string // the member of the configuration that has servers
	entry   string // of a server, with words that begin with $
	secret  string // in the entry: what the client replaces by the environment variable NAME, or by what it asks for
}

// Clients are the clients whose configurations are known.
var Clients = []Client{
	{"cursor", "Cursor", ".cursor/mcp.json", "mcpServers", `{"url": $URL$HEADERS}`, "${env:NAME}"},
	{"vscode", "VS Code", ".vscode/mcp.json", "servers", `{"type": "http", "url": $URL$HEADERS}`, "${input:NAME}"},
	{"claude", "Claude Code", ".mcp.json", "mcpServers", `{"type": "http", "url": $URL$HEADERS}`, "${NAME}"},
	{"claude-desktop", "Claude Desktop", "~config/Claude/claude_desktop_config.json", "mcpServers", `{"command": $PROGRAM, "args": ["skill-bridge", "mcp", "--connect", $URL$FLAGS}`, ""},
	{"gemini", "Gemini CLI", ".gemini/settings.json", "mcpServers", `{"httpUrl": $URL$HEADERS}`, "${NAME}"},
	{"windsurf", "Windsurf", "~/.codeium/windsurf/mcp_config.json", "mcpServers", `{"serverUrl": $URL$HEADERS}`, "${env:NAME}"},
}

// Server is a bridge as a server of a client.
type Server struct {
	// Name is that of the server in the configuration.
	Name, URL string
	// Program is the path of this program, for clients that start programs.
	Program string
	// Authorization is the header field of that name; empty: the bridge needs none, or gives clients their tokens.
	Authorization string
	// Flag, Variable and Value are what a program takes instead of the header: a flag with the name of an environment variable, and its value.
	Flag, Variable, Value string
	// AllowHTTP permits a program to connect without TLS.
	AllowHTTP bool
}

// WithToken returns the server for a client that gets a bearer token from an environment variable, or asks for it.
func (s Server) WithToken(c *Client, variable string) Server {
	s.Flag, s.Variable, s.Value = "--bearer-env", variable, "<token>"
	s.Authorization = "Bearer " + strings.Replace(c.secret, "NAME", variable, 1)
	return s
}

// Config returns the configuration of a client that has this server only.
func (c *Client) Config(s *Server) string {
	inputs := ""
	if s.asked() {
		inputs = `"inputs": [` + inputOf(s) + "], "
	}
	return "{" + inputs + quote(c.servers) + ": {" + quote(s.Name) + ": " + c.entryOf(s) + "}}"
}

// asked reports whether the client asks the user for the token.
func (s *Server) asked() bool {
	return strings.Contains(s.Authorization, "${input:")
}

// inputOf returns the question for the token in the configuration of VS Code.
func inputOf(s *Server) string {
	return `{"type": "promptString", "id": ` + quote(s.Variable) + `, "description": "Token of the skill bridge", "password": true}`
}

// Next returns what the user has to do about the token; empty: nothing.
func (c *Client) Next(s *Server) string {
	switch {
	case s.Variable == "":
		return ""
	case c.secret == "":
		return "write the token to the file, instead of " + s.Value + ", and start " + c.Name + " again"
	case s.asked():
		return c.Name + " asks for the token"
	}
	return "start " + c.Name + " with the environment variable " + s.Variable
}

func (c *Client) entryOf(s *Server) string {
	headers, flags := "", "]"
	if s.AllowHTTP {
		flags = `, "--allow-http"]`
	}
	if s.Authorization != "" {
		headers = `, "headers": {"Authorization": ` + quote(s.Authorization) + "}"
		flags = ", " + quote(s.Flag) + ", " + quote(s.Variable) + flags + `, "env": {` + quote(s.Variable) + ": " + quote(s.Value) + "}"
	}
	return strings.NewReplacer("$URL", quote(s.URL), "$HEADERS", headers, "$PROGRAM", quote(s.Program), "$FLAGS", flags).Replace(c.entry)
}

func quote(text string) string {
	quoted, _ := jsontext.AppendQuote(nil, text) // what is not UTF-8 is replaced
	return string(quoted)
}

// Add adds the server to the configuration in a file; empty: that of the client. Everything else in the file stays. It returns the file, and whether it
// has changed.
func (c *Client) Add(file string, s *Server) (name string, changed bool, err error) {
	if file == "" {
		if file, err = c.path(); err != nil {
			return "", false, err
		}
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = nil, os.MkdirAll(filepath.Dir(file), 0o755) //nolint:gosec // as the client makes it
	}
	if err != nil {
		return file, false, err
	}
	merged, err := c.merge(text, s)
	switch {
	case err != nil:
		return file, false, fmt.Errorf("%s is left as it is: %w; what it needs: %s", file, err, c.Config(s))
	case same(merged, text):
		return file, false, nil
	}
	if err := merged.Indent(jsontext.WithIndent("  ")); err != nil {
		return file, false, err
	}
	most := fs.ModePerm
	if c.secret == "" && s.Variable != "" { // the user writes a token to the file
		most = 0o600
	}
	return file, true, replace(file, append(merged, '\n'), 0o600, most)
}

// path returns the path of the client's own configuration.
func (c *Client) path() (string, error) {
	for prefix, folder := range map[string]func() (string, error){"~config/": os.UserConfigDir, "~/": os.UserHomeDir} {
		if rest, found := strings.CutPrefix(c.File, prefix); found {
			in, err := folder()
			return filepath.Join(in, filepath.FromSlash(rest)), err
		}
	}
	return filepath.FromSlash(c.File), nil
}

// merge returns a configuration with the server.
func (c *Client) merge(text jsontext.Value, s *Server) (jsontext.Value, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = jsontext.Value("{}")
	}
	compact := text.Clone()
	if err := compact.Compact(); err != nil {
		return nil, fmt.Errorf("it is not JSON (%w)", err)
	}
	merged, err := put(text, c.servers, func(servers jsontext.Value) (jsontext.Value, error) {
		if servers == nil {
			servers = jsontext.Value("{}")
		}
		return put(servers, s.Name, func(old jsontext.Value) (jsontext.Value, error) {
			entry := jsontext.Value(c.entryOf(s))
			if old != nil && !same(old, entry) {
				return nil, fmt.Errorf("it has another server %q: name this one with --name, or remove the other", s.Name)
			}
			return entry, nil
		})
	})
	if err != nil || !s.asked() {
		return merged, err
	}
	return put(merged, "inputs", func(inputs jsontext.Value) (jsontext.Value, error) {
		var all []jsontext.Value //nolint:prealloc // they are read from the file
		if inputs != nil && json.Unmarshal(inputs, &all) != nil {
			return nil, errors.New(`its "inputs" are no array`)
		}
		for _, input := range all {
			var known struct{ ID string }
			if json.Unmarshal(input, &known, json.MatchCaseInsensitiveNames(true)) == nil && known.ID == s.Variable {
				return inputs, nil
			}
		}
		return json.Marshal(append(all, jsontext.Value(inputOf(s))))
	})
}

// put returns an object with another value of a member, which a function makes of the one before; nil: there was none.
func put(object jsontext.Value, name string, change func(old jsontext.Value) (jsontext.Value, error)) (jsontext.Value, error) {
	if object.Kind() != '{' {
		return nil, errors.New("it, or its member with the servers, is no object")
	}
	var names, values []jsontext.Value
	member := -1
	for n, value := range jsonrpc.Members(object) {
		if string(jsonrpc.Unquote(n)) == name {
			member = len(names)
		}
		names, values = append(names, n), append(values, value)
	}
	if member < 0 {
		member = len(names)
		names, values = append(names, jsontext.Value(quote(name))), append(values, nil)
	}
	changed, err := change(values[member])
	if err != nil {
		return nil, err
	}
	values[member] = changed
	merged := jsontext.Value("{")
	for i := range names {
		if i > 0 {
			merged = append(merged, ',')
		}
		merged = append(append(append(merged, names[i]...), ':'), values[i]...)
	}
	return append(merged, '}'), nil
}

// same reports whether two texts are the same JSON but for white space.
func same(a, b jsontext.Value) bool {
	a, b = a.Clone(), b.Clone()
	return a.Compact() == nil && b.Compact() == nil && bytes.Equal(a, b)
}

// replace writes a file as a whole, or leaves it as it is. A link stays one, and has to lead to a file; a device is none. A file that exists keeps its mode as far as most permits.
func replace(file string, text []byte, mode, most fs.FileMode) error {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	} else if _, missing := os.Lstat(file); missing == nil {
		return fmt.Errorf("%s is a link that leads to no file: %w", file, err)
	}
	if info, err := os.Stat(file); err == nil {
		if mode = info.Mode().Perm() & most; !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file", file)
		}
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), ".skill-bridge-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // it has another name then, unless something fails
	_, err = temporary.Write(text)
	if err = cmp.Or(err, temporary.Chmod(mode), temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), file)
}
