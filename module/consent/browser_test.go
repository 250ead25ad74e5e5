package consent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
)

// TestInBrowser goes through the whole flow in headless Chromium, as people do: sign in at a real authorization server, consent, come back,
// disconnect. It needs node, npm and Chromium, and is skipped unless it is asked for (see package browse/e2e, whose variables it has):
//
//	SKILL_BRIDGE_BROWSER_TESTS=1 go test ./module/consent -run TestInBrowser
func TestInBrowser(t *testing.T) {
	if os.Getenv("SKILL_BRIDGE_BROWSER_TESTS") == "" {
		t.Skip("set SKILL_BRIDGE_BROWSER_TESTS=1 to test the pages in Chromium (needs node, npm and Chromium)")
	}
	s := newLogin(t)
	s.URL = strings.Replace(s.URL, "127.0.0.1", "localhost", 1) // of another site than the bridge
	p := hostile.NewProvider(t, s.skills(scopes)...)
	b := start(t, s, p, strings.Replace(site(t, source(p, "acme", s, "revocation_url "+s.URL+"/revoke")), "{http.request.header.X-User}", "{http.request.cookie.user}\n\tname agents.example.com", 1))
	chromium := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && chromium == "" {
			chromium = path
		}
	}
	folder := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "consent.test.mjs"} {
		text, err := os.ReadFile(filepath.Join("e2e", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	shots := os.Getenv("SKILL_BRIDGE_SCREENSHOTS")
	if shots == "" {
		shots = filepath.Join(folder, "screenshots")
	}
	for _, command := range [][]string{{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"}, {"node", "--test", "--test-reporter=spec", "consent.test.mjs"}} {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir, cmd.Env = folder, append(os.Environ(), "BRIDGE="+b.base, "LOGIN="+b.login.URL, "CHROMIUM="+chromium, "SCREENSHOTS="+shots)
		output, err := cmd.CombinedOutput()
		if t.Logf("%s", output); err != nil {
			t.Fatal(err)
		}
	}
	if b.login.revoked.Load() == 0 {
		t.Error("Disconnect has revoked nothing")
	}
}
