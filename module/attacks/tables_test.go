package attacks_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestTables: testdata/README.md names the row of each test whose name begins with one, and no other rows.
func TestTables(t *testing.T) {
	const repository = "../.."
	tested := make(map[string]bool)
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`(?m)^func Test([RS])0?(\d+)[A-Z]`).FindAllSubmatch(text, -1) {
			tested[string(found[1])+string(found[2])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(repository, "testdata/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	for _, found := range regexp.MustCompile(`\b([RS])(\d+)(?:-[RS](\d+))?\b`).FindAllStringSubmatch(string(text), -1) {
		first, _ := strconv.Atoi(found[2])
		last, _ := strconv.Atoi(found[3])
		for row := first; row <= max(first, last); row++ {
			named[fmt.Sprint(found[1], row)] = true
		}
	}
	for row := range named {
		if !tested[row] {
			t.Errorf("testdata/README.md names %s, of which there is no test", row)
		}
	}
	for row := range tested {
		if !named[row] {
			t.Errorf("testdata/README.md does not name %s", row)
		}
	}
}
