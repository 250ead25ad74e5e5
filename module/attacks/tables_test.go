package attacks_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTables looks for the tests that SECURITY.md and testdata/README.md name, and
// for the tests of rows that they do not.
func TestTables(t *testing.T) {
	const repository = "../.."
	tests := make(map[string]bool)
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(text, -1) {
			tests[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	for _, file := range []string{"SECURITY.md", "testdata/README.md"} {
		text, err := os.ReadFile(filepath.Join(repository, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAllString(string(text), -1) {
			named[name] = true
			if !tests[name] {
				t.Errorf("%s names %s, which there is not", file, name)
			}
		}
	}
	for name := range tests {
		if regexp.MustCompile(`^Test[RS]\d\d[A-Z]`).MatchString(name) && !named[name] {
			t.Errorf("testdata/README.md does not name %s", name)
		}
	}
}
