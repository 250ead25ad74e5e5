package command_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestSiteCommands: list, describe and call know the skills of a site.
func TestSiteCommands(t *testing.T) {
	page := "---\nname: pdf\ndescription: Reads PDF files.\n---\nRead it.\x1b[2J\n"
	sum := sha256.Sum256([]byte(page))
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := page
		if strings.HasPrefix(r.URL.Path, "/.well-known/") {
			w.Header().Set("Content-Type", "application/json")
			more := ""
			if r.URL.RawQuery == "wrong" {
				more = `{"name":"A","type":"skill-md","description":"D","url":"/a","digest":"x"},{"name":"b","type":"skill-md","description":"D","url":"/pdf.md","digest":"sha256:` + strings.Repeat("0", 64) + `"},`
			}
			text = fmt.Sprintf(`{"$schema":"https://schemas.agentskills.io/discovery/0.2.0/schema.json","skills":[%s{"name":"pdf","type":"skill-md","description":"D","url":"/pdf.md","digest":"sha256:%x"}]}`, more, sum)
		}
		_, _ = io.WriteString(w, text)
	}))
	defer site.Close()
	index := site.URL + "/.well-known/agent-skills/index.json"
	for _, c := range []struct {
		status int
		words  []string
		wants  []string
	}{
		{0, []string{"list", site.URL}, []string{"docs.pdf", "knowledge"}},
		{0, []string{"describe", site.URL, "docs.pdf"}, []string{"read, not called", "Files: SKILL.md", "Read it. [2J"}},
		{0, []string{"describe", "--json", site.URL, "docs.pdf"}, []string{`"files":["SKILL.md"]`, `Read it.`}},
		{5, []string{"call", site.URL, "docs.pdf"}, []string{"can't be executed", "describe"}},
		{1, []string{"list", "--api-key-env", "KEY", site.URL}, []string{"--private"}},
		{0, []string{"validate", index}, []string{"valid index of Agent Skills"}},
		{0, []string{"validate", "--json", index}, []string{`"descriptors":[{"id":"pdf","url":"` + site.URL + `/pdf.md","valid":true`}},
		{1, []string{"validate", index + "?wrong"}, []string{"/digest", "/skills/0/name"}},
	} {
		flags := []string{"skill-bridge", c.words[0], "--allow-http", "--allow-networks", "127.0.0.1"}
		if c.words[0] != "validate" {
			flags = append(flags, "--agent-skills", "--namespace", "docs")
		}
		command := exec.CommandContext(t.Context(), "caddy", append(flags, c.words[1:]...)...)
		command.Env = append(os.Environ(), "KEY=open sesame")
		out, _ := command.CombinedOutput()
		if got := command.ProcessState.ExitCode(); got != c.status {
			t.Errorf("%v: status %d: %s", c.words, got, out)
		}
		if strings.Contains(string(out), "\x1b") {
			t.Errorf("%v: the terminal gets a control character of the site: %q", c.words, out)
		}
		for _, want := range c.wants {
			if !strings.Contains(string(out), want) {
				t.Errorf("%v: %q is missing in %s", c.words, want, out)
			}
		}
	}
}

// TestCheckSite: check reads the index of a site and the file of each skill.
func TestCheckSite(t *testing.T) {
	page := "---\nname: pdf\ndescription: Reads PDF files.\n---\nRead it.\n"
	sum := sha256.Sum256([]byte(page))
	entry := func(name, kind, digest string) string {
		return fmt.Sprintf(`{"name":%q,"type":%q,"description":"D","url":"/pdf.md","digest":"sha256:%s"}`, name, kind, digest)
	}
	index := ""
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := page
		if strings.HasPrefix(r.URL.Path, "/.well-known/agent-skills/") {
			w.Header().Set("Content-Type", "application/json")
			text = index
		}
		_, _ = io.WriteString(w, text)
	}))
	defer site.Close()
	options := []string{"allow_http", "allow_networks 127.0.0.1", "agent_skills " + site.URL + " {\n\t\t\tnamespace docs\n\t\t}"}
	index = `{"$schema":"https://schemas.agentskills.io/discovery/0.2.0/schema.json","skills":[` + entry("pdf", "skill-md", hex.EncodeToString(sum[:])) + "]}"
	status, findings, written := check(t, []string{"--strict"}, options...)
	if status != 0 {
		t.Errorf("%d: %s", status, written)
	}
	expectFindings(t, findings, finding{Result: "ok", Source: "docs", What: "1 of 1 skills can be read"})

	index = strings.Replace(index, "]}", ","+entry("changed", "skill-md", strings.Repeat("0", 64))+","+entry("new", "plugin", strings.Repeat("0", 64))+"]}", 1)
	status, findings, _ = check(t, nil, options...)
	if status != 1 {
		t.Errorf("%d", status)
	}
	expectFindings(t, findings,
		finding{Result: "ok", Source: "docs", What: "1 of 2 skills can be read"},
		finding{Result: "failed", Source: "docs", Skill: "docs.changed", What: "digests differ", Fix: "operator of the site", Code: "VALIDATION_ERROR"},
		finding{Result: "warning", Source: "docs", Skill: "new", What: "/type", Fix: "operator of the site"},
	)

	index = `{"skills":[]}`
	_, findings, _ = check(t, nil, options...)
	expectFindings(t, findings, finding{Result: "failed", Source: "docs", What: "0.1.0", Fix: "check the URL of the site", Code: "VALIDATION_ERROR"})
}
