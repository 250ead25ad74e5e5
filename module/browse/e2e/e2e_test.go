package e2e_test

import (
	"encoding/base64"
	"encoding/json" // of what the provider was sent
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	_ "github.com/skill-bridge/caddy-skill-bridge/module"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// TestInBrowser gives a browser a real Caddy with real skills. What it does there,
// and what it has to find, is in browse.test.mjs.
func TestInBrowser(t *testing.T) {
	if os.Getenv("SKILL_BRIDGE_BROWSER_TESTS") == "" {
		t.Skip("set SKILL_BRIDGE_BROWSER_TESTS=1 to test the page in Chromium (needs node, npm and Chromium)")
	}
	p := hostile.NewProvider(t, skills()...)
	p.On("acme/everything", hostile.Invoke, sayInputs)
	p.On("acme/refuses", hostile.Invoke, hostile.Fail("CSV_ERROR", "The third line has no end."))
	p.On("acme/hostile", hostile.Invoke, hostile.Complete(hostile.Object{"html": hostileText, "big": json.Number("12345678901234567890")}))
	p.On("acme/slow", hostile.Invoke, hostile.Accept(0))
	p.On("acme/picture", hostile.Invoke, hostile.Complete(hostile.Object{
		"png": dot, "url": "data:image/png;base64," + dot, "svg": "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>")),
		"far": "https://example.com/dot.png", "text": "/9j/ is how a JPEG begins", "list": []string{"R0lGOD"},
	}))
	var released atomic.Bool
	p.Script("acme/slow", hostile.Status, func(int) hostile.Action {
		if released.Load() {
			return hostile.Usual()
		}
		return hostile.State("running")
	})
	// The browser decides when the slow run ends.
	control := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { released.Store(r.URL.Path == "/release") }))
	t.Cleanup(control.Close)
	other := hostile.NewProvider(t, hostile.Skill{ID: "weather", Edit: func(d hostile.Object) {
		d["name"], d["description"] = "Weather", "Tells tomorrow's weather for a place."
	}})
	keyed := hostile.NewProvider(t, hostile.Skill{ID: "opened", Auth: hostile.APIKey("X-Acme-Key")}, hostile.Skill{ID: "other", Auth: hostile.OAuth2("https://login.example.com/token")})
	many := hostile.NewProvider(t, manySkills()...)
	bridge := func(path string, lines ...string) string {
		return "skill_bridge " + path + " {\n\tbrowse\n\tpoll_interval 50ms 50ms\n\tallow_http\n\tallow_networks 127.0.0.0/8\n" + strings.Join(lines, "\n") + "\n}"
	}
	c := testbed.StartCaddy(t, testbed.Site(
		"@first path /rpc /mcp",
		bridge("@first", "rpc", "mcp",
			"provider "+p.URL()+" {", "namespace acme", "}",
			"provider "+other.URL()+" {", "namespace demo", "}",
			"provider http://"+hostile.Refused(t)+" {", "namespace gone", "}"),
		bridge("/many", "allow_anonymous",
			"provider "+many.URL()+" {", "namespace big", "}",
			"provider "+keyed.URL()+" {", "namespace keyed", "credentials api_key a-key", "}",
			"provider "+other.URL()+" {", "namespace tiny", "}"),
		bridge("/mine", "principal {http.request.header.X-User}", "provider "+other.URL()+" {", "namespace demo", "}"),
	))
	run(t, c.URL, control.URL)
}

// manySkills are more than a page names.
func manySkills() []hostile.Skill {
	skills := make([]hostile.Skill, 2100)
	for i := range skills {
		skills[i].ID = fmt.Sprintf("skill-%d", i)
	}
	return skills
}

// run installs what the script needs, and runs it.
func run(t *testing.T, page, control string) {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "browse.test.mjs"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shots := os.Getenv("SKILL_BRIDGE_SCREENSHOTS")
	if shots == "" {
		shots = filepath.Join(folder, "screenshots")
	}
	command(t, folder, nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	t.Log(command(t, folder, []string{"PAGE=" + page, "CONTROL=" + control, "CHROMIUM=" + browser(t), "SCREENSHOTS=" + shots},
		"node", "--test", "--test-reporter=spec", "browse.test.mjs"))
}

func command(t *testing.T, folder string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, output)
	}
	return string(output)
}

