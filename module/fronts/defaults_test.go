package fronts

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp"
)

// effective is what the options of mounts come to, as far as they have defaults.
type effective struct {
	rpc, a2a, card string
	options        a2a.Options
	mcp            string
	tools          mcp.Options
}

// effectiveOf reads lines of a Caddyfile.
func effectiveOf(t *testing.T, lines string) effective {
	t.Helper()
	m := new(Mounts)
	r := options.NewReader(caddyfile.NewTestDispenser("mounts {\n" + lines + "\n}"))
	if err := r.Block("mounts", "", r.Of(m, nil)); err != nil {
		t.Fatalf("%s: %v", lines, err)
	}
	c := new(options.Checker)
	m.Check(c)
	if c.Fault != nil {
		t.Fatalf("%s: %v", lines, c.Fault)
	}
	rpc, a := cmp.Or(m.RPC, new(RPC)), cmp.Or(m.A2A, new(A2A))
	tools := cmp.Or(m.MCP, new(MCP))
	return effective{
		rpc.path(), a.path(), cmp.Or(a.Card, cardCombined), a.options(m.Patience(), new(ledger.Bounds)), tools.path(), tools.options(m.Patience(), nil),
	}
}

// TestDocumentedDefaults: the defaults in the manual's list of options are those of the code. Each is written into a Caddyfile,
// which must change nothing; another value must.
func TestDocumentedDefaults(t *testing.T) {
	// Another value of each option with a default.
	another := map[string]string{
		"rpc": "/other", "a2a": "/other", "a2a versions": "1.0", "a2a card": "1.0", "wait": "1s", "a2a cancel": "abandon",
		"mcp": "/other", "mcp name": "other", "mcp versions": "2025-11-25", "mcp task_after": "1s", "mcp validate": "off",
		"mcp catalog": "search",
	}
	words := map[string]string{"a2a versions": "1.0 0.3 0.1", "mcp versions": strings.Join(mcp.AllVersions(), " ")}
	others := []string{"a2a url", "a2a name", "mcp instructions", "mcp origins", "mcp authorization_server", "mcp scopes"} // of the cards, by the sources, or none
	phrase := regexp.MustCompile(`\bdefault:? ([^;,()]+)`)
	standard := effectiveOf(t, "")
	block := ""
	for line := range strings.Lines(manuals.Listing(t, manuals.Configuration, "skill_bridge")) {
		option, comment, _ := strings.Cut(strings.TrimSpace(line), "#")
		fields := strings.Fields(option)
		if len(fields) == 0 {
			continue
		}
		opens := fields[len(fields)-1] == "{"
		path := strings.TrimSpace(block + " " + fields[0])
		switch {
		case fields[0] == "}":
			block = ""
			continue
		case opens:
			block, path = fields[0], fields[0]
		}
		found := phrase.FindStringSubmatch(comment)
		_, known := another[path]
		if found == nil || slices.Contains(others, path) || !known && block != "a2a" && block != "mcp" {
			continue
		}
		write := func(value string) string {
			line := fields[0] + " " + value
			if fields[0] == "wait" {
				return line + "\nmcp" // without it, nothing waits
			}
			switch block {
			case "", fields[0]:
				return line
			case "a2a", "mcp":
				return block + " {\n" + line + "\n}"
			}
			return "a2a {\n" + block + " {\n" + line + "\n}\n}"
		}
		value := cmp.Or(words[path], strings.TrimSpace(found[1]))
		if !reflect.DeepEqual(effectiveOf(t, write(value)), standard) {
			t.Errorf("%s: the manual says that the default is %q, but the code's is another", path, value)
		}
		if !known {
			t.Errorf("%s: this test knows no other value than the default", path)
		} else if reflect.DeepEqual(effectiveOf(t, write(another[path])), standard) {
			t.Errorf("%s: %q makes no difference, so that the test does not see what it is", path, another[path])
		}
		delete(another, path)
	}
	if len(another) > 0 {
		t.Errorf("the manual does not state the defaults of %v", another)
	}
}
