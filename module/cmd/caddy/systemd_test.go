package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
)

// packagedUnit is the part of the unit in Caddy's packages (github.com/caddyserver/dist) that the drop-in of the manual changes.
const packagedUnit = `[Service]
Type=notify
ExecStart=/usr/bin/caddy run --environ --config /etc/caddy/Caddyfile
ExecReload=/usr/bin/caddy reload --config /etc/caddy/Caddyfile --force
TimeoutStopSec=5s
`

// TestManualsSystemd: the drop-in starts Caddy without --environ, waits longer than the grace period of the Caddyfile beside it, and
// passes the secret that this reads; and systemd takes it.
func TestManualsSystemd(t *testing.T) {
	var dropIn string
	settings := make(map[string]string)
	for _, block := range manuals.In(t, "ini", manuals.Operation) {
		dropIn += block.Text
		for line := range strings.Lines(block.Text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
				settings[name] = value
			}
		}
	}
	if start := settings["ExecStart"]; !strings.Contains(dropIn, "\nExecStart=\nExecStart=/usr/bin/caddy run ") || strings.Contains(start, "--environ") {
		t.Errorf("the drop-in does not replace the command: %s", dropIn)
	}
	var caddyfile string
	for _, block := range manuals.In(t, "caddyfile", manuals.Operation) {
		if strings.Contains(block.Text, "/run/credentials/") {
			caddyfile = block.Text
		}
	}
	stop, err := caddy.ParseDuration(settings["TimeoutStopSec"])
	if err != nil || !strings.Contains(caddyfile, "\tgrace_period 30s\n") || stop <= 30*time.Second {
		t.Errorf("systemd waits %s (%v) for a Caddy with the Caddyfile\n%s", stop, err, caddyfile)
	}
	if name, _, _ := strings.Cut(settings["LoadCredential"], ":"); name == "" || !strings.Contains(caddyfile, "{file./run/credentials/caddy.service/"+name+"}") {
		t.Errorf("the credential %s is not the one of the Caddyfile\n%s", name, caddyfile)
	}

	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	folder := t.TempDir()
	for name, text := range map[string]string{"caddy.service": packagedUnit, "caddy.service.d/override.conf": dropIn} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "/usr/bin/caddy", os.Args[0])), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", "caddy.service")
	command.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+folder+":")
	output, err := command.CombinedOutput()
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, "caddy.service") || strings.Contains(line, "override.conf") {
			t.Errorf("systemd-analyze says %s", line)
		}
	}
	if err != nil {
		t.Errorf("systemd-analyze: %v: %s", err, output)
	}
}

// TestEnvironmentThatIsPrinted: caddy run --environ prints the secrets that the environment has, of which a line warns.
func TestEnvironmentThatIsPrinted(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a-secret-in-a-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SKILLS_API_KEY", "a-secret-in-the-environment")
	inEnvironment := map[string]string{
		"api_key": "api_key {env.SKILLS_API_KEY}",
		"prefix":  `headers {` + "\n" + `X-Key "Key {env.SKILLS_API_KEY}"` + "\n}",
		"oauth2":  "oauth2 {\nclient_id a\nclient_secret {env.SKILLS_API_KEY}\n}",
	}
	const warning = "Caddy was started with --environ"
	for name, c := range map[string]struct {
		credentials string
		flags       []string
		warns       bool
	}{
		"api_key":        {inEnvironment["api_key"], []string{"--environ"}, true},
		"a short flag":   {inEnvironment["api_key"], []string{"-e"}, true},
		"short flags":    {inEnvironment["api_key"], []string{"-re"}, true},
		"with a value":   {inEnvironment["api_key"], []string{"--environ=true"}, true},
		"not printed":    {inEnvironment["api_key"], []string{"--environ=false"}, false},
		"a part":         {inEnvironment["prefix"], []string{"--environ"}, true},
		"oauth2":         {inEnvironment["oauth2"], []string{"--environ"}, true},
		"no flag":        {inEnvironment["api_key"], nil, false},
		"a file":         {"api_key {file." + secret + "}", []string{"--environ"}, false},
		"another secret": {"oauth2 {\nclient_id {env.SKILLS_API_KEY}\nclient_secret {file." + secret + "}\n}", []string{"--environ"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "Caddyfile")
			text := "{\nadmin off\npersist_config off\n}\nhttp://127.0.0.1:" + freePort(t) + " {\nskill_bridge /rpc {\nallow_anonymous\n" +
				"provider https://skills.example.com {\ncredentials " + c.credentials + "\n}\n}\n}\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			command, log := startCaddy(t, append([]string{"run", "--config", file}, c.flags...)...)
			// Not stopCaddy: so soon after the start, Caddy may not handle SIGINT yet.
			if err := command.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = command.Wait()
			if strings.Contains(log, warning) != c.warns || strings.Contains(log, "a-secret-in") {
				t.Errorf("with %v, the log is\n%s", c.flags, log)
			}
		})
	}
}
