package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

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
			text := "{\nadmin off\npersist_config off\n}\nhttp://127.0.0.1:" + testbed.FreePort(t) + " {\nskill_bridge /rpc {\nallow_anonymous\n" +
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
