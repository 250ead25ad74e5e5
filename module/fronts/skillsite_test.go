package fronts_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// skillSite is a site that publishes skills in the Agent Skills format.
type skillSite struct {
	*httptest.Server

	mu    sync.Mutex
	files map[string]string // by path
	index []string          // entries
	seen  map[string]int    // requests by path
	fails int               // the status of all answers; 0: the usual one
}

func newSkillSite(t *testing.T) *skillSite {
	t.Helper()
	s := &skillSite{files: map[string]string{}, seen: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *skillSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[r.URL.Path]++
	text, ok := s.files[r.URL.Path]
	switch {
	case s.fails != 0:
		w.WriteHeader(s.fails)
	case r.URL.Path == skillIndex:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"$schema":"https://schemas.agentskills.io/discovery/0.2.0/schema.json","skills":[%s]}`, strings.Join(s.index, ","))
	case strings.HasPrefix(r.URL.Path, "/old/"):
		http.Redirect(w, r, "/new/"+strings.TrimPrefix(r.URL.Path, "/old/"), http.StatusMovedPermanently)
	case !ok:
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, text)
	}
}

// publish adds an entry to the index; the file is at the path, unless that is empty.
func (s *skillSite) publish(name, kind, url, path, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256([]byte(text))
	s.index = append(s.index, fmt.Sprintf(`{"name":%q,"type":%q,"description":"Handles %s.","url":%q,"digest":"sha256:%s"}`, name, kind, name, url, hex.EncodeToString(sum[:])))
	if path != "" {
		s.files[path] = text
	}
}

func skillPage(name, body string) string {
	return "---\nname: " + name + "\ndescription: Handles " + name + ".\n---\n" + body
}

func archiveOf(t *testing.T, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	packed := gzip.NewWriter(&b)
	w := tar.NewWriter(packed)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if w.Close() != nil || packed.Close() != nil {
		t.Fatal("the archive can't be written")
	}
	return b.String()
}

// publishedSite is a site with one skill of each kind.
func publishedSite(t *testing.T) *skillSite {
	t.Helper()
	s := newSkillSite(t)
	s.publish("pdf", "skill-md", "pdf/SKILL.md", "/.well-known/agent-skills/pdf/SKILL.md", skillPage("pdf", "# PDF\nRead it.\n"))
	s.publish("deck", "archive", "/deck.tar.gz", "/deck.tar.gz", archiveOf(t, "SKILL.md", skillPage("deck", "# Deck\nSee scripts/make.py.\n"), "scripts/make.py", "print(1)\n", "logo.bin", "\xff\x00"))
	s.publish("moved", "skill-md", "/old/moved.md", "/new/moved.md", skillPage("moved", "moved\n"))
	s.publish("changed", "skill-md", "/changed.md", "", skillPage("changed", "as listed\n"))
	s.files["/changed.md"] = skillPage("changed", "something else\n")
	s.publish("evil", "archive", "/evil.tar.gz", "/evil.tar.gz", archiveOf(t, "SKILL.md", skillPage("evil", ""), "../../etc/passwd", "x"))
	s.publish("gone", "skill-md", "/gone.md", "", "x")
	s.publish("other", "skill-md", "/other.md", "/other.md", skillPage("another", "x"))
	s.publish("plugin", "plugin", "/plugin", "/plugin", "x")
	return s
}

func siteBridge(s *skillSite, lines ...string) string {
	return testbed.Site("skill_bridge {\nallow_http\nallow_networks 127.0.0.0/8\nagent_skills " + s.URL + " {\nnamespace docs\n}\n" + strings.Join(lines, "\n") + "\n}")
}

// at returns the member of a JSON text at a path of names and numbers.
func memberAt(t *testing.T, text []byte, path ...any) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, p := range path {
		switch p := p.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[p]
		case int:
			list, _ := value.([]any)
			if p >= len(list) {
				return nil
			}
			value = list[p]
		}
	}
	return value
}

func rpc(c *testbed.Caddy, path, method, params string) []byte {
	return c.Send(http.MethodPost, base(c)+path, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`).Body
}

