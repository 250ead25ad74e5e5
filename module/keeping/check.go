package keeping

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/store"
)

// trial is set in a process that only checks configurations.
var trial *trialFiles

// trialFiles are the files of databases that such a process has made in the place of those that do not exist yet.
type trialFiles struct {
	suffix  string      // of the names of these files
	files   []string    // that were made
	folders []string    // that were made, the deepest first
	dbs     []*store.DB // that are held, perhaps several times
}

// CheckOnly makes this process leave no new files of databases, and the schemas of databases as they are: the user of the running Caddy might not be permitted to write them. For a file that
// does not exist, another one is made beside it. The function that is returned closes the databases and removes these files.
func CheckOnly() (clean func()) {
	t := &trialFiles{suffix: "_check_" + rand.Text()}
	trial = t
	return func() {
		for _, db := range t.dbs {
			db.Close()
		}
		for _, file := range t.files {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				_ = os.Remove(file + suffix)
			}
		}
		for _, folder := range t.folders {
			_ = os.Remove(folder) // it stays if there is something in it
		}
	}
}

// replace changes the settings: a file that does not exist is replaced, and a database that does stays as it is.
func (t *trialFiles) replace(s *store.Settings) {
	file := s.File
	if s.Kind == store.SQLite {
		s.File = t.fileOf(file)
	}
	s.CheckOnly = s.Kind != store.Memory && s.File == file
}

// fileOf returns the file to use in the place of a file.
func (t *trialFiles) fileOf(file string) string {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return file
	}
	made := file + t.suffix
	if slices.Contains(t.files, made) {
		return made
	}
	for folder := filepath.Dir(file); filepath.Dir(folder) != folder; folder = filepath.Dir(folder) {
		if _, err := os.Stat(folder); err == nil {
			break
		}
		t.folders = append(t.folders, folder)
	}
	t.files = append(t.files, made)
	return made
}

// Named returns a text about a database with the name of the file that the configuration means.
func Named(text string) string {
	if trial != nil {
		text = strings.ReplaceAll(text, trial.suffix, "")
	}
	return text
}
