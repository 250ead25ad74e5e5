package deployment_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goreleaser/fileglob"
	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

// TestArchives: an archive has all the examples and manuals, which name each other.
func TestArchives(t *testing.T) {
	const root = "../../../.."
	t.Chdir(root)
	release, err := config.Load(".goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var archived []string
	for _, file := range release.Archives[0].Files {
		if strings.HasPrefix(file.Source, "release/") { // what is made before
			continue
		}
		found, err := fileglob.Glob(file.Source)
		if err != nil {
			t.Errorf("%s: %v", file.Source, err)
		}
		archived = append(archived, found...)
	}
	files, err := exec.CommandContext(t.Context(), "git", "ls-files", "caddyfile-examples", "*.md", "*/page.png", "*/agent.py").Output()
	if err != nil {
		t.Fatal(err)
	}
	for file := range strings.Lines(string(files)) {
		if file = strings.TrimSpace(file); !slices.Contains(archived, file) && !strings.Contains(file, "testdata/") {
			t.Errorf("an archive has no %s", file)
		}
	}
}

// TestRelease: goreleaser takes the configuration, in which it refuses what it does not know.
func TestRelease(t *testing.T) {
	const file = "../../../../.goreleaser.yaml"
	if _, err := config.Load(file); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "goreleaser.yaml")
	if err := os.WriteFile(other, append(text, "unknown: true\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(other); err == nil {
		t.Error("it takes what it does not know")
	}
}
