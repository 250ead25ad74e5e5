package manuals_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
)

// TestLengths: the README and its recipes are short, and a long manual begins with a table of
// contents.
func TestLengths(t *testing.T) {
	for _, recipe := range manuals.In(t, "caddyfile", manuals.README) {
		if lines := strings.Count(recipe.Text, "\n"); lines > 15 {
			t.Errorf("a recipe has %d lines, more than 15:\n%s", lines, recipe.Text)
		}
	}
	for _, file := range manuals.All {
		text := manuals.Read(t, file)
		lines := strings.Count(text, "\n")
		if file == manuals.README {
			if lines > 200 {
				t.Errorf("%s has %d lines, more than 200", file, lines)
			}
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(line); n > 133 {
					t.Errorf("%s has a line of %d characters, more than 132: %s", file, n-1, line)
				}
			}
			continue
		}
		if lines <= 100 {
			continue
		}
		before, _, _ := strings.Cut(text, "\n## ")
		for _, found := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(manuals.WithoutBlocks(t, file), -1) {
			if !strings.Contains(before, "(#"+anchor(found[1])+")") {
				t.Errorf("the contents of %s lack %q", file, found[1])
			}
		}
	}
}

// TestEveryDocumentIsAManual: a new document has to be in manuals.All, so that the tests read it, or
// in the list here.
func TestEveryDocumentIsAManual(t *testing.T) {
	others := []string{"BENCHMARKS.md", "CHANGELOG.md", "SECURITY.md", "module/cmd/bench/REPORT.md", "testdata/README.md"}
	if documents := append(others, manuals.All...); !slices.Equal(documentsOf(t), sorted(documents)) {
		t.Errorf("the documents are %v, and known are %v", documentsOf(t), documents)
	}
}

// TestWords: people can read all documents. Before adding words, look whether a document says the same.
func TestWords(t *testing.T) {
	words := 0
	for _, file := range documentsOf(t) {
		words += len(strings.Fields(manuals.Read(t, file)))
	}
	if words > 35_000 {
		t.Errorf("the documents have %d words, at most 35,000: cut as many as you add", words)
	}
}

func sorted(files []string) []string {
	slices.Sort(files)
	return files
}

// documentsOf returns the paths of all documents of the repository.
func documentsOf(t *testing.T) []string {
	t.Helper()
	root := manuals.Repository(t)
	var files []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if entry.IsDir() && relative != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			files = append(files, filepath.ToSlash(relative))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sorted(files)
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)|src="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// anchor returns GitHub's fragment of a heading.
func anchor(heading string) string {
	kept := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(kept, " ", "-")
}

// TestLinks: the relative links of all documents lead to files and headings, and no document has both sides of a conflict of Git.
func TestLinks(t *testing.T) {
	root := manuals.Repository(t)
	linked := make(map[string]bool)
	for _, file := range documentsOf(t) {
		if strings.Contains(manuals.Read(t, file), "\n<<<<<<< ") {
			t.Errorf("%s has both sides of a conflict", file)
		}
		for _, found := range link.FindAllStringSubmatch(manuals.WithoutBlocks(t, file), -1) {
			target := found[1] + found[2]
			if strings.Contains(target, "://") {
				continue
			}
			path, fragment, hasFragment := strings.Cut(target, "#")
			to := file
			if path != "" {
				to = filepath.ToSlash(filepath.Join(filepath.Dir(file), path))
			}
			linked[to] = true
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links to %s: %v", file, target, err)
				continue
			}
			if hasFragment && !slices.Contains(anchors(t, to), fragment) {
				t.Errorf("%s links to %s, which is none of its headings", file, target)
			}
		}
	}
	examples, err := filepath.Glob(filepath.Join(root, "caddyfile-examples", "*.Caddyfile"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("there are no examples: %v", err)
	}
	for _, path := range examples {
		if example := "caddyfile-examples/" + filepath.Base(path); !linked[example] {
			t.Errorf("no document links to %s", example)
		}
	}
	for _, file := range manuals.All {
		if file != manuals.README && !linked[file] {
			t.Errorf("no document links to %s", file)
		}
	}
}

func anchors(t *testing.T, file string) []string {
	t.Helper()
	var all []string
	for _, found := range heading.FindAllStringSubmatch(manuals.WithoutBlocks(t, file), -1) {
		all = append(all, anchor(found[1]))
	}
	return all
}