// The skills of a site are listed as knowledge, described with their files, and read after the digest was checked; calls say what to do instead.
func TestSkillSite(t *testing.T) {
	s := publishedSite(t)
	c := testbed.StartCaddy(t, siteBridge(s, "rpc", "mcp", "a2a"))
	list := rpc(c, "/rpc", "list_skills", `{"detail":"summary"}`)
	skills, _ := memberAt(t, list, "result", "skills").([]any)
	if len(skills) != 7 || memberAt(t, list, "result", "skills", 0, "name") != "docs.changed" || memberAt(t, list, "result", "skills", 0, "capability_type") != "knowledge" {
		t.Fatalf("%s", list)
	}
	if lines := c.Log.Lines("entries of a site's index", "plugin", "/type"); len(lines) != 1 {
		t.Errorf("%q", c.Log.Text())
	}
	deck := rpc(c, "/rpc", "describe_skill", `{"name":"docs.deck"}`)
	if got := fmt.Sprint(memberAt(t, deck, "result", "skill", "manifest", "files")); got != "[SKILL.md logo.bin scripts/make.py]" {
		t.Errorf("%s", deck)
	}
	for _, read := range []struct{ name, path, want string }{
		{"docs.pdf", "SKILL.md", skillPage("pdf", "# PDF\nRead it.\n")},
		{"docs_pdf", "SKILL.md", skillPage("pdf", "# PDF\nRead it.\n")},
		{"docs.deck", "scripts/make.py", "print(1)\n"},
		{"docs.moved", "SKILL.md", skillPage("moved", "moved\n")},
	} {
		a := rpc(c, "/rpc", "read_skill_file", fmt.Sprintf(`{"name":%q,"path":%q}`, read.name, read.path))
		if memberAt(t, a, "result", "content") != read.want {
			t.Errorf("%v: %s", read, a)
		}
	}
	a := rpc(c, "/rpc", "read_skill_file", `{"name":"docs.deck","path":"logo.bin"}`)
	if memberAt(t, a, "result", "content") != base64.StdEncoding.EncodeToString([]byte("\xff\x00")) || memberAt(t, a, "result", "encoding") != "base64" {
		t.Errorf("%s", a)
	}
	a = rpc(c, "/rpc", "read_skill_file", `{"name":"docs.deck","path":"../x"}`)
	if memberAt(t, a, "error", "code") != -32602.0 || fmt.Sprint(memberAt(t, a, "error", "data", "candidates")) != "[SKILL.md logo.bin scripts/make.py]" {
		t.Errorf("%s", a)
	}
	for name, message := range map[string]string{"changed": "digests differ", "evil": "..", "other": "another"} {
		a := rpc(c, "/rpc", "read_skill_file", `{"name":"docs.`+name+`","path":"SKILL.md"}`)
		if text, _ := memberAt(t, a, "error", "message").(string); memberAt(t, a, "error", "code") != -32055.0 || !strings.Contains(text, message) {
			t.Errorf("%s: %s", name, a)
		}
	}
	if a := rpc(c, "/rpc", "read_skill_file", `{"name":"docs.gone","path":"SKILL.md"}`); memberAt(t, a, "error", "data", "next") != "other_skill" {
		t.Errorf("%s", a)
	}
	states := map[any]any{}
	list = rpc(c, "/rpc", "list_skills", `{}`)
	for i := range skills {
		states[memberAt(t, list, "result", "skills", i, "name")] = memberAt(t, list, "result", "skills", i, "state")
	}
	if states["docs.pdf"] != "readable" || states["docs.changed"] != "invalid" || states["docs.evil"] != "invalid" {
		t.Errorf("%v", states)
	}
	for _, more := range []string{"", `,"arguments":{}`, `,"idempotency_key":"0b7e1a52-33c8-4b3e-9a52-1f4f2c8d9e10"`} {
		a := rpc(c, "/rpc", "execute_skill", `{"name":"docs_pdf","args":{"x":1}`+more+`}`)
		if memberAt(t, a, "error", "code") != -32602.0 || memberAt(t, a, "error", "data", "reason") != "not_executable" || memberAt(t, a, "error", "data", "executed") != "no" ||
			memberAt(t, a, "error", "data", "next") != "fix_params" || !strings.Contains(string(a), `"method":"read_skill_file","params":{"name":"docs.pdf","path":"SKILL.md"}`) || strings.Count(string(a), `"hint"`) != 1 {
			t.Errorf("%s", a)
		}
	}
	if tools := rpc(c, "/rpc", "list_skills", `{"detail":"tools"}`); fmt.Sprint(memberAt(t, tools, "result", "tools")) != "[]" {
		t.Errorf("%s", tools)
	}
	for _, path := range []string{"/a2a/docs.pdf", "/a2a/docs.pdf/.well-known/agent-card.json"} {
		if a := c.Send(http.MethodGet, base(c)+path, ""); a.Status != http.StatusNotFound { // a task of it would never complete
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen["/.well-known/agent-skills/pdf/SKILL.md"] != 1 || s.seen["/plugin"] != 0 || s.seen[skillIndex] != 1 {
		t.Errorf("%v", s.seen)
	}
}

// TestSkillSiteInTrouble: what was read stays until the site says that it is gone.
func TestSkillSiteInTrouble(t *testing.T) {
	s := publishedSite(t)
	c := testbed.StartCaddy(t, siteBridge(s, "rpc", "cache {\nttl 1ms\nnegative_ttl 0\n}"))
	for _, answer := range []struct {
		status int
		kept   bool
	}{{0, true}, {http.StatusNoContent, true}, {http.StatusBadRequest, true}, {http.StatusUnavailableForLegalReasons, true}, {http.StatusServiceUnavailable, true}, {http.StatusGone, false}} {
		s.mu.Lock()
		s.fails = answer.status
		s.mu.Unlock()
		a := rpc(c, "/rpc", "read_skill_file", `{"name":"docs.pdf","path":"SKILL.md"}`)
		if kept := memberAt(t, a, "result", "content") != nil; kept != answer.kept {
			t.Errorf("%d: %s", answer.status, a)
		}
	}
}

// MCP has the files as resources and the skills as prompts, but no tools.
func TestSkillSiteMCP(t *testing.T) {
	c := testbed.StartCaddy(t, siteBridge(publishedSite(t), "mcp"))
	mcp := c.With(testbed.Header("Accept", "application/json, text/event-stream"), testbed.Header("MCP-Protocol-Version", "2025-11-25"))
	call := func(method, params string) []byte {
		return mcp.Send(http.MethodPost, base(c)+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`).Body
	}
	if a := call("tools/list", "{}"); strings.Contains(string(a), "docs") || memberAt(t, a, "result", "tools") == nil {
		t.Errorf("%s", a)
	}
	if a := call("resources/list", "{}"); !strings.Contains(string(a), `"skill://docs.deck/SKILL.md"`) {
		t.Errorf("%s", a)
	}
	for uri, want := range map[string]string{
		"skill://docs.deck/SKILL.md": "See scripts", "skill://docs.deck/scripts/make.py": "print(1)", "skill://docs.deck/scripts%2Fmake.py": "print(1)", "skill://docs.deck/logo.bin": `"blob":"/wA="`,
		"skill://docs.deck/descriptor.json": "Resource not found", "skill://docs.deck/scripts/": "Resource not found", "skill://docs.deck/../docs.pdf/SKILL.md": "Resource not found", "skill://docs.changed/SKILL.md": "digests differ",
	} {
		if a := call("resources/read", `{"uri":"`+uri+`"}`); !strings.Contains(string(a), want) {
			t.Errorf("%s: %s", uri, a)
		}
	}
	var folders []any
	list := call("skills/list", "{}")
	entries, _ := memberAt(t, list, "result", "skills").([]any)
	for i := range entries {
		folders = append(folders, memberAt(t, list, "result", "skills", i, "uri"))
	}
	deck := memberAt(t, call("skills/get", `{"uri":"skill://docs/deck/SKILL.md"}`), "result", "skill")
	if fmt.Sprint(folders) != "[skill://docs/deck/SKILL.md skill://docs/moved/SKILL.md skill://docs/pdf/SKILL.md]" || fmt.Sprint(deck) != fmt.Sprint(entries[0]) {
		t.Errorf("%s", list)
	}
	for i, file := range []struct{ path, text string }{{"SKILL.md", skillPage("deck", "# Deck\nSee scripts/make.py.\n")}, {"logo.bin", "\xff\x00"}, {"scripts/make.py", "print(1)\n"}} {
		uri, sum := "skill://docs/deck/"+file.path, sha256.Sum256([]byte(file.text))
		of := fmt.Sprintf("map[digest:sha256:%x size:%d uri:%s]", sum, len(file.text), uri)
		content := memberAt(t, call("resources/read", `{"uri":"`+uri+`"}`), "result", "contents", 0)
		if fmt.Sprint(memberAt(t, list, "result", "skills", 0, "resources", i)) != of || !strings.Contains(fmt.Sprint(content), file.text) && !strings.Contains(fmt.Sprint(content), "blob:/wA=") {
			t.Errorf("%s: %v", uri, content)
		}
	}
	for _, name := range []string{"changed", "evil", "other", "none", "deck/scripts"} {
		if a := call("skills/get", `{"uri":"skill://docs/`+name+`/SKILL.md"}`); memberAt(t, a, "error", "code") == nil {
			t.Errorf("%s: %s", name, a)
		}
	}
	if a := call("prompts/list", "{}"); !strings.Contains(string(a), `"docs_pdf"`) {
		t.Errorf("%s", a)
	}
	if a := call("prompts/get", `{"name":"docs_pdf"}`); !strings.Contains(fmt.Sprint(memberAt(t, a, "result", "messages", 0)), "# PDF\nRead it.") {
		t.Errorf("%s", a)
	}
	if a := call("tools/call", `{"name":"docs_pdf","arguments":{}}`); memberAt(t, a, "result", "isError") != true || !strings.Contains(string(a), "skill://docs.pdf/SKILL.md") || strings.Contains(string(a), "call the tool again") {
		t.Errorf("%s", a)
	}
}

// A skill whose front matter could not be compared with JSON, or grows when it is read, or with more files than clients have to take, is no Agent Skill of MCP.
// It can be read as before, and the others are listed.
func TestSkillSiteMCPLeavesOut(t *testing.T) {
	s := newSkillSite(t)
	bomb := "---\nname: bomb\ndescription: x\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n---\nx\n"
	s.publish("bomb", "skill-md", "/bomb.md", "/bomb.md", bomb)
	s.publish("colon", "skill-md", "/colon.md", "/colon.md", "---\nname: colon\ndescription: Use when: asked.\n---\nx\n")
	files := []string{"SKILL.md", skillPage("many", "x\n")}
	for i := range 512 {
		files = append(files, fmt.Sprintf("f/%d.txt", i), "x")
	}
	s.publish("many", "archive", "/many.tar.gz", "/many.tar.gz", archiveOf(t, files...))
	s.publish("few", "archive", "/few.tar.gz", "/few.tar.gz", archiveOf(t, append([]string{"SKILL.md", "---\nname: few\ndescription: x\nlicense: MIT\nallowed-tools: [a, b]\n---\nx\n"}, files[2:len(files)-2]...)...))
	c := testbed.StartCaddy(t, siteBridge(s, "mcp"))
	list := rpc(c, "/mcp", "skills/list", "{}")
	skills, _ := memberAt(t, list, "result", "skills").([]any)
	resources, _ := memberAt(t, list, "result", "skills", 0, "resources").([]any)
	if len(skills) != 1 || len(resources) != 512 || fmt.Sprint(memberAt(t, list, "result", "skills", 0, "frontmatter")) != "map[allowed-tools:[a b] description:x license:MIT name:few]" {
		t.Errorf("%.2000s", list)
	}
	for _, name := range []string{"bomb", "colon", "many"} {
		uri := `{"uri":"skill://docs/` + name + `/SKILL.md"}`
		if a := rpc(c, "/mcp", "skills/get", uri); memberAt(t, a, "error", "code") != -32602.0 {
			t.Errorf("%s", a)
		}
		if a := rpc(c, "/mcp", "resources/read", uri); memberAt(t, a, "result", "contents", 0, "text") == nil {
			t.Errorf("%s", a)
		}
	}
}

// A bridge serves the skills of a site, and is the site of a second bridge.
func TestSkillSiteServed(t *testing.T) {
	first := testbed.StartCaddy(t, siteBridge(publishedSite(t), "rpc", "agent_skills")+
		"http://127.0.0.1:{$PORT_SECOND} {\nskill_bridge {\nname second\nallow_http\nallow_networks 127.0.0.0/8\nagent_skills http://127.0.0.1:{$PORT} {\nnamespace far\nalias paper docs-pdf\n}\nrpc\nbrowse\n}\n}\n")
	entries := readIndex(t, first.Client, base(first))
	if len(entries) != 3 || entries[0].Name != "docs-deck" || entries[2].Name != "docs-pdf" || entries[2].Description != "Handles pdf." {
		t.Fatalf("%+v", entries)
	}
	pdf := string(first.Send(http.MethodGet, base(first)+entries[2].path(), "").Body)
	if !strings.HasSuffix(pdf, "---\n# PDF\nRead it.\n\n") && !strings.HasSuffix(pdf, "---\n# PDF\nRead it.\n") {
		t.Errorf("%s", pdf)
	}
	deck := string(first.Send(http.MethodGet, base(first)+entries[0].path(), "").Body)
	if !strings.Contains(deck, "See scripts/make.py.") || !strings.Contains(deck, "`scripts/make.py`") || !strings.Contains(deck, `"method":"read_skill_file","params":{"name":"docs.deck","path":"PATH"}`) {
		t.Errorf("%s", deck)
	}
	second := "http://127.0.0.1:" + first.Port("PORT_SECOND")
	for _, name := range []string{"paper", "far.docs-pdf"} {
		a := first.Send(http.MethodPost, second+"/rpc", `{"jsonrpc":"2.0","id":1,"method":"read_skill_file","params":{"name":"`+name+`","path":"SKILL.md"}}`).Body
		if memberAt(t, a, "result", "content") != pdf || memberAt(t, a, "result", "name") != "paper" {
			t.Errorf("%s: %s", name, a)
		}
	}
	a := first.With(testbed.Header("Accept", "text/html")).Send(http.MethodGet, second+"/rpc", "")
	if !strings.Contains(string(a.Body), "paper") || !strings.Contains(string(a.Body), "far.docs-deck") {
		t.Errorf("%.3000s", a.Body)
	}
	for name, has := range map[string]string{"paper": "Read it.", "far.docs-deck": "See scripts/make.py."} {
		a := first.With(testbed.Header("Accept", "text/html")).Send(http.MethodGet, second+"/rpc?skill="+name, "")
		page := string(a.Body)
		if !strings.Contains(page, has) || !strings.Contains(page, "read_skill_file") || strings.Contains(page, "execute_skill&#34;,&#34;params") || strings.Contains(page, `<form class="try"`) {
			t.Errorf("%s: %.9000s", name, page)
		}
	}
}
