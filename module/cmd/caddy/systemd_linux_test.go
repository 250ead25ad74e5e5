package main_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// packagedUnit is the part of the unit in Caddy's packages (github.com/caddyserver/dist) that the drop-in changes.
const packagedUnit = `[Service]
Type=notify
ExecStart=/usr/bin/caddy run --environ --config /etc/caddy/Caddyfile
ExecReload=/usr/bin/caddy reload --config /etc/caddy/Caddyfile --force
TimeoutStopSec=5s
`

const (
	ownUnit    = "skill-bridge.service"
	caddysUnit = "caddy.service"
	dropIn     = "caddy.service.d/skill-bridge.conf"
)

// setting returns the last value of a setting in a file of the folder with units.
func setting(t *testing.T, file, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^`+name+`=(.*)$`).FindAllStringSubmatch(readFile(t, "caddyfile-examples/deploy/systemd/"+file), -1)
	if len(found) == 0 {
		t.Fatalf("%s has no %s", file, name)
	}
	return found[len(found)-1][1]
}

// TestManualsSystemd: both units start Caddy without --environ, look for faults before it gets a Caddyfile, wait longer than Caddy does with the Caddyfile of the manual, and pass the secret that
// this reads.
func TestManualsSystemd(t *testing.T) {
	var caddyfile string
	for _, block := range manuals.In(t, "caddyfile", manuals.Deployment) {
		if strings.Contains(block.Text, "/run/credentials/") {
			caddyfile = block.Text
		}
	}
	var waits time.Duration
	for _, option := range regexp.MustCompile(`\t(?:grace_period|shutdown_delay) (\w+)\n`).FindAllStringSubmatch(caddyfile, -1) {
		wait, err := caddy.ParseDuration(option[1])
		if err != nil {
			t.Fatal(err)
		}
		waits += wait
	}
	for option, folder := range map[string]string{"StateDirectory": "/var/lib/", "LogsDirectory": "/var/log/"} { // all else is read-only for this unit
		if folder += setting(t, ownUnit, option); !strings.Contains(readFile(t, "caddyfile-examples/deploy/systemd/"+ownUnit), folder) {
			t.Errorf("the comment of %s does not name %s", ownUnit, folder)
		}
	}
	for unit, file := range map[string]string{ownUnit: ownUnit, caddysUnit: dropIn} {
		if start := setting(t, file, "ExecStart"); !strings.Contains(start, "/caddy run --config /etc/") {
			t.Errorf("%s starts %q", file, start)
		}
		path := `(/usr/[a-z/]*bin/caddy) %s --config (/etc/[a-z-]+/Caddyfile)`
		for option, command := range map[string]string{"ExecStart": "run", "ExecStartPre": "validate", "ExecReload": "adapt"} {
			if !regexp.MustCompile(`(?m)^` + option + `=.*` + fmt.Sprintf(path, command)).MatchString(readFile(t, "caddyfile-examples/deploy/systemd/"+file)) {
				t.Errorf("%s has no %s with caddy %s", file, option, command)
			}
		}
		if stop, err := caddy.ParseDuration(setting(t, file, "TimeoutStopSec")); err != nil || waits == 0 || stop <= waits {
			t.Errorf("%s waits %s (%v), Caddy %s", file, stop, err, waits)
		}
		name, _, _ := strings.Cut(setting(t, file, "LoadCredential"), ":")
		secret := "{file./run/credentials/" + unit + "/" + name + "}"
		if text := readFile(t, "caddyfile-examples/deploy/systemd/"+file); !strings.Contains(text, secret) || unit == caddysUnit && !strings.Contains(caddyfile, secret) {
			t.Errorf("%s passes the credential %s; neither its comment nor the manual may read another one:\n%s", file, name, caddyfile)
		}
	}
}

// TestManualsSystemdAnalyze: systemd takes both units, and finds that of the bridge well protected.
func TestManualsSystemdAnalyze(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	folder := t.TempDir()
	texts := map[string]string{caddysUnit: packagedUnit}
	for _, file := range []string{ownUnit, dropIn} {
		texts[file] = readFile(t, "caddyfile-examples/deploy/systemd/"+file)
	}
	for name, text := range texts {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		text = regexp.MustCompile(`/usr/(local/)?bin/caddy`).ReplaceAllString(text, os.Args[0])
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), analyze, args...)
		command.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+folder+":")
		output, err := command.CombinedOutput()
		if err != nil {
			t.Errorf("systemd-analyze %q: %v: %s", args, err, output)
		}
		return string(output)
	}
	for line := range strings.Lines(run("verify", "--man=no", ownUnit, caddysUnit)) {
		if strings.Contains(line, ".service") || strings.Contains(line, ".conf") {
			t.Errorf("systemd-analyze says %s", line)
		}
	}
	// systemd before 250 can't judge files. The threshold is a tenth: 2.0, of which a service without any protection has 9.6.
	if help, err := exec.CommandContext(t.Context(), analyze, "--help").Output(); err == nil && strings.Contains(string(help), "--threshold") {
		run("security", "--offline=true", "--threshold=20", "--no-pager", filepath.Join(folder, ownUnit))
	}
}

// TestManualsSystemdReload: as systemd starts, reloads and stops it, Caddy says each time that it is ready, without an admin API.
func TestManualsSystemdReload(t *testing.T) {
	reload, found := strings.CutPrefix(setting(t, ownUnit, "ExecReload"), "/bin/kill -USR1 ")
	if !found || reload != "$MAINPID" || setting(t, dropIn, "ExecReload") != setting(t, ownUnit, "ExecReload") {
		t.Fatalf("the units reload otherwise than this test: %s", reload)
	}
	folder := t.TempDir()
	address := &net.UnixAddr{Name: filepath.Join(folder, "notify"), Net: "unixgram"}
	socket, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Skipf("no socket as systemd's: %v", err)
	}
	defer socket.Close()
	told := func(want string) {
		t.Helper()
		message := make([]byte, 4096)
		for {
			if err := socket.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
				t.Fatal(err)
			}
			n, err := socket.Read(message)
			if err != nil {
				t.Fatalf("waiting for %s: %v", want, err)
			}
			if strings.Contains(string(message[:n]), want) {
				return
			}
		}
	}
	secret, file, port := filepath.Join(folder, "key"), filepath.Join(folder, "Caddyfile"), testbed.FreePort(t)
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(secret, "first")
	write(file, "{\n\tadmin off\n\tpersist_config off\n\tgrace_period 2s\n}\nhttp://127.0.0.1:"+port+" {\n\trespond {file."+secret+"}\n}\n")
	t.Setenv("NOTIFY_SOCKET", address.Name)
	words := strings.Fields(setting(t, ownUnit, "ExecStart"))[1:]
	command, _ := startCaddy(t, append(words[:len(words)-1], file)...)
	told("READY=1")
	adapt := regexp.MustCompile(`(?m)^ExecReload=/bin/sh -c '(exec .*)'$`).FindStringSubmatch(readFile(t, "caddyfile-examples/deploy/systemd/"+ownUnit))
	if adapt == nil {
		t.Fatal("a reload does not look for faults first")
	}
	check := func(caddyfile string) string {
		line := strings.NewReplacer("/etc/skill-bridge/Caddyfile", caddyfile, "/usr/local/bin/caddy", os.Args[0]).Replace(adapt[1])
		shell := exec.CommandContext(t.Context(), "sh", "-c", line)
		shell.Env = append(os.Environ(), asCaddy+"=1")
		output, err := shell.CombinedOutput()
		return fmt.Sprintf("%v %s", err, output)
	}
	wrong := filepath.Join(folder, "wrong")
	write(wrong, "http://127.0.0.1:"+port+" {\n\tskill_bridge /rpc {\n\t\tallow_htp\n\t}\n}\n")
	if good, bad := check(file), check(wrong); !strings.HasPrefix(good, "<nil>") || strings.HasPrefix(bad, "<nil>") || !strings.Contains(bad, `unknown option \"allow_htp\"`) {
		t.Errorf("before a reload: %s, with a fault: %s", good, bad)
	}
	write(secret, "second")
	reloading := make(chan struct{})
	go func() { // Caddy ignores the signal until it has noted its file, which is after it says that it is ready
		for command.Process.Signal(syscall.SIGUSR1) == nil {
			select {
			case <-reloading:
				return
			case <-time.After(time.Second):
			}
		}
	}()
	told("RELOADING=1")
	close(reloading)
	told("READY=1")
	answer, err := http.Get("http://127.0.0.1:" + port) //nolint:noctx // the test has a deadline
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); string(text) != "second" || err != nil {
		t.Errorf("after the reload: %q, %v", text, err)
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	told("STOPPING=1")
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
}
