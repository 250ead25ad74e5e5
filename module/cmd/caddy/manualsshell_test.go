package main_test

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// aShell runs lines of the manuals' shell blocks with the quickstart.
type aShell struct {
	t        *testing.T
	folder   string // working directory, with the files of the commands
	provider string // address of the demo provider
	bridge   string // URL of the bridge
	run      string // the id of a run of the demo provider
}

// runners run the lines with these prefixes.
var runners = []struct {
	prefix string
	run    func(*aShell, string)
}{
	{"./caddy run ", (*aShell).runQuickstart},
	{"caddy skill-bridge --provider ", (*aShell).serve},
	{"ACME_KEY=... caddy skill-bridge --provider ", (*aShell).serve},
	{"caddy skill-bridge init --provider ", (*aShell).begin},
	{"caddy skill-bridge publish --openapi openapi.yaml --to ", (*aShell).publish},
	{"caddy skill-bridge validate https://", (*aShell).validate},
	{"BRIDGE_TOKEN=... caddy skill-bridge call ", (*aShell).ask},
	{"BRIDGE_LOGIN=alice:... caddy skill-bridge list ", (*aShell).ask},
	{"caddy skill-bridge ", (*aShell).ask},
}

// An excuse is a line that is not run, with the reason, and a check of the reason.
type excuse struct {
	line, reason string
	holds        func(*testing.T, string) bool
}

// excused are the lines that are not run.
var excused = []excuse{
	{"go test ./...", "it would run this test; continuous integration reads it here and runs it", func(t *testing.T, _ string) bool {
		t.Helper()
		ci := readFile(t, ".ci/run")
		return strings.Contains(ci, `test_command=$(sed -n 's/^\(go test `) && strings.Contains(ci, "\nSKILL_BRIDGE_TESTS=long GOFLAGS='-timeout=30m -p=3' tests \"$test_command\"\n")
	}},
	{"go build -v -o caddy ./module/cmd/caddy", "this test is a binary of that package, which runs Caddy in its place", func(t *testing.T, line string) bool {
		t.Helper()
		info, err := os.Stat(filepath.Join(repository, strings.TrimPrefix(line, "go build -v -o caddy "), "main.go"))
		return err == nil && info.Mode().IsRegular()
	}},
	{"go tool xcaddy build ", "it takes minutes; continuous integration builds the same from xcaddy.json", sameAsPinned},
	{"go run ./module/cmd/build -o caddy", "it takes minutes; continuous integration runs it with another output", func(t *testing.T, line string) bool {
		t.Helper()
		return strings.Contains(readFile(t, ".ci/run"), strings.TrimSuffix(line, "caddy")+`"$out/caddy"`)
	}},
	{"npx skills add ", "it installs files; TestInstaller runs it, where there is npm", func(t *testing.T, _ string) bool {
		t.Helper()
		return strings.Contains(readFile(t, "module/testkit/clients/installer_test.go"), `npx("add", origin`)
	}},
	{"SKILL_BRIDGE_BROWSER_TESTS=1 go test ./module/", "it needs a browser; continuous integration runs it where there is one", func(t *testing.T, line string) bool {
		t.Helper()
		return strings.Contains(readFile(t, ".ci/run"), strings.Replace(line, "go test ", "go test -count=1 ", 1)+"\n")
	}},
}

// sameAsPinned reports whether an xcaddy command has the versions of xcaddy.json, which continuous
// integration builds.
func sameAsPinned(t *testing.T, line string) bool {
	t.Helper()
	type pins struct {
		Caddy   string `json:"caddy_version"`
		Plugins []struct {
			Path string `json:"module_path"`
		} `json:"plugins"`
		Replacements []struct {
			Old string `json:"old"`
			New string `json:"new"`
		} `json:"replacements"`
	}
	var p pins
	if err := json.Unmarshal([]byte(readFile(t, "xcaddy.json")), &p); err != nil {
		t.Fatal(err)
	}
	words := []string{"go", "tool", "xcaddy", "build", p.Caddy}
	for _, plugin := range p.Plugins {
		words = append(words, "--with", plugin.Path)
	}
	for _, r := range p.Replacements {
		words = append(words, "--replace", r.Old+"="+r.New)
	}
	return line == strings.Join(words, " ") && strings.Contains(readFile(t, ".ci/run"), "go run ./module/cmd/build -o ")
}

