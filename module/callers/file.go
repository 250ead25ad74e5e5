package callers

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	// interval is how long the file is not read again.
	interval = time.Second
	// maxFileSize bounds the file, in bytes.
	maxFileSize = 16 << 20
)

// File is a file with the keys of callers. It is read again when a request has a key, at most once a second. While it can't be read, or has a wrong
// line, the keys that were read before remain valid.
type File struct {
	path     string
	reserved []string // what no principal may begin with
	logger   *zap.Logger
	opened   time.Time
	keys     atomic.Pointer[keys]
	looked   atomic.Int64 // when the file was read last, in nanoseconds after opened

	looking sync.Mutex
	// The fields below are guarded by looking.
	sum    digest // of the text with the keys
	failed error  // of the last reading
}

// Open reads a file. Its error names the file, and the line if one is wrong, such as one with a principal that begins with a reserved text.
func Open(path string, logger *zap.Logger, reserved ...string) (*File, error) {
	f := &File{path: path, reserved: reserved, logger: logger.With(zap.String("callers_file", path)), opened: time.Now()}
	if err := f.read(); err != nil {
		return nil, err
	}
	return f, nil
}

// Principals returns the principals that have a key, in alphabetical order.
func (f *File) Principals() []string { return f.keys.Load().principals() }

// Principal returns the principal that has a key; empty: it is not a key of the file.
func (f *File) Principal(key string) string {
	if key == "" {
		return ""
	}
	f.refresh()
	return f.keys.Load().principal(key)
}

// refresh reads the file again. One caller at a time does, and others go on with the keys that there are.
func (f *File) refresh() {
	now := int64(time.Since(f.opened))
	if now-f.looked.Load() < int64(interval) || !f.looking.TryLock() {
		return
	}
	defer f.looking.Unlock()
	defer f.looked.Store(now)
	before := f.failed
	if err := f.read(); err != nil && (before == nil || before.Error() != err.Error()) {
		f.logger.Error("callers_file can't be read: the keys that were read before remain valid", zap.Error(err))
	}
}

// read reads the file, makes its keys valid if it has changed, and warns of what is most likely a mistake.
func (f *File) read() (err error) {
	before := f.failed
	defer func() { f.failed = err }()
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
		return err // it names the file
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "read", Path: f.path, Err: errors.New("is not a regular file")} // opening it might not return
	case info.Size() > maxFileSize:
		return &fs.PathError{Op: "read", Path: f.path, Err: errors.New("is larger than 16 MiB")}
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	if sum == f.sum && before == nil {
		return nil
	}
	k, err := parse(string(text), f.reserved...)
	if err != nil {
		return fmt.Errorf("%s:%w", f.path, err)
	}
	if f.sum = sum; f.keys.Swap(&k) != nil {
		f.logger.Info("callers_file has changed and was read again", zap.Int("keys", len(k)))
	}
	if len(k) == 0 {
		f.logger.Warn("callers_file has no key, so that no caller has a principal")
	}
	if info.Mode().Perm()&0o002 != 0 {
		f.logger.Warn("every user of this machine can write callers_file, and so call the bridge as any principal: remove this permission (chmod o-w)")
	}
	return nil
}
