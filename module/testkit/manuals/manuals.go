// Package manuals reads the project's manuals for tests that compare them with the code. Only tests
// import it.
package manuals

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The manuals, by their paths in the repository.
const (
	README        = "README.md"
	Contributing  = "CONTRIBUTING.md"
	Configuration = "module/README.md"
	Credentials   = "module/credentials/README.md" //nolint:gosec // a path
	Accounts      = "module/consent/README.md"
	Publishing    = "module/publish/README.md"
	Providers     = "translate/skillsharing/README.md"
	Methods       = "translate/skillsprotocol/README.md"
	A2A           = "translate/a2a/README.md"
	MCP           = "translate/mcp/README.md"
	AgentSkills   = "translate/agentskills/README.md"
	CommandLine   = "module/command/README.md"
	Page          = "module/browse/README.md"
	Operation     = "module/OPERATION.md"
	Deployment    = "module/DEPLOY.md"
	Monitoring    = "caddyfile-examples/monitoring/README.md"
)

// All has all manuals.
var All = []string{README, Contributing, Configuration, Credentials, Accounts, Publishing, Providers, Methods, A2A, MCP, AgentSkills, CommandLine, Page, Operation, Deployment, Monitoring}

// Repository returns the folder with go.mod.
func Repository(t *testing.T) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
		above := filepath.Dir(folder)
		if above == folder {
			t.Fatal("the test does not run in the repository")
		}
		folder = above
	}
}

// Read returns the text of a file of the repository.
func Read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Repository(t), file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A Block is a code block of a manual.
type Block struct {
	File     string
	Language string // empty: the block has none
	Text     string
}

var fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// Blocks returns the code blocks of some manuals, or of all without files.
func Blocks(t *testing.T, files ...string) []Block {
	t.Helper()
	if len(files) == 0 {
		files = All
	}
	var blocks []Block
	for _, file := range files {
		for _, found := range fence.FindAllStringSubmatch(Read(t, file), -1) {
			blocks = append(blocks, Block{file, found[1], found[2]})
		}
	}
	return blocks
}

// In returns the blocks in a language. It fails the test if there is none.
func In(t *testing.T, language string, files ...string) []Block {
	t.Helper()
	var in []Block
	for _, block := range Blocks(t, files...) {
		if block.Language == language {
			in = append(in, block)
		}
	}
	if len(in) == 0 {
		t.Fatalf("there is no block in %q", language)
	}
	return in
}

// Listing returns the block without a language that starts with a word.
func Listing(t *testing.T, file, first string) string {
	t.Helper()
	for _, block := range In(t, "", file) {
		if strings.HasPrefix(block.Text, first+" ") {
			return block.Text
		}
	}
	t.Fatalf("%s has no listing that starts with %s", file, first)
	return ""
}

// WithoutBlocks returns the text of a file without its code blocks.
func WithoutBlocks(t *testing.T, file string) string {
	t.Helper()
	return fence.ReplaceAllString(Read(t, file), "")
}
