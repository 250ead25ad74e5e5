package skillbridge_test

import (
	"bytes"
	"encoding/json" // what Caddy's adapter writes with
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	skillbridge "github.com/skill-bridge/caddy-skill-bridge/module"
)

var update = flag.Bool("update", false, "write what the adapter answers into the golden files")

const separator = "----------\n"

// adapt turns a Caddyfile into indented JSON, or the text of an error.
func adapt(t *testing.T, caddyfile string) (text string, warnings []caddyconfig.Warning, ok bool) {
	t.Helper()
	adapter := caddyconfig.GetAdapter("caddyfile")
	config, warnings, err := adapter.Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err.Error(), warnings, false
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, config, "", "\t"); err != nil {
		t.Fatal(err)
	}
	return indented.String(), warnings, true
}

// TestAdapt adapts every golden Caddyfile. After the separator stands either the
// whole JSON config, or the whole text of the error. What adapts also has to be
// formatted, and to mean the same when it is read as JSON and written again.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob("../testdata/adapt/*.caddyfiletest")
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
			got, warnings, ok := adapt(t, caddyfile)
			got += "\n"
			if *update {
				if err := os.WriteFile(file, []byte(caddyfile+separator+got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if wantError := strings.HasPrefix(filepath.Base(file), "error_"); wantError == ok {
				t.Errorf("adapted: %t", ok)
			}
			if ok {
				for _, w := range warnings {
					t.Errorf("warning: %s", w)
				}
				checkRoundTrip(t, []byte(got))
			}
		})
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
		h := new(skillbridge.Handler)
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
