package findings

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/caddyserver/certmagic"
)

// tryTimeout bounds [TryStorage].
const tryTimeout = 10 * time.Second

// TryStorage writes, reads and deletes a key of a storage. It returns why the storage can't be used; nil: it can. It leaves no folder that was not there:
// the user of the running Caddy might not be permitted to write it.
func TryStorage(ctx context.Context, storage certmagic.Storage) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	key, text := "skill_bridge_check_"+rand.Text(), []byte("check")
	var added []string // deepest first
	if files, ok := storage.(*certmagic.FileStorage); ok {
		added = absentFolders(files.Path)
	}
	tried := make(chan error, 1)
	go func() {
		err := storage.Store(ctx, key, text)
		if err == nil {
			var read []byte
			if read, err = storage.Load(ctx, key); err == nil && !bytes.Equal(read, text) {
				err = errors.New("what was written is not what is read")
			}
			err = errors.Join(err, storage.Delete(ctx, key))
		}
		for _, folder := range added {
			_ = os.Remove(folder) // it stays if there is something in it
		}
		tried <- err
	}()
	select {
	case err := <-tried:
		return err
	case <-ctx.Done():
		return errors.New("it did not answer in 10 seconds")
	}
}

// absentFolders returns the folders of a path that do not exist, the deepest first.
func absentFolders(path string) (folders []string) {
	for {
		if _, err := os.Stat(path); err == nil || filepath.Dir(path) == path {
			return folders
		}
		folders = append(folders, path)
		path = filepath.Dir(path)
	}
}
