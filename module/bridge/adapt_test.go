package bridge_test

import (
	"bytes"
	"encoding/json" // what Caddy's adapter writes with
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/skill-bridge/caddy-skill-bridge/module/bridge"
)

var update = flag.Bool("update", false, "write what the adapter answers into the golden files")

const separator = "----------\n"

// unnamed is the member that the adapter adds to a bridge without a name.
var unnamed = regexp.MustCompile(`,"name":"skill_bridge[^"]*"`)

// adapt turns a Caddyfile into indented JSON. What adapts also has to be formatted, and to
// mean the same when it is read as JSON and written again.
func adapt(t *testing.T, caddyfile string) (string, error) {
	t.Helper()
	config, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return "", err
	}
	for _, w := range warnings {
		t.Errorf("warning: %s", w)
	}
	checkRoundTrip(t, config)
	var indented bytes.Buffer
	if err := json.Indent(&indented, config, "", "\t"); err != nil {
		t.Fatal(err)
	}
	return indented.String(), nil
}

// TestAdapt adapts every golden Caddyfile. After the separator stands the JSON config.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob("../../testdata/adapt/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".caddyfiletest"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			caddyfile, want, _ := strings.Cut(string(data), separator)
			got, err := adapt(t, caddyfile)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				write(t, file, caddyfile+separator+got+"\n")
			} else if got+"\n" != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestAdaptTables adapts every case of the tables: the lines of a skill_bridge block, or a
// whole Caddyfile if skill_bridge stands in it. The last line of a case is the handler that
// they configure, or the error.
func TestAdaptTables(t *testing.T) {
	const errorPrefix = "parsing caddyfile tokens for 'skill_bridge': "
	files, err := filepath.Glob("../../testdata/adapt/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	for _, file := range files {
		table, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range table.Files {
			t.Run(c.Name, func(t *testing.T) {
				text := strings.TrimSuffix(string(c.Data), "\n")
				last := strings.LastIndexByte(text, '\n') + 1
				lines, want := text[:last], text[last:]
				var got string
				if config, err := adapt(t, inBlock(lines)); err != nil {
					message, found := strings.CutPrefix(err.Error(), errorPrefix)
					if !found {
						t.Errorf("%q does not begin with %q", message, errorPrefix)
					}
					got = "error: " + message
				} else {
					got = canonical(t, handlersIn(t, []byte(config))[0])
					got = unnamed.ReplaceAllString(got, "") // the name of every bridge without one
				}
				table.Files[i].Data = []byte(lines + got + "\n")
				if !*update && got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			})
		}
		if *update {
			write(t, file, string(txtar.Format(table)))
		}
	}
}

// inBlock makes a Caddyfile of the lines of a skill_bridge block.
func inBlock(lines string) string {
	if strings.Contains(lines, "skill_bridge") {
		return lines
	}
	var b strings.Builder
	b.WriteString("example.com {\n\tskill_bridge {\n")
	for line := range strings.Lines(lines) {
		b.WriteString("\t\t" + line)
	}
	b.WriteString("\t}\n}\n")
	return b.String()
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// checkRoundTrip reads the handlers of a config as Caddy does and compares what
// they are written as.
func checkRoundTrip(t *testing.T, config []byte) {
	t.Helper()
	handlers := handlersIn(t, config)
	if len(handlers) == 0 {
		t.Fatal("the config has no skill_bridge")
	}
	for _, handler := range handlers {
		var want map[string]json.RawMessage
		if err := json.Unmarshal(handler, &want); err != nil {
			t.Fatal(err)
		}
		delete(want, "handler")
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		h := new(bridge.Handler)
		if err := caddy.StrictUnmarshalJSON(text, h); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := canonical(t, text), canonical(t, again); a != b {
			t.Errorf("read and written again:\n%s\nbefore:\n%s", b, a)
		}
	}
}

// handlersIn finds all skill_bridge handlers of a config, however nested.
func handlersIn(t *testing.T, config []byte) []json.RawMessage {
	t.Helper()
	var found []json.RawMessage
	var walk func(raw json.RawMessage)
	walk = func(raw json.RawMessage) {
		var object map[string]json.RawMessage
		var list []json.RawMessage
		switch {
		case json.Unmarshal(raw, &object) == nil:
			if string(object["handler"]) == `"skill_bridge"` {
				found = append(found, raw)
				return
			}
			for _, member := range object {
				walk(member)
			}
		case json.Unmarshal(raw, &list) == nil:
			for _, member := range list {
				walk(member)
			}
		}
	}
	walk(config)
	return found
}

func canonical(t *testing.T, text []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	sorted, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(sorted)
}
