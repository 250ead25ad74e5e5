package command_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
)

// beginner runs commands in a folder of its own, which is its home, too.
func beginner(t *testing.T) (folder string, command func(args ...string) *exec.Cmd) {
	t.Helper()
	folder = t.TempDir()
	return folder, func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "caddy", append([]string{"skill-bridge"}, args...)...)
		cmd.Dir, cmd.Env = folder, append(os.Environ(), "HOME="+folder, "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder, "SKILLS_KEY=open sesame")
		return cmd
	}
}

func read(t *testing.T, name ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(name...))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// init writes a Caddyfile from flags, which check finds in order: without the secret, and with who may call.
func TestInit(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	for about, c := range map[string]struct {
		flags          []string
		file, says, no string // has parts, one per line
	}{
		"open":     {[]string{"--key", "none", "--callers", "anyone"}, "http://localhost:8080 {\nbind 127.0.0.1\nprotocols h1\nallow_anonymous\nallow_http\nallow_networks 127.0.0.1", "Written: Caddyfile\n1 of 1 skills can be called\nNext:  caddy run --config Caddyfile\nadd-client cursor --url http://localhost:8080/mcp", "credentials"},
		"variable": {[]string{"--key", "SKILLS_KEY", "--callers", "anyone", "--site", "localhost:9000"}, "http://localhost:9000 {\ncredentials api_key {env.SKILLS_KEY}", "--url http://localhost:9000/mcp", "sesame"},
		"keys":     {[]string{"--key", "none", "--callers", "keys", "--site", "agents.example.com"}, "\nagents.example.com {\ncallers_file /", "Keys of callers: /\nCaddy's user must be able to read it\nThe key of agent, which is shown only now:\n--url https://agents.example.com/mcp --bearer-env BRIDGE_KEY", "bind"},
		"IPv6":     {[]string{"--key", "none", "--callers", "anyone", "--site", "[::1]:8080"}, "http://[::1]:8080 {\nbind ::1", "--url http://[::1]:8080/mcp", "bind 127"},
		"no port":  {[]string{"--key", "none", "--callers", "anyone", "--site", "localhost"}, "http://localhost {\nbind 127.0.0.1", "--url http://localhost/mcp", "credentials"},
		"tokens":   {[]string{"--key", "none", "--callers", "https://login.invalid"}, "callers_jwt https://login.invalid {\naudience http://localhost:8080/mcp", "login.invalid", "allow_anonymous"},
	} {
		t.Run(about, func(t *testing.T) {
			folder, command := beginner(t)
			output, err := command(append([]string{"init", "--provider", p.URL()}, c.flags...)...).CombinedOutput()
			if failed := err != nil; failed != (about == "tokens") { // there is no such issuer
				t.Errorf("%v", err)
			}
			file := read(t, folder, "Caddyfile")
			for text, parts := range map[string]string{file: c.file, string(output): c.says} {
				for part := range strings.SplitSeq(parts, "\n") {
					if !strings.Contains(text, part) {
						t.Errorf("it lacks %q: %s", part, text)
					}
				}
				if strings.Contains(text, c.no) && about != "tokens" || strings.Contains(text, "sesame") {
					t.Errorf("it has %q: %s", c.no, text)
				}
			}
			if formatted, err := exec.CommandContext(t.Context(), "caddy", "fmt", filepath.Join(folder, "Caddyfile")).Output(); err != nil || string(formatted) != file {
				t.Errorf("fmt makes of it %s (%v)", formatted, err)
			}
			if about != "keys" {
				return
			}
			lines := read(t, folder, "callers")
			if out, err := command("init", "--provider", p.URL(), "--key", "none", "--callers", "keys", "--force").CombinedOutput(); err != nil || read(t, folder, "callers") != lines || !strings.HasPrefix(lines, "agent ") || strings.Contains(string(out), "The key of") || !strings.Contains(string(out), "stays as it is") {
				t.Errorf("again: %v: %s", err, out)
			}
			if info, err := os.Stat(filepath.Join(folder, "callers")); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
}

// What is wrong is refused, and nothing is written.
func TestInitRefuses(t *testing.T) {
	for _, c := range []struct{ flags, want string }{
		{"", "--provider is required, since there is no terminal to ask for it"},
		{"--provider https://a.example.com --key none", "--callers is required"},
		{"--provider a.example.com --key none --callers anyone", `--provider "a.example.com" is not an origin`},
		{"--provider https://a.example.com/x --key none --callers anyone", "is not an origin"},
		{"--provider https://a.example.com --key s3cr3t-key --callers anyone", "not the key itself"},
		{"--provider https://a.example.com --key AbCdEf0123456789AbCdEf0123456789 --callers anyone", "not the key itself"},
		{"--provider https://a.example.com --key AKIAIOSFODNN7EXAMPLE --callers anyone", "not the key itself"},
		{"--provider https://a.example.com --key JBSWY3DPEHPK3PXP --callers anyone", "not the key itself"},
		{"--provider https://a.example.com --key none --callers all", `--callers "all" is none of anyone, keys`},
		{"--provider https://a.example.com --key none --callers anyone --site agents.example.com", "--callers anyone is for a site on this machine"},
		{"--provider https://a.example.com --key none --callers keys --site a{b}", "is neither a host name"},
		{"--provider https://a.example.com --key none --callers keys --output there", "there exists: name another file with --output, or replace it with --force"},
	} {
		folder, command := beginner(t)
		if err := os.WriteFile(filepath.Join(folder, "there"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		output, err := command(append([]string{"init"}, strings.Fields(c.flags)...)...).CombinedOutput()
		if left, globErr := filepath.Glob(filepath.Join(folder, "*")); err == nil || !strings.Contains(string(output), c.want) || strings.Contains(string(output), "AbCdEf") || strings.Contains(string(output), "AKIA") || globErr != nil || len(left) != 1 || read(t, folder, "there") != "" {
			t.Errorf("%s: %v: %s; want %s; there is %q", c.flags, err, output, c.want, left)
		}
	}
}

// A file that can't be written is no wrong usage. Nothing is written then: the key of a caller, which nobody has seen, neither.
func TestInitCantWrite(t *testing.T) {
	for _, c := range []struct{ output, want string }{
		{"none/Caddyfile", "Error: none/Caddyfile is not written: "},
		{"link", "Error: link is not written: "},
		{"folder", "folder is not a regular file"},
	} {
		folder, command := beginner(t)
		if err := errors.Join(os.Mkdir(filepath.Join(folder, "folder"), 0o700), os.Symlink("none/Caddyfile", filepath.Join(folder, "link"))); err != nil {
			t.Fatal(err)
		}
		cmd := command("init", "--provider", "https://a.example.com", "--key", "none", "--callers", "keys", "--force", "--output", c.output)
		output, _ := cmd.CombinedOutput() // the exit status says it
		left, err := filepath.Glob(filepath.Join(folder, "*"))
		if status := cmd.ProcessState.ExitCode(); status != 5 || !strings.Contains(string(output), c.want) || !strings.Contains(string(output), "\nNext:  name another file with --output") || strings.Contains(string(output), "key of agent") || err != nil || len(left) != 2 {
			t.Errorf("%s: status %d: %s; there is %q, %v", c.output, status, output, left, err)
		}
	}
}

// Caddy does not know bridge.conf by its name, and a link stays one. Without the key, init says what to do.
func TestInitOutput(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	for _, c := range []struct {
		key, want string
		failed    bool
	}{
		{"SKILLS_KEY", "Next:  caddy run --config bridge.conf --adapter caddyfile", false},
		{"DEMO_KEY", "Next:  export DEMO_KEY=…, then caddy skill-bridge check --config bridge.conf --adapter caddyfile", true},
		{"/no/key", "Next:  write the API key to /no/key, then caddy skill-bridge check", true},
	} {
		folder, command := beginner(t)
		if err := os.Symlink("file", filepath.Join(folder, "bridge.conf")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		output, err := command("init", "--provider", p.URL(), "--key", c.key, "--callers", "anyone", "--output", "bridge.conf", "--force").CombinedOutput()
		if failed := err != nil; failed != c.failed || !strings.Contains(string(output), c.want) || strings.Contains(string(output), "Error: ") {
			t.Errorf("%s: %v: %s", c.key, err, output)
		}
		if file := read(t, folder, "file"); !strings.Contains(file, "check --config bridge.conf --adapter caddyfile") {
			t.Errorf("behind the link: %s", file)
		}
	}
}

// At a terminal, init asks for what no flag says, and again if the answer is wrong.
func TestInitAsks(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	folder, command := beginner(t)
	shown := atTerminal(t, command("init", "--site", "agents.example.com"), "skills.example.com: ", "example\n", "skills.example.com: ", p.URL()+"\n", "[none]: ", "\n", "[keys]: ", "anyone\n", "[keys]: ", "\n")
	if file := read(t, folder, "Caddyfile"); !strings.Contains(file, "callers_file "+folder+"/callers") || strings.Contains(file, "credentials") || !strings.Contains(shown, "1 of 1 skills can be called") {
		t.Errorf("%s\n%s", file, shown)
	}
	if output, err := command("init").CombinedOutput(); err == nil || !strings.Contains(string(output), "Caddyfile exists") { // before any question
		t.Errorf("with a Caddyfile: %v: %s", err, output)
	}
	folder, command = beginner(t)
	shown = atTerminal(t, command("init"), "skills.example.com: ", p.URL()+"\n", "[none]: ", "\x04") // Ctrl-D
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 || !strings.Contains(shown, "interrupted") {
		t.Errorf("after Ctrl-D there is %v, %v: %s", left, err, shown)
	}
}

// add-client writes the client's file in the folder of a project or of the user, and says what is in it and what to do.
func TestAddClientCommand(t *testing.T) {
	folder, command := beginner(t)
	for _, c := range []struct {
		args, file, want string
		status           int
	}{
		{"cursor", ".cursor/mcp.json", `Added to .cursor/mcp.json:|{"mcpServers": {"skills": {"url": "http://localhost:8080/mcp"}}}`, 0},
		{"cursor", ".cursor/mcp.json", "Already in .cursor", 0},
		{"cursor --url https://b.example.com/mcp", "", `it has another server "skills"`, 5},
		{"vscode --url https://b.example.com/mcp --bearer-env KEY", ".vscode/mcp.json", "Next:  VS Code asks for the token", 0},
		{"gemini --bearer-env KEY --name x", ".gemini/settings.json", "start Gemini CLI with the environment variable KEY", 0},
		{"windsurf", ".codeium/windsurf/mcp_config.json", `"serverUrl"`, 0},
		{"claude-desktop --bearer-env KEY", "", "write the token to the file, instead of <token>", 0},
		{"claude --file own.json", "own.json", `"type": "http"`, 0},
		{"emacs", "", `"emacs" is none of cursor, vscode, claude`, 1},
		{"cursor --url b.example.com/mcp", "", "--url needs the URL of an MCP endpoint", 1},
		{"cursor --bearer-env s3cr3tKey", "", "not the token itself", 1},
		{"cursor --url http://b.example.com/mcp", "", "does not use TLS: write https://, or add --allow-http", 1},
		{"claude-desktop --file lan.json --url http://b.example.com/mcp --allow-http --bearer-env KEY", "lan.json", `"--bearer-env", "KEY", "--allow-http"]`, 0},
		{"cursor --url https://b.example.com/mcp?token=secret", "", "a query, which would be written to the file", 1},
		{"cursor --url https://u:pw@b.example.com/mcp", "", "a token comes from --bearer-env", 1},
		{"cursor --file empty.json --name=", "", "--name has no value", 1},
		{"cursor --file empty.json --bearer-env=", "", "--bearer-env has no value", 1},
		{"vscode --file .vscode/mcp.json --url https://c.example.com/mcp --bearer-env KEY", "", `what it needs: {"inputs": [{"type": "promptString", "id": "KEY"`, 5},
	} {
		cmd := command(append([]string{"add-client"}, strings.Fields(c.args)...)...)
		output, _ := cmd.CombinedOutput() // the exit status says it
		for part := range strings.SplitSeq(c.want, "|") {
			if cmd.ProcessState.ExitCode() != c.status || !strings.Contains(string(output), part) {
				t.Errorf("%s: %d, %s; want %d, %s", c.args, cmd.ProcessState.ExitCode(), output, c.status, part)
			}
		}
		if c.file == "" {
			continue
		}
		if info, err := os.Stat(filepath.Join(folder, c.file)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", c.file, info, err)
		}
	}
}
