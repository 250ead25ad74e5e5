package main_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
)

// shellLines returns the lines of the shell blocks of some manuals, or of all without files.
func shellLines(t *testing.T, files ...string) []string {
	t.Helper()
	var lines []string
	for _, block := range manuals.In(t, "sh", files...) {
		lines = append(lines, strings.Split(strings.TrimSpace(block.Text), "\n")...)
	}
	return lines
}

func TestREADMENamesTheTestCommand(t *testing.T) {
	if !slices.Contains(shellLines(t, manuals.README), "go test ./...") {
		t.Error("the manual has no line: go test ./...")
	}
}

// These parts of an answer differ each time.
var (
	runID    = regexp.MustCompile(`"(run_id|executionId)":"[\w-]{26,}"`)
	taskID   = regexp.MustCompile(`"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"`)
	status   = regexp.MustCompile(`"timestamp":"[^"]*"`)
	runToken = regexp.MustCompile(`"taskId":"[\w-]{100,}"`)
	varying  = regexp.MustCompile(`"(createdAt|lastUpdatedAt)":"[^"]*"|"pollIntervalMs":\d+|"serverInfo":\{[^}]*\}`)
	elapsed  = regexp.MustCompile(` completed in (\d+ ms|\d+\.\d s)\.`)
)

// omitted stands for parts of an answer that are not printed.
const omitted = " … "

// sameAnswer compares answers without run ids and times, and without what is omitted. A run of less than a millisecond has no
// time in its answer.
func sameAnswer(got, printed string) bool {
	if elapsed.MatchString(printed) && !elapsed.MatchString(got) {
		return false
	}
	got = normalized(got)
	parts := strings.Split(normalized(printed), omitted)
	last := len(parts) - 1
	for i, part := range parts {
		before, after, found := strings.Cut(got, part)
		if !found || i == 0 && before != "" {
			return false
		}
		if got = after; i == last {
			return got == "" || last > 0 && strings.HasSuffix(got, part)
		}
	}
	return false
}

// cutCommand returns the command of an exchange, which ends with the first line in which no quote is open, and the answer.
func cutCommand(exchange string) (command, answer string) {
	for line := range strings.Lines(exchange) {
		if command += line; strings.Count(command, "'")%2 == 0 {
			break
		}
	}
	return strings.TrimSuffix(command, "\n"), exchange[len(command):]
}

func normalized(answer string) string {
	answer = runID.ReplaceAllString(answer, `"$1":"…"`)
	answer = status.ReplaceAllString(taskID.ReplaceAllString(answer, `"…"`), `"timestamp":"…"`)
	answer = varying.ReplaceAllString(runToken.ReplaceAllString(answer, `"taskId":"…"`), `"…":"…"`)
	return elapsed.ReplaceAllString(answer, " completed.")
}

// TestManualsCommands sends the requests of the manuals and compares the answers with the printed
// ones; once with --json, once with the options of an older curl.
func TestManualsCommands(t *testing.T) {
	longtest.Need(t, longtest.Long)
	e := open(t, "quickstart")
	e.replace("\t\tmcp\n", "\t\tmcp {\n\t\t\ttask_after 0s\n\t\t}\n") // since its runs are shorter here
	b := startQuickstart(e)
	const older = `-H 'Content-Type: application/json' -d`
	if !strings.Contains(readFile(t, "README.md"), "`"+older+"`") {
		t.Errorf("README.md does not say how to do without --json: %s", older)
	}
	file := filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(file, []byte(e.text), 0o600); err != nil {
		t.Fatal(err)
	}
	commands := 0
	ids := map[string]string{} // of tasks: the printed ones, and those in the answers
	for _, block := range manuals.In(t, "console") {
		for _, option := range []string{"--json", older} { // the commands of a block follow one another
			for exchange := range strings.SplitSeq("\n"+block.Text, "\n$ ") {
				if exchange == "" {
					continue
				}
				commands++
				command, want := cutCommand(exchange)
				if strings.HasPrefix(command, "caddy ") {
					if option == older {
						continue
					}
					here := strings.NewReplacer(quickstartProvider, e.provider, quickstartAdmin, e.admin, "caddyfile-examples/quickstart.Caddyfile", file).Replace(command)
					if got := runCaddy(t, here); comparableOutput(got) != comparableOutput(want) {
						t.Errorf("%s\ngot  %s\nwant %s", command, got, want)
					}
					continue
				}
				checkExchange(t, b, strings.Replace(command, "--json", option, 1), want, ids)
			}
		}
	}
	if commands < 6 {
		t.Errorf("the manuals have only %d commands", commands)
	}
}

