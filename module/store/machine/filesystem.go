package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/verdict"
)

// OnNetwork is the error for a file that several machines can open: their locks and their memory of the log don't work there.
func OnNetwork(folder, name string) error {
	return &verdict.Error{
		Text:   fmt.Sprintf("%s is on a network file system (%s), which SQLite can't use safely", folder, name),
		Advice: "Name a file on a disk of this machine with: store sqlite <file>. Several machines share a database with: store postgres <dsn>",
	}
}

// PrepareFile makes the folder and the file of a database, for the owner only.
func PrepareFile(file string) error {
	folder := filepath.Dir(file)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := CheckFileSystem(folder); err != nil {
		return err
	}
	opened, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := opened.Close(); err != nil {
		return err
	}
	for _, suffix := range []string{"", "-wal", "-shm"} { // SQLite makes the other two like the first
		if err := os.Chmod(file+suffix, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