// runner returns the function that runs a line; nil: there is none.
func runner(line string) func(*aShell, string) {
	for _, r := range runners {
		if strings.HasPrefix(line, r.prefix) {
			return r.run
		}
	}
	return nil
}

// TestManualsShell runs the lines of the manuals' shell blocks, except the excused ones.
func TestManualsShell(t *testing.T) {
	shell := newShell(t)
	missing := make(map[string]bool)
	for _, e := range excused {
		missing[e.line] = true
	}
	for _, line := range shellLines(t) {
		t.Run(line, func(t *testing.T) {
			at := slices.IndexFunc(excused, func(e excuse) bool { return strings.HasPrefix(line, e.line) })
			run := runner(line)
			switch {
			case at >= 0:
				delete(missing, excused[at].line)
				if !excused[at].holds(t, line) {
					t.Errorf("it is excused, but the reason does not hold: %s", excused[at].reason)
				}
			case run == nil:
				t.Error("nobody runs it: let a runner do so, or excuse it with the reason")
			default:
				own := *shell
				own.t = t
				run(&own, line)
			}
		})
	}
	for line := range missing {
		t.Errorf("no manual has a line that starts with %s, which is excused", line)
	}
}

func TestNobodyRuns(t *testing.T) {
	for _, line := range []string{"caddy run", "go run -C module/cmd/bench .", "make", "curl -s http://localhost:8080/rpc"} {
		if runner(line) != nil {
			t.Errorf("%s is taken for a line that a test runs", line)
		}
	}
}

// TestManualsBlocks: each code block of the manuals has a language that a test reads, or is listed
// here.
func TestManualsBlocks(t *testing.T) {
	for _, file := range manuals.All {
		fences := regexp.MustCompile("(?m)^ *(```|~~~)").FindAllString(manuals.Read(t, file), -1)
		if blocks := manuals.Blocks(t, file); len(fences) != 2*len(blocks) {
			t.Errorf("%s has %d fences, of which the tests find %d", file, len(fences), 2*len(blocks))
		}
	}
	// A picture, and other blocks that tests read: listings of options, folders, a template of the page,
	// and configuration of Prometheus. The answer of approve is an example: a test in package command compares the form.
	readElsewhere := []string{
		manuals.Configuration + " skill_bridge", manuals.Credentials + " credentials", manuals.Contributing + " module/",
		manuals.README + " Without", manuals.Publishing + " skill_publish", manuals.Monitoring + " #", manuals.CommandLine + " acme.weather",
		"module/consent/README.md https://agents.example.com/connect/<namespace>/callback",
	}
	for _, block := range manuals.Blocks(t) {
		switch block.Language {
		case "sh", "console", "caddyfile":
		case "ini":
			if block.File != manuals.Operation { // TestManualsSystemd reads it
				t.Errorf("no test reads the block in %s of %s", block.Language, block.File)
			}
		case "json":
			// TestReceiverInManual, TestSiteIndexInManual and TestAnswersInManual read them, and TestClientConfigurations in package command
			if !slices.Contains([]string{manuals.Methods, manuals.AgentSkills, manuals.Providers, manuals.README, manuals.CommandLine, manuals.MCP}, block.File) {
				t.Errorf("no test reads the block in %s of %s", block.Language, block.File)
			}
		default:
			if first := strings.Fields(block.Text)[0]; !slices.Contains(readElsewhere, block.File+" "+first) {
				t.Errorf("no test reads the block in %q of %s that starts with %s", block.Language, block.File, first)
			}
		}
	}
}