// checkExchange sends the request of a command and compares the answer with the printed one. ids are of tasks: the printed ones, and those in the
// answers.
func checkExchange(t *testing.T, b *bridge, command, want string, ids map[string]string) {
	t.Helper()
	c, err := parseCurl(command)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	path, ok := strings.CutPrefix(c.url, "http://localhost:8080")
	if !ok || path != "/rpc" && path != "/mcp" && path != "/a2a" && !strings.HasPrefix(path, "/a2a/") {
		t.Fatalf("%s: not the address of the quickstart", command)
	}
	for printed, made := range ids {
		c.body = strings.ReplaceAll(c.body, printed, made)
		for i := range c.header {
			c.header[i] = strings.ReplaceAll(c.header[i], printed, made)
		}
	}
	url := strings.TrimSuffix(b.endpoint, "/rpc") + path
	if c.endless {
		if got, want := b.firstEvent(url, c.body, c.header...), strings.TrimSpace(want); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", command, got, want)
		}
		return
	}
	got := b.send(http.MethodPost, url, c.body, c.header...)
	for strings.Contains(want, `"status":"completed"`) && strings.Contains(got.body, `"status":"working"`) { // the manual was not so fast
		got = b.send(http.MethodPost, url, c.body, c.header...)
	}
	for _, id := range []*regexp.Regexp{taskID, runToken} {
		if printed, made := id.FindString(want), id.FindString(got.body); printed != "" && made != "" {
			ids[strings.Trim(strings.TrimPrefix(printed, `"taskId":`), `"`)] = strings.Trim(strings.TrimPrefix(made, `"taskId":`), `"`)
		}
	}
	if want := strings.TrimSuffix(want, "\n"); !sameAnswer(strings.TrimRight(got.body, "\n"), strings.TrimRight(want, "\n")) {
		t.Errorf("%s\ngot  %s\nwant %s", command, got.body, want)
	}
}

// asCaddy is the environment variable that makes the test binary run Caddy.
const asCaddy = "SKILL_BRIDGE_TEST_AS_CADDY"

func TestMain(m *testing.M) {
	if os.Getenv(asCaddy) != "" {
		caddycmd.Main()
		return
	}
	os.Exit(m.Run())
}

// runCaddy runs a command line of caddy, and returns its output.
func runCaddy(t *testing.T, command string) string {
	t.Helper()
	words, err := shellWords(command)
	if err != nil {
		t.Fatal(err)
	}
	text, err := asCaddyCommand(t, words[1:]...).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v", command, err)
	}
	return string(text)
}

// asCaddyCommand returns a command that runs Caddy in the test binary.
func asCaddyCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	caddy := exec.CommandContext(t.Context(), os.Args[0], args...)
	caddy.Env = append(os.Environ(), asCaddy+"=1", "XDG_DATA_HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir())
	return caddy
}

var (
	accepted  = regexp.MustCompile(`accepted [\w-]{26,}`)
	completed = regexp.MustCompile(`completed in (\d+ ms|\d+\.\d s)`)
	inMemory  = regexp.MustCompile(`in memory: \d+ \([^)]*\)`) // each message is sent in two variants
	kept      = regexp.MustCompile(`Runs that are kept: \d+`)  // also of what the demo takes long for
)

// comparableOutput returns the output of a command without the parts that differ each time.
func comparableOutput(text string) string {
	text = kept.ReplaceAllString(text, "Runs that are kept")
	text = inMemory.ReplaceAllString(accepted.ReplaceAllString(text, "accepted …"), "in memory")
	return strings.TrimSpace(completed.ReplaceAllString(text, "completed"))
}

// A curl is the request of a curl command line.
type curl struct {
	url, body string
	header    []string // names and values
	endless   bool     // the answer is a stream that ends when curl does (-m)
}