// TestBounds: the defaults of options in the table of bounds are those of the list of options, which
// other tests compare with the code.
func TestBounds(t *testing.T) {
	_, table, _ := strings.Cut(manuals.Read(t, "SECURITY.md"), "\n## All bounds\n")
	table, _, _ = strings.Cut(table, "\n## ")
	defaults := map[string]string{}
	block := ""
	for line := range strings.Lines(manuals.Listing(t, manuals.Configuration, "skill_bridge")) {
		option, comment, _ := strings.Cut(strings.TrimSpace(line), "#")
		fields := strings.Fields(option)
		switch {
		case len(fields) == 0:
			continue
		case fields[0] == "}":
			block = ""
			continue
		case fields[len(fields)-1] == "{":
			block = fields[0] + " "
			continue
		}
		_, standard, _ := strings.Cut(comment, "default")
		defaults[block+fields[0]] = standard
	}
	compared := 0
	for line := range strings.Lines(table) {
		for _, found := range regexp.MustCompile("`([a-z_ ]+)` ([\\d,]+ ?(?:[KMG]iB|s\\b|h\\b)?)").FindAllStringSubmatch(line, -1) {
			value := regexp.MustCompile(`\b` + strings.NewReplacer(",", "", " ", "").Replace(found[2]) + `\b`)
			if compared++; !value.MatchString(defaults[found[1]]) {
				t.Errorf("%s is %s in the table of bounds, and its default is%s", found[1], found[2], defaults[found[1]])
			}
		}
	}
	if compared < 10 {
		t.Errorf("the table has only %d options with defaults", compared)
	}
}

// TestPicture: the picture of the page is small.
func TestPicture(t *testing.T) {
	info, err := os.Stat(filepath.Join(manuals.Repository(t), "module/browse/page.png"))
	if err != nil || info.Size() > 150_000 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestLayout: each folder in the layout of CONTRIBUTING.md exists.
func TestLayout(t *testing.T) {
	root := manuals.Repository(t)
	var folders []string
	for line := range strings.Lines(manuals.Listing(t, manuals.Contributing, "module/")) {
		name := strings.Fields(line)[0]
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		folders = append(folders[:depth], name)
		path := filepath.Join(folders...)
		if info, err := os.Stat(filepath.Join(root, path)); err != nil || !info.IsDir() {
			t.Errorf("%s is no folder: %v", path, err)
		}
	}
}

var majorSuffix = regexp.MustCompile(`/v\d+$`)

// TestDependencies compares the table of modules with the direct requirements of
// go.mod.
func TestDependencies(t *testing.T) {
	_, table, _ := strings.Cut(manuals.Read(t, manuals.Contributing), "\n## Dependencies\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var named []string
	for _, found := range regexp.MustCompile(`\[([^\]]+)\]\(https:`).FindAllStringSubmatch(table, -1) {
		named = append(named, majorSuffix.ReplaceAllString(found[1], ""))
	}
	for _, found := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(manuals.Read(t, "go.mod"), -1) {
		path := majorSuffix.ReplaceAllString(found[1], "")
		at := slices.IndexFunc(named, func(name string) bool { return strings.HasSuffix(path, "/"+name) })
		if at < 0 {
			t.Errorf("the table does not say why %s is there", path)
			continue
		}
		named = slices.Delete(named, at, at+1)
	}
	if len(named) > 0 {
		t.Errorf("the table has modules that go.mod does not require: %v", named)
	}
}

// TestGuards: each guard in the threat model of testdata/README.md is declared in the package that is named
// before it.
func TestGuards(t *testing.T) {
	_, section, _ := strings.Cut(manuals.Read(t, "testdata/README.md"), "\n## Threat model\n")
	guards := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 || strings.Contains(cells[3], ".ci/run") {
			continue
		}
		var pkg, source string
		for _, found := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(cells[3], -1) {
			if text, isPackage := sourceOf(t, found[1]); isPackage {
				pkg, source = found[1], text
				continue
			}
			if guards++; !declares(source, found[1]) {
				t.Errorf("package %q does not declare %s", pkg, found[1])
			}
		}
	}
	if guards < 40 {
		t.Errorf("only %d guards are named", guards)
	}
}

// sourceOf returns the code of the package in a folder of this name.
func sourceOf(t *testing.T, name string) (source string, isPackage bool) {
	t.Helper()
	var all strings.Builder
	for _, above := range []string{"", "module", "module/credentials", "translate", "translate/skillsharing", "translate/catalog", "translate/front", "translate/mcp"} {
		files, err := filepath.Glob(filepath.Join(manuals.Repository(t), above, name, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
	}
	return all.String(), all.Len() > 0
}

// declares reports whether code declares a type, a function or a method with this name.
func declares(source, name string) bool {
	return regexp.MustCompile(`(?m)^(?:type |func (?:\([^)]*\) )?)` + name + `\b`).MatchString(source)
}
