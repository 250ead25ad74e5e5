package main_test

import (
	"encoding/json" // for Caddy's own types
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

const repository = "../../.."

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An example is a Caddyfile with replacements for the test.
type example struct {
	t         *testing.T
	text      string
	secrets   []string    // that no log may contain
	logs      []string    // log files of the Caddyfile, first the default log; empty: there are none
	logged    bool        // the only log file is the test's
	provider  string      // address of the quickstart's provider
	authority *hostile.CA // of client certificates; nil: there are none
	admin     string      // address of the admin API; empty: there is none
}

// open reads an example.
func open(t *testing.T, name string) *example {
	t.Helper()
	return newExample(t, readFile(t, "caddyfile-examples/"+name+".Caddyfile"))
}

// newExample returns a Caddyfile as an example. It sets environment variables, and replaces files of
// secrets and log files by temporary files.
func newExample(t *testing.T, text string) *example {
	t.Helper()
	e := &example{t: t, text: text}
	for _, found := range regexp.MustCompile(`\{env\.(\w+)\}`).FindAllStringSubmatch(e.text, -1) {
		t.Setenv(found[1], e.secret(found[1]))
	}
	for _, found := range regexp.MustCompile(`\{file\.([^}]+)\}`).FindAllStringSubmatch(e.text, -1) {
		if !strings.Contains(e.text, found[0]) {
			continue // a second time
		}
		file := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(file, []byte(e.secret(filepath.Base(found[1]))), 0o600); err != nil {
			t.Fatal(err)
		}
		e.replace("{file."+found[1]+"}", "{file."+file+"}")
	}
	for _, found := range regexp.MustCompile(`callers_file (\S+)`).FindAllStringSubmatch(e.text, -1) {
		file := filepath.Join(t.TempDir(), "callers")
		line, err := callers.Line("alice", e.secret("alice"))
		if err == nil {
			err = os.WriteFile(file, []byte(line), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		e.replace(found[0], "callers_file "+file)
	}
	for _, found := range regexp.MustCompile(`trust_pool file (\S+)`).FindAllStringSubmatch(e.text, -1) {
		e.authority = hostile.NewCA(t)
		e.replace(found[0], "trust_pool file "+e.authority.File())
	}
	for _, found := range regexp.MustCompile(`output file (\S+)`).FindAllStringSubmatch(e.text, -1) {
		log := filepath.Join(t.TempDir(), filepath.Base(found[1]))
		e.replace(found[0], "output file "+log)
		e.logs = append(e.logs, log)
	}
	return e
}

// secret returns the value of the environment variable or file of this name.
func (e *example) secret(name string) string {
	value := "value-of-" + name
	if strings.HasSuffix(strings.ToLower(name), "seal_key") {
		value = "00112233445566778899aabbccddeeff0123456789abcdeffedcba9876543210"
	}
	if !slices.Contains(e.secrets, value) {
		e.secrets = append(e.secrets, value)
	}
	return value
}

// replace replaces all occurrences. It fails the test if there is none.
func (e *example) replace(old, replacement string) {
	e.t.Helper()
	if !strings.Contains(e.text, old) {
		e.t.Fatalf("the Caddyfile has no %q:\n%s", old, e.text)
	}
	e.text = strings.ReplaceAll(e.text, old, replacement)
}

const opening = "skill_bridge /rpc {"

// openingOf returns how the block of the bridge begins: protocols with paths of their own need no matcher.
func openingOf(text string) string {
	if strings.Contains(text, opening) {
		return opening
	}
	return "skill_bridge {"
}

// option adds a line to the bridge's options.
func (e *example) option(line string) {
	e.t.Helper()
	begin := openingOf(e.text)
	before, _, _ := strings.Cut(e.text, begin)
	indent := before[strings.LastIndex(before, "\n")+1:]
	e.replace(begin, begin+"\n"+indent+"\t"+line)
}

// onLoopback lets the bridge call the providers of a test on loopback addresses without TLS.
func (e *example) onLoopback() {
	e.t.Helper()
	e.option("allow_http")
	e.option("allow_networks 127.0.0.1/32")
}

// adapt adapts a Caddyfile. It fails the test on warnings.
func adapt(t *testing.T, text string) *caddy.Config {
	t.Helper()
	adapted, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatalf("adapting: %v\n%s", err, text)
	}
	for _, w := range warnings {
		t.Errorf("warning: %s", w)
	}
	config := new(caddy.Config)
	if err := json.Unmarshal(adapted, config); err != nil {
		t.Fatal(err)
	}
	return config
}

// withStorage sets the storage folder of a configuration, which is that of the default database, too.
func withStorage(t *testing.T, config *caddy.Config, folder string) {
	t.Helper()
	t.Setenv("XDG_DATA_HOME", folder)
	config.StorageRaw = module(t, object{"module": "file_system", "root": folder})
}

func module(t *testing.T, settings object) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// start runs Caddy with the example on a free port until the test ends, and then checks that the log
// has no secret.
func (e *example) start() *bridge {
	e.t.Helper()
	port := testbed.FreePort(e.t)
	e.replace("localhost:8080", "localhost:"+port)
	e.text = strings.ReplaceAll(e.text, "127.0.0.1:8080", "127.0.0.1:"+port)
	text := e.config()
	b := &bridge{t: e.t, endpoint: "http://localhost:" + port + "/rpc", client: &http.Client{Transport: new(http.Transport)}, logs: e.logs}
	if err := caddy.Load(text, true); err != nil {
		e.t.Fatalf("starting Caddy: %v", err)
	}
	e.t.Cleanup(func() {
		b.client.CloseIdleConnections()
		if err := caddy.Stop(); err != nil {
			e.t.Errorf("stopping Caddy: %v", err)
		}
		for i := range e.logs {
			e.checkLog(b.loggedTo(i))
		}
	})
	return b
}

// config returns the example as JSON, with a storage and a log of its own.
func (e *example) config() []byte {
	e.t.Helper()
	config := adapt(e.t, e.text)
	config.Admin = &caddy.AdminConfig{Disabled: e.admin == "", Listen: e.admin, Config: &caddy.ConfigSettings{Persist: new(false)}}
	withStorage(e.t, config, e.t.TempDir())
	tls := object{}
	if config.AppsRaw["tls"] != nil {
		tls = decode[object](e.t, string(config.AppsRaw["tls"]))
	}
	tls["disable_storage_clean"] = true // cleaning writes outside of the storage
	config.AppsRaw["tls"] = module(e.t, tls)
	if len(e.logs) == 0 {
		e.logs, e.logged = []string{filepath.Join(e.t.TempDir(), "caddy.log")}, true
	}
	if e.logged {
		config.Logging = &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {BaseLog: caddy.BaseLog{
			WriterRaw: module(e.t, object{"output": "file", "filename": e.logs[0], "roll": false}),
			Level:     "DEBUG",
		}}}}
	}
	text, err := json.Marshal(config)
	if err != nil {
		e.t.Fatal(err)
	}
	return text
}

// checkLog checks that no line has a secret, except the line in which Caddy logs its configuration.
func (e *example) checkLog(log string) {
	e.t.Helper()
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"logger":"http.auto_https","msg":"adjusted config"`) {
			continue
		}
		for _, secret := range append(e.secrets, issuedToken, argument) {
			if strings.Contains(line, secret) {
				e.t.Errorf("the log shows %s: %s", secret, line)
			}
		}
	}
}