func browser(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("there is no Chromium: install it, or name it with CHROMIUM")
	return ""
}

// sayInputs completes a run whose output is what was sent, to the letter.
func sayInputs(x *hostile.Exchange) {
	var request struct {
		Inputs json.RawMessage `json:"inputs"`
	}
	_ = json.Unmarshal([]byte(x.Request.Body), &request) // the output would be empty
	x.JSON(http.StatusOK, x.Body("completed", hostile.Object{"output": hostile.Object{"inputs": string(request.Inputs)}}))
}

// dot is an image of one pixel.
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// hostileText is what a provider might write to do more than say something.
const hostileText = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'`{{.}}\u202egnp.exe"

func skills() []hostile.Skill {
	input := func(name, kind, description string, required bool, more hostile.Object) hostile.Object {
		in := hostile.Object{"name": name, "type": kind, "description": description, "required": required}
		maps.Copy(in, more)
		return in
	}
	with := func(description string, inputs ...hostile.Object) func(hostile.Object) {
		return func(d hostile.Object) { d["description"], d["inputs"] = description, inputs }
	}
	entry := func(description string) func(hostile.Object) {
		return func(e hostile.Object) { e["description"] = description }
	}
	everything := "Takes one input of each kind and says what it was sent."
	return []hostile.Skill{
		{ID: "acme/everything", EditEntry: entry(everything), Edit: func(d hostile.Object) {
			with(everything,
				input("text", "string", "Any text, also of several lines.", true, hostile.Object{"schema": hostile.Object{"minLength": 1}}),
				input("code", "string", "Three capital letters.", false, hostile.Object{"schema": hostile.Object{"type": "string", "pattern": "^[A-Z]{3}$", "maxLength": 3}}),
				input("count", "integer", "How many.", true, hostile.Object{"schema": hostile.Object{"type": "integer", "minimum": 1}}),
				input("ratio", "number", "How much of it.", false, hostile.Object{"default": 0.5}),
				input("endless", "string", "More than anybody can write.", false, hostile.Object{"schema": hostile.Object{"minLength": 3_000_000_000}}),
				input("loud", "boolean", "Whether it may be heard.", false, nil),
				input("colour", "string", "In which colour.", false, hostile.Object{"default": "green", "schema": hostile.Object{"enum": []string{"red", "green", "blue"}}}),
				input("tags", "array", "Words to remember it by.", false, nil),
				input("options", "object", "Anything else.", false, nil),
			)(d)
			d["output"] = hostile.Object{"content_type": "application/json", "description": "What was sent."}
			d["tags"] = []string{"test", "example"}
			d["documentation_url"] = "https://docs.example.com/everything"
			d["provider"] = hostile.Object{"name": "Acme Corporation", "url": "https://acme.example.com"}
		}},
		{ID: "acme/locked", Auth: hostile.APIKey("X-Acme-Key"), Access: "restricted", Edit: with("Needs a key that nobody has configured.")},
		{ID: "acme/picture", EditEntry: entry("Draws a dot."), Edit: with("Draws a dot.")},
		{ID: "acme/slow", EditEntry: entry("Takes its time."), Edit: with("Takes its time.")},
		{ID: "acme/refuses", EditEntry: entry("Always fails."), Edit: with("Always fails.")},
		{ID: "acme/hostile", EditEntry: entry(hostileText), Edit: func(d hostile.Object) {
			with(hostileText, input("<b>x</b>", "string", hostileText, false, hostile.Object{"default": hostileText}))(d)
			d["documentation_url"] = "javascript:alert(3)"
			d["auth"] = hostile.Object{"type": "none", "description": hostileText}
		}},
		{ID: "acme/broken", EditEntry: entry("Its descriptor is wrong."), Edit: func(d hostile.Object) { delete(d, "endpoint") }},
		{ID: "acme/" + strings.Repeat("z", 120), EditEntry: entry(strings.Repeat("w", 500)), Edit: with(strings.Repeat("w", 500))},
		{ID: "acme/future", EditEntry: entry("Speaks a protocol of tomorrow."), Edit: func(d hostile.Object) { d["protocol"] = hostile.Object{"version": "2.0.0"} }},
	}
}