func parseCurl(command string) (*curl, error) {
	words, err := shellWords(command)
	if err != nil {
		return nil, err
	}
	if len(words) == 0 || words[0] != "curl" {
		return nil, errors.New("not a command of curl")
	}
	c := new(curl)
	for i := 1; i < len(words); i++ {
		word := words[i]
		takesValue := word == "--json" || word == "-d" || word == "-H" || word == "-m"
		if takesValue {
			if i++; i == len(words) {
				return nil, fmt.Errorf("%s has no value", word)
			}
		}
		switch {
		case word == "-s", word == "-sN":
		case word == "-m":
			c.endless = true
		case word == "--json":
			c.body = words[i]
			c.header = append([]string{"Content-Type", "application/json", "Accept", "application/json"}, c.header...) // -H replaces them
		case word == "-d":
			c.body = words[i]
		case word == "-H":
			name, value, _ := strings.Cut(words[i], ":")
			c.header = append(c.header, name, strings.TrimSpace(value))
		case strings.HasPrefix(word, "-"), c.url != "":
			return nil, fmt.Errorf("unknown to this test: %s", word)
		default:
			c.url = word
		}
	}
	if c.url == "" || c.body == "" {
		return nil, errors.New("no URL or nothing to send")
	}
	return c, nil
}

// shellWords splits a command line like a shell. It supports single quotes, and refuses other shell
// syntax.
func shellWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord := false
	for rest := line; rest != ""; {
		switch c := rest[0]; {
		case c == '\'':
			quoted, after, closed := strings.Cut(rest[1:], "'")
			if !closed {
				return nil, errors.New("a quote is not closed")
			}
			word.WriteString(quoted)
			rest, inWord = after, true
			continue
		case c == ' ':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case strings.ContainsRune("\"\\$`|&;<>()*?[]#~!{}\t\n", rune(c)):
			return nil, fmt.Errorf("a shell gives %q a meaning", c)
		default:
			word.WriteByte(c)
			inWord = true
		}
		rest = rest[1:]
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

func TestShellWords(t *testing.T) {
	for line, want := range map[string][]string{
		`curl -s  http://a/b --json '{"a":"b c"}'`: {"curl", "-s", "http://a/b", "--json", `{"a":"b c"}`},
		`a'b c'd '' 'e\n'`:                         {"ab cd", "", `e\n`},
		`a "b"`:                                    nil,
		`a 'b`:                                     nil,
		`a | b`:                                    nil,
		`a $b`:                                     nil,
	} {
		if got, err := shellWords(line); !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
}

func TestManualsCaddyfiles(t *testing.T) {
	for _, block := range manuals.In(t, "caddyfile") {
		t.Run(block.File, func(t *testing.T) { validate(t, newExample(t, block.Text)) })
	}
}

// A listing has the options of each block, by the block's name.
type listing map[string][]string

// options parses a listing of options in a manual: an option per line, indented blocks, comments
// after #.
func options(text string) listing {
	l := make(listing)
	var blocks []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, " # ")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if words[0] == "}" {
			blocks = blocks[:len(blocks)-1]
			continue
		}
		name := words[0]
		if len(blocks) > 0 {
			in := blocks[len(blocks)-1]
			if !slices.Contains(l[in], name) { // agent_skills has two forms
				l[in] = append(l[in], name)
			}
			if len(words) == 3 && words[1] == "|" {
				l[in] = append(l[in], words[2])
			}
		}
		if words[len(words)-1] == "{" {
			if name == "credentials" {
				name = words[1]
			}
			if name == "agent_skills" && words[1] == "<origin>" {
				name += " <origin>"
			}
			blocks = append(blocks, name)
		}
	}
	return l
}

