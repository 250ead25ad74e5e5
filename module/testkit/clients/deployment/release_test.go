package deployment_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

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
