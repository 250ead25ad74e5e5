package storage

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// measuring is a storage that counts the bytes that are read.
type measuring struct {
	certmagic.FileStorage

	read int64
}

func (s *measuring) Load(ctx context.Context, key string) ([]byte, error) {
	info, err := s.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	if s.read += info.Size; info.Size > 1<<30 {
		return nil, errors.New("a test does not read so much")
	}
	return s.FileStorage.Load(ctx, key)
}

// What others write to the storage is read with a bound, and no error quotes it.
func TestFilesOfOthers(t *testing.T) {
	const secret = "s3cret-of-another-program"
	id := newID(t, time.Now(), 1)
	for name, c := range map[string]struct {
		write func(*measuring) error // what the bridge writes
		read  func(*measuring) error
	}{
		"record": {
			func(s *measuring) error {
				return NewRecords(s).Put(t.Context(), &run.Record{Owner: "ada", ID: id, Event: 1, At: time.Now(), Data: []byte("{}"), Standing: run.Running})
			},
			func(s *measuring) error { _, err := NewRecords(s).Get(t.Context(), "ada", id); return err },
		},
		"name": {
			func(s *measuring) error { return NewRecords(s).Name(t.Context(), "ada", "task", id) },
			func(s *measuring) error { _, err := NewRecords(s).Named(t.Context(), "ada", "task"); return err },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &measuring{FileStorage: certmagic.FileStorage{Path: t.TempDir()}}
			if err := c.write(s); err != nil {
				t.Fatal(err)
			}
			var files []string
			if err := filepath.WalkDir(s.Path, func(path string, e os.DirEntry, err error) error {
				if err == nil && !e.IsDir() && filepath.Base(filepath.Dir(path)) != "locks" {
					files = append(files, path)
				}
				return err
			}); err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
			for _, file := range files {
				if err := os.Truncate(file, 4<<30); err != nil {
					t.Fatal(err)
				}
			}
			s.read = 0
			if err := c.read(s); err == nil || s.read > 0 {
				t.Errorf("%d bytes were read: %v", s.read, err)
			}
			for _, text := range []string{`"` + secret + `"`, `{"id":"` + secret + `","version":"` + secret + `","document":` + secret + `}`, `{"` + secret + `":{}}`, secret} {
				for _, file := range files {
					if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.read(s); err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("the error quotes the file: %v", err)
				}
			}
		})
	}
}