// TestManualsOptions compares the manual's options with those in the parser's error about an unknown
// option.
func TestManualsOptions(t *testing.T) {
	in := map[string]string{
		"skill_bridge":    "unknown",
		"provider":        "provider https://a.example {\n unknown\n}",
		"skill":           "skill a https://a.example/a.json {\n unknown\n}",
		"registry":        "registry https://a.example {\n unknown\n}",
		"access":          "access {\n unknown\n}",
		"cache":           "cache {\n unknown\n}",
		"quota":           "quota * {\n unknown\n}",
		"limits":          "limits {\n unknown\n}",
		"circuit_breaker": "circuit_breaker {\n unknown\n}",
		"a2a":             "a2a {\n unknown\n}",
		"mcp":             "mcp {\n unknown\n}",
		"webhooks":        "webhooks {\n unknown\n}",
		"connect":         "connect {\n unknown\n}",
		"callers_jwt":     "callers_jwt https://id.example {\n unknown\n}",
		"agent_skills":    "agent_skills {\n unknown\n}",

		"agent_skills <origin>": "agent_skills https://a.example {\n unknown\n}",
	}
	written := options(manuals.Listing(t, manuals.Configuration, "skill_bridge"))
	for block := range written {
		if in[block] == "" {
			t.Errorf("the manual has a block %s that this test does not know", block)
		}
	}
	for block, text := range in {
		err := adaptError(text)
		if err == nil {
			t.Fatalf("%s takes an unknown option", block)
		}
		_, list, _ := strings.Cut(err.Error(), `unknown option "unknown" of `+block+": it has ")
		list, _, found := strings.Cut(list, ", at Caddyfile:")
		known := strings.Split(list, ", ")
		if !found {
			t.Fatalf("%s: %v", block, err)
		}
		slices.Sort(written[block])
		if !slices.Equal(known, written[block]) {
			t.Errorf("%s has the options\n%v, the manual\n%v", block, known, written[block])
		}
	}
}

func adaptError(option string) error {
	text := "http://localhost:8080 {\n skill_bridge /rpc {\n allow_anonymous\n" + option + "\n}\n}\n"
	if strings.HasPrefix(option, "allow_anonymous") {
		text = strings.Replace(text, "allow_anonymous\n", "", 1)
	}
	_, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	return err
}

// TestManualsCredentials compares the manual's credentials modules with the registered ones, and
// their options with their JSON members, which have the same names.
func TestManualsCredentials(t *testing.T) {
	const namespace = "http.skill_bridge.credentials"
	written := options(manuals.Listing(t, manuals.Credentials, "credentials"))
	for _, info := range caddy.GetModules(namespace) {
		name := info.ID.Name()
		known := members(info.New())
		switch name {
		case "headers":
			known = []string{"<name>"}
		case "api_key":
			known = slices.DeleteFunc(known, func(option string) bool { return option == "key" }) // an argument in the first line
		}
		slices.Sort(known)
		got := slices.Sorted(slices.Values(written[name]))
		if !slices.Equal(got, known) {
			t.Errorf("%s has the options\n%v, the manual\n%v", name, known, got)
		}
		for _, option := range got {
			err := adaptError("provider https://a.example {\n credentials " + name + " {\n " + option + "\n}\n}")
			if err == nil || strings.Contains(err.Error(), "unknown option") {
				t.Errorf("%s of %s: %v, want a complaint about its missing value", option, name, err)
			}
		}
		delete(written, name)
	}
	if len(written) > 0 {
		t.Errorf("the manual has credentials that do not exist: %v", written)
	}
}

// members returns the JSON names of a struct's fields.
func members(pointer any) []string {
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeOf(pointer).Elem()) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// TestManualsListsAsTheDocumentation compares the manual's listings, without comments, with those in
// the doc comments of the parsers.
func TestManualsListsAsTheDocumentation(t *testing.T) {
	got := strings.Join(withoutComments(manuals.Listing(t, manuals.Configuration, "skill_bridge")), "\n")
	if documented := documentedSyntax(t, "module/bridge/caddyfile.go"); !slices.Equal([]string{got}, documented) {
		t.Errorf("the manual has\n%s\nand the documentation of the parser\n%s", got, documented)
	}
	written := strings.Split(strings.Join(withoutComments(manuals.Listing(t, manuals.Credentials, "credentials")), "\n"), "\ncredentials ")
	written[0] = strings.TrimPrefix(written[0], "credentials ")
	all := documentedSyntax(t, "module/credentials/caddyfile.go")
	slices.Sort(all)
	slices.Sort(written)
	if !slices.Equal(written, all) {
		t.Errorf("the manual has\n%s\nand the documentation of the parsers\n%s", strings.Join(written, "\n"), strings.Join(all, "\n"))
	}
}