func newShell(t *testing.T) *aShell {
	t.Helper()
	e := open(t, "quickstart")
	b := startQuickstart(e)
	t.Setenv("ACME_KEY", os.Getenv("DEMO_API_KEY"))
	t.Setenv("BRIDGE_TOKEN", "any")
	t.Setenv("BRIDGE_LOGIN", "alice:any")
	shell := &aShell{t: t, folder: t.TempDir(), provider: e.provider, bridge: b.endpoint}
	descriptor := b.send(http.MethodGet, "http://"+e.provider+"/skill-sharing/demo/summarize.json", "")
	for name, text := range map[string]string{
		"descriptor.json": descriptor.body,
		"arguments.json":  `{"text":"A long text. It has two sentences.","sentences":1}`,
		"openapi.yaml": `{"openapi":"3.1.0","info":{"title":"Pets","version":"1.0.0"},"paths":{"/pets":{"get":{"operationId":"listPets","responses":{"200":{"description":"All.",` +
			`"content":{"application/json":{}}}}},"delete":{"operationId":"deletePets","responses":{"204":{"description":"Gone."}}}}}}`,
	} {
		if err := os.WriteFile(filepath.Join(shell.folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	accepting := shell.output("caddy skill-bridge call https://skills.example.com demo.summarize text=x")
	found := regexp.MustCompile(`accepted (\S+)`).FindStringSubmatch(accepting)
	if found == nil {
		t.Fatalf("no run was accepted: %s", accepting)
	}
	shell.run = found[1]
	return shell
}

// The URLs of the provider and of the bridge in the lines.
const (
	namedProvider = "https://skills.example.com"
	namedBridge   = "https://bridge.example.com/rpc"
)

var namedRun = regexp.MustCompile(`exec-[a-z2-7]{26}`)

// command returns the command of a line, with the demo provider and a run of it in place of the
// names in the line.
func (s *aShell) command(line string, further ...string) *exec.Cmd {
	s.t.Helper()
	words, err := shellWords(namedRun.ReplaceAllString(line, s.run))
	if err != nil {
		s.t.Fatal(err)
	}
	if strings.HasSuffix(words[0], "...") { // the variable is set already
		words = words[1:]
	}
	if i := slices.Index(words, namedBridge); i >= 0 {
		words[i] = s.bridge
	}
	if i := slices.Index(words, namedProvider); i >= 0 {
		words[i] = "http://" + s.provider
		further = append(further, "--allow-http", "--allow-networks", "127.0.0.1")
	}
	command := asCaddyCommand(s.t, append(words[1:], further...)...)
	command.Dir = s.folder
	return command
}

// validate validates the documents of the demo provider.
func (s *aShell) validate(line string) {
	s.t.Helper()
	if text := s.output(line); text != "valid index\n5 of 5 descriptors valid\n" {
		s.t.Errorf("%s: %s", line, text)
	}
}

// ask runs a command that exits by itself.
func (s *aShell) ask(line string) { s.output(line) }

// output runs a command and returns its output. The command has to succeed.
func (s *aShell) output(line string) string {
	s.t.Helper()
	text, err := s.command(line).CombinedOutput()
	if err != nil {
		s.t.Errorf("%s: %v\n%s", line, err, text)
	}
	return string(text)
}

// serve runs a bridge, reads its address from its output, lists its skills, and stops it.
func (s *aShell) serve(line string) {
	s.t.Helper()
	address := "localhost:" + testbed.UnusedPort(s.t)
	line = regexp.MustCompile(` --listen \S+`).ReplaceAllString(line, "")
	command := s.command(line, "--listen", address)
	stdout, err := command.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	endpoint, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || endpoint != "http://"+address+"/rpc\n" {
		s.t.Errorf("it prints %q (%v)", endpoint, err)
	}
	s.lists(address, "127.0.0.1.demo.markdown")
	stopCaddy(s.t, command)
}

// publish publishes an API, reads its address from its output, and stops it.
func (s *aShell) publish(line string) {
	s.t.Helper()
	address := "localhost:" + testbed.UnusedPort(s.t)
	command := s.command(line, "--listen", address)
	stdout, err := command.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	index, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || index != "http://"+address+"/.well-known/skill-sharing\n" {
		s.t.Errorf("it prints %q (%v)", index, err)
	}
	stopCaddy(s.t, command)
}

// begin writes a Caddyfile for the demo provider, which the command checks.
func (s *aShell) begin(line string) {
	s.t.Helper()
	if text := s.output(strings.Replace(line, namedProvider, "http://"+s.provider, 1)); !strings.Contains(text, "\nNext:  caddy run --config Caddyfile") {
		s.t.Errorf("%s: %s", line, text)
	}
}

// lists checks that a bridge lists a skill.
func (s *aShell) lists(address, name string) {
	s.t.Helper()
	if names := bridgeAt(s.t, address).names("{}"); !slices.Contains(names, name) {
		s.t.Errorf("it has the skills %v, without %s", names, name)
	}
}

// bridgeAt returns a bridge in another process.
func bridgeAt(t *testing.T, address string) *bridge {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // so that no idle connection delays its stop
	return &bridge{t: t, endpoint: "http://" + address + "/rpc", client: client}
}

func stopCaddy(t *testing.T, command *exec.Cmd) {
	t.Helper()
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

// runCaddyfile starts Caddy in a process with a Caddyfile of this name, and waits until it listens.
// stopCaddy stops it. The file is the last argument.
func runCaddyfile(e *example, name string) *exec.Cmd {
	e.t.Helper()
	file := filepath.Join(e.t.TempDir(), name)
	if err := os.WriteFile(file, []byte(e.text), 0o600); err != nil {
		e.t.Fatal(err)
	}
	command, _ := startCaddy(e.t, "run", "--config", file)
	return command
}

// startCaddy starts Caddy in a process, waits until it listens, and returns what it has logged until then. stopCaddy stops it.
func startCaddy(t *testing.T, args ...string) (command *exec.Cmd, logged string) {
	t.Helper()
	command = asCaddyCommand(t, args...)
	stderr, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	log := bufio.NewReader(stderr)
	var lines strings.Builder
	for !strings.Contains(lines.String(), "serving initial configuration") {
		line, err := log.ReadString('\n')
		if lines.WriteString(line); err != nil {
			t.Fatalf("it does not start: %v\n%s", err, &lines)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, log) }() // so that writing the log never blocks
	return command, lines.String()
}

// quickstartElsewhere returns the quickstart on other ports, and the address of the bridge.
func quickstartElsewhere(t *testing.T, file string) (e *example, endpoint string) {
	t.Helper()
	e = &example{t: t, text: readFile(t, file)}
	port := testbed.FreePort(t)
	e.replace("localhost:8080", "localhost:"+port)
	e.replace("127.0.0.1:8080", "127.0.0.1:"+port)
	e.replace(quickstartProvider, "127.0.0.1:"+testbed.FreePort(t))
	e.admin = "localhost:" + testbed.FreePort(t)
	e.replace(quickstartAdmin, e.admin)
	return e, "localhost:" + port
}

// TestQuickstartStops: a call in progress completes after Ctrl-C, since the demo provider, in the same process, answers until its run has ended.
func TestQuickstartStops(t *testing.T) {
	e, endpoint := quickstartElsewhere(t, "caddyfile-examples/quickstart.Caddyfile")
	e.replace("\t\tclient demo-client", "\t\trun_time 1s\n\t\tclient demo-client")
	command := runCaddyfile(e, "Caddyfile")
	b := bridgeAt(t, endpoint)
	answered := make(chan string, 1)
	go func() {
		const call = `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"demo.summarize","args":{"text":"One. Two.","sentences":1}}}`
		response, err := b.client.Post(b.endpoint, "application/json", strings.NewReader(call))
		if err != nil {
			answered <- err.Error()
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		answered <- string(body) + errorText(err)
	}()
	for !strings.Contains(b.send(http.MethodGet, "http://"+e.admin+"/skill_bridge/calls", "").body, `"execution_id":"`) {
		select {
		case early := <-answered:
			t.Fatalf("it is answered before the stop: %s", early)
		default:
		}
	}
	stopCaddy(t, command)
	if answer := <-answered; !strings.Contains(answer, `"status":"completed"`) {
		t.Errorf("it is answered %s", answer)
	}
}

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// runQuickstart runs Caddy with the file of a line, on other ports.
func (s *aShell) runQuickstart(line string) {
	s.t.Helper()
	_, file, found := strings.Cut(line, "--config ")
	if !found {
		s.t.Fatal("it names no file")
	}
	e, endpoint := quickstartElsewhere(s.t, file)
	command := runCaddyfile(e, filepath.Base(file))
	s.lists(endpoint, "demo.markdown")
	copied := command.Args[len(command.Args)-1]
	if status := s.output("caddy skill-bridge status --config " + copied); !strings.Contains(status, "\ndemo ") {
		s.t.Errorf("its status is %s", status)
	}
	stopCaddy(s.t, command)
}
