package verdict_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/verdict"
)

// TestSQLitePath: the advice about a path that can't be a file does not only speak of permissions.
func TestSQLitePath(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{folder, filepath.Join(file, "x")} {
		_, err := os.OpenFile(path, os.O_RDWR, 0o600)
		if v := verdict.SQLite(err); v == nil || !strings.Contains(v.Advice, "has to be that of a file") {
			t.Errorf("%v: %+v", err, v)
		}
	}
}