// documentedSyntax returns the listings in the doc comments of a file's UnmarshalCaddyfile methods.
func documentedSyntax(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(repository, path), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, declaration := range file.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok || f.Name.Name != "UnmarshalCaddyfile" {
			continue
		}
		var example strings.Builder
		for line := range strings.Lines(f.Doc.Text()) {
			if strings.HasPrefix(line, "\t") {
				example.WriteString(line)
			}
		}
		all = append(all, strings.Join(withoutComments(example.String()), "\n"))
	}
	return all
}

// withoutComments returns the lines without comments and empty lines, with single spaces between
// words.
func withoutComments(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, " # ")
		if words := strings.Fields(line); len(words) > 0 {
			lines = append(lines, strings.Join(words, " "))
		}
	}
	return lines
}

var (
	codeRow   = regexp.MustCompile("(?m)^\\| (-32\\d{3}) \\| `?([A-Z_]*)")
	methodRow = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\|")
	quoted    = regexp.MustCompile("`([a-z_]+)`")
)

// readGuide returns the text of load_skills_protocol_guide.
func readGuide(b *bridge) string {
	b.t.Helper()
	type guide struct {
		Content string `json:"content"`
	}
	return decode[guide](b.t, string(b.call("load_skills_protocol_guide", "{}").Result)).Content
}

// TestManualsErrors compares the manual's codes and values of next with the guide for agents.
func TestManualsErrors(t *testing.T) {
	manual := manuals.Read(t, manuals.Methods)
	guide := readGuide(startQuickstart(open(t, "quickstart")))
	inManual, inGuide := codesIn(manual), codesIn(guide)
	if len(inGuide) < 13 {
		t.Fatalf("the guide has only the codes %v", inGuide)
	}
	if !slices.Equal(inManual, inGuide) {
		t.Errorf("the manual has the codes\n%v, the guide\n%v", inManual, inGuide)
	}

	said, explained := nextIn(manual), nextIn(guide)
	if len(said) == 0 || !slices.Equal(said, explained) {
		t.Errorf("the manual has next %v, the guide %v", said, explained)
	}
}

// nextIn returns the values of next that the table of a text explains.
func nextIn(text string) []string {
	_, table, _ := strings.Cut(text, "| `next` |")
	table, _, _ = strings.Cut(table, "\n\n")
	var explained []string
	for _, found := range methodRow.FindAllStringSubmatch(table, -1) {
		explained = append(explained, found[1])
	}
	return explained
}

// codesIn returns the codes of a table, each with its name if it has one.
func codesIn(text string) []string {
	var codes []string
	for _, found := range codeRow.FindAllStringSubmatch(text, -1) {
		codes = append(codes, strings.TrimSpace(found[1]+" "+found[2]))
	}
	// A code with names may also be there without one.
	slices.Sort(codes)
	codes = slices.Compact(codes)
	return slices.DeleteFunc(codes, func(code string) bool {
		return slices.ContainsFunc(codes, func(other string) bool { return strings.HasPrefix(other, code+" ") })
	})
}

// TestManualsMethods calls each method in the manual's table, and those that the manual says do not
// exist.
func TestManualsMethods(t *testing.T) {
	b := startQuickstart(open(t, "quickstart"))
	_, section, _ := strings.Cut(manuals.Read(t, manuals.Methods), "\n## Methods\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, absent, found := strings.Cut(section, "\n- `run_code`")
	if !found {
		t.Fatal("the manual does not say what does not exist")
	}
	var methods []string
	for _, found := range methodRow.FindAllStringSubmatch(section, -1) {
		methods = append(methods, found[1])
		if o := b.call(found[1], "{}"); o.Error.Code == -32601 {
			t.Errorf("%s does not exist", found[1])
		}
	}
	if len(methods) != 9 {
		t.Errorf("the manual has the methods %v", methods)
	}
	absent = "`run_code`" + absent
	for _, found := range quoted.FindAllStringSubmatch(absent, -1) {
		if o := b.call(found[1], "{}"); o.Error.Code != -32601 {
			t.Errorf("%s: %+v", found[1], o)
		}
	}
}
