package agentskills

import (
	"encoding/json" // what programs read calls with
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"go.yaml.in/yaml/v3"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front/skillfile"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

const endpoint = "https://agents.example/rpc"

// frontMatter returns the front matter of a page, after it has checked the format.
func frontMatter(t *testing.T, page, file string) map[string]any {
	t.Helper()
	parts := strings.SplitN(page, "---\n", 3)
	if len(parts) != 3 || parts[0] != "" {
		t.Fatalf("no front matter: %q", page)
	}
	var m map[string]any
	if err := yaml.Unmarshal([]byte(parts[1]), &m); err != nil {
		t.Fatalf("%v: %q", err, parts[1])
	}
	length := func(value any) int {
		text, ok := value.(string)
		if !ok {
			t.Errorf("%v is no text: %q", value, parts[1])
		}
		return len(utf16.Encode([]rune(text)))
	}
	metadata, _ := m["metadata"].(map[string]any)
	if len(m) != 4 || len(metadata) != 3 || m["name"] != file || length(m["description"]) < 1 || length(m["description"]) > 1024 || length(m["compatibility"]) > 500 || strings.ContainsAny(parts[1], "<>") {
		t.Errorf("%q", parts[1])
	}
	for _, key := range []string{"version", "provider", "source"} {
		length(metadata[key])
	}
	if lines := strings.Count(page, "\n"); lines >= 500 || len(page) > maxPage || strings.ContainsFunc(page, func(r rune) bool { return r < ' ' && r != '\n' }) {
		t.Errorf("%d lines, %d bytes: %q", lines, len(page), page)
	}
	return m
}

func pageOf(t *testing.T, d *document.Descriptor, file string) string {
	t.Helper()
	c, err := newContent(&skill{file: file, name: "acme.sum", source: "acme", descriptor: d}, true)
	if err != nil {
		t.Fatal(err)
	}
	return c.at(endpoint)
}

var commandForm = regexp.MustCompile(`(?m)^curl -sS '([^'\n]*)' -H "Authorization: \$SKILL_BRIDGE_AUTHORIZATION" -H 'Content-Type: application/json' -d '([^'\n]*)'$`)

// A page has what an agent needs, and not much more.
func TestPage(t *testing.T) {
	d := &document.Descriptor{Name: "Sum", Description: "Adds numbers", Version: "1.2.0", Tags: []string{"math", "Math", ""}}
	d.Provider.Name = "Acme"
	d.Inputs = []document.Parameter{
		{Name: "a'b", Type: "number", Required: true, Description: "It's the first | second"}, {Name: "n", Type: "integer", Default: []byte("3"), Schema: []byte("true")},
	}
	d.Output.ContentType, d.Output.Description = "application/json", "The sum"
	page := pageOf(t, d, "acme-sum")
	if m := frontMatter(t, page, "acme-sum"); m["description"] != "Adds numbers. Use when a task is about: math." {
		t.Errorf("%v", m)
	}
	for _, want := range []string{
		"\n> Adds numbers\n", "\n| `a'b` | `number` | yes |  | It's the first \\| second |\n", "\n| `n` | `integer` | no | `3` |  (constrained",
		"`result.output`", "`application/json`", "\n> The sum\n", `"run_token":"RUN_TOKEN"`, "`follow_run`",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	commands := commandForm.FindAllStringSubmatch(page, -1)
	if len(commands) != 2 {
		t.Fatalf("%q\n%s", commands, page)
	}
	var call struct {
		Method string
		Params struct {
			Name string
			Args map[string]any
		}
	}
	if err := json.Unmarshal([]byte(commands[0][2]), &call); err != nil || call.Method != "execute_skill" || call.Params.Name != "acme.sum" || call.Params.Args["a'b"] == nil {
		t.Errorf("%v, %+v: %s", err, call, commands[0])
	}
}

// Pages are bounded, however much a descriptor has.
func TestPageIsBounded(t *testing.T) {
	long := strings.Repeat("😀 | <b>\\", 5000)
	d := &document.Descriptor{Name: long, Description: long, Version: long, Tags: slices.Repeat([]string{long, "x"}, 500)}
	d.Provider.Name, d.Output.ContentType, d.Output.Description = long, long, long
	for range 1000 {
		d.Inputs = append(d.Inputs, document.Parameter{Name: long, Type: "string", Required: true, Description: long, Default: []byte(`"` + strings.Repeat("x", 5000) + `"`)})
	}
	page := pageOf(t, d, "acme-sum")
	frontMatter(t, page, "acme-sum")
	if !strings.Contains(page, " more inputs do not fit here") {
		t.Errorf("%s", page)
	}
}

// FuzzPage: whatever texts a provider publishes, the front matter is valid YAML with the same keys, and each command is one line with JSON.
func FuzzPage(f *testing.F) {
	for _, text := range []string{
		"", "a\nname: evil", "---\nname: evil\n---", `"` + "\nx: y", `\`, "{{.}}", "\x00", "\u2028name: evil", "\ufeff", "\ufffe\uffff\U0001fffe\ufdd0", "\u0085x",
		"'; rm -rf /", "```\n# x", "😀", "<script>", "#", "- x", "\xff", "\u202e", "x: y # z", "é́",
	} {
		f.Add(text, `"it's"`)
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		text = strings.ToValidUTF8(text, "�") // as package document leaves it
		d := &document.Descriptor{Name: text, Description: text, Version: text, Tags: []string{text, text + "x"}}
		d.Provider.Name, d.Output.ContentType, d.Output.Description = text, text, text
		input := document.Parameter{Name: text, Type: text, Required: true, Description: text}
		if json.Valid([]byte(value)) {
			input.Default = []byte(strings.ToValidUTF8(value, "�"))
		}
		d.Inputs = []document.Parameter{input}
		page := pageOf(t, d, "acme-sum")
		frontMatter(t, page, "acme-sum")
		commands := commandForm.FindAllStringSubmatch(page, -1)
		if len(commands) != 2 || strings.Count(page, "\n```") != 4 || strings.Count(page, "\n#") != 6 {
			t.Fatalf("%q in %q", commands, page)
		}
		for _, c := range commands {
			if c[1] != endpoint || !json.Valid([]byte(c[2])) {
				t.Errorf("%q", c)
			}
		}
	})
}

func TestNames(t *testing.T) {
	tools := []string{
		"acme_sum", "Acme_Big-Sum", "demo_a-b", "demo_a_b", "demo_x", "demo_X", "__", "_", "demo__tail_", "123", "on", strings.Repeat("x", 64), strings.Repeat("y", 70), strings.Repeat("_x", 32),
	}
	all := newNames(tools)
	form := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, tool := range tools {
		name := all.of(tool)
		if !form.MatchString(name) || len(name) > 64 || seen[name] {
			t.Errorf("%s: %s", tool, name)
		}
		seen[name] = true
		frontMatter(t, pageOf(t, &document.Descriptor{}, name), name)
	}
	for tool, want := range map[string]string{"acme_sum": "acme-sum", "Acme_Big-Sum": "acme-big-sum", "demo__tail_": "demo-tail", "123": "123"} {
		if got := all.of(tool); got != want {
			t.Errorf("%s: %s", tool, got)
		}
	}
	if a, b := all.of("demo_a-b"), all.of("demo_a_b"); !strings.HasPrefix(a, "demo-a-b-") || !strings.HasPrefix(b, "demo-a-b-") {
		t.Errorf("%s, %s", a, b)
	}
}

// FuzzName: names have the form that installers accept.
func FuzzName(f *testing.F) {
	f.Add("acme_sum")
	f.Fuzz(func(t *testing.T, tool string) {
		form := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
		for _, name := range []string{names{}.of(tool), skillfile.HashedName(tool, skillfile.PlainName(tool))} {
			if !form.MatchString(name) || len(name) > 64 {
				t.Errorf("%q: %q", tool, name)
			}
		}
	})
}

func TestCheckURL(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://a.example/rpc": true, "http://127.0.0.1:8080/": true, "http://[::1]:80": true, "http://bridge_1/x-y/~z": true,
		"": false, "a.example": false, "https://a.example/?x": false, "https://u@a.example/": false, "https://a'b/": false, "https://a.example/$(x)": false,
		"ftp://a/": false, "https:///x": false, "https://a.example/\n": false, "https://" + strings.Repeat("a", 400): false,
	} {
		if err := CheckURL(url); (err == nil) != ok {
			t.Errorf("%q: %v", url, err)
		}
	}
}
