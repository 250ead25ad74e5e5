package callers

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	// interval is how long the file is not looked at again.
	interval = time.Second
	// settled is how long after its last change a file that was read is taken to be complete. File systems store times
	// coarsely, so that a second change soon after the first one may leave the time as it is.
	settled = 2 * time.Second
	// maxFileSize bounds the file, in bytes.
	maxFileSize = 16 << 20
)

// File is a file with the keys of callers. The file is looked at when a request has a key, at most once a second, and read again
// if it has changed. While it can't be read, or has a wrong line, the keys that were read before remain valid.
type File struct {
	path     string
	reserved []string // what no principal may begin with
	logger   *zap.Logger
	opened   time.Time
	keys     atomic.Pointer[keys]
	looked   atomic.Int64 // when the file was looked at last, in nanoseconds after opened

	looking sync.Mutex
	// The fields below are guarded by looking.
	info      fs.FileInfo // of the file that was read last; nil: it has to be read
	complaint string      // that was logged last; empty: the file is in order
}

// Open reads a file. Its error names the file, and the line if one is wrong, such as one with a principal that begins with a reserved text.
func Open(path string, logger *zap.Logger, reserved ...string) (*File, error) {
	f := &File{path: path, reserved: reserved, logger: logger.With(zap.String("callers_file", path)), opened: time.Now()}
	k, info, err := f.read()
	if err != nil {
		return nil, err
	}
	f.info = settledInfo(info)
	f.take(k, info)
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

// refresh reads the file again if it has changed. One caller at a time does, and others go on with the keys that there are.
func (f *File) refresh() {
	now := int64(time.Since(f.opened))
	if now-f.looked.Load() < int64(interval) || !f.looking.TryLock() {
		return
	}
	defer f.looking.Unlock()
	defer f.looked.Store(now)
	if info, err := os.Stat(f.path); err == nil && f.info != nil &&
		os.SameFile(info, f.info) && info.Size() == f.info.Size() && info.ModTime().Equal(f.info.ModTime()) {
		return
	}
	k, info, err := f.read()
	f.info = settledInfo(info)
	if err != nil {
		if complaint := err.Error(); complaint != f.complaint {
			f.complaint = complaint
			f.logger.Error("callers_file can't be read: the keys that were read before remain valid", zap.Error(err))
		}
		return
	}
	if f.complaint == "" && k.equal(*f.keys.Load()) {
		return
	}
	f.complaint = ""
	f.logger.Info("callers_file has changed and was read again", zap.Int("keys", len(k)))
	f.take(k, info)
}

// take makes keys valid, and warns of what is most likely a mistake.
func (f *File) take(k keys, info fs.FileInfo) {
	f.keys.Store(&k)
	if len(k) == 0 {
		f.logger.Warn("callers_file has no key, so that no caller has a principal")
	}
	if info.Mode().Perm()&0o002 != 0 {
		f.logger.Warn("every user of this machine can write callers_file, and so call the bridge as any principal: remove this permission (chmod o-w)")
	}
}

// settledInfo returns the info of a file that was read; nil: it may have changed since.
func settledInfo(info fs.FileInfo) fs.FileInfo {
	if info == nil || time.Since(info.ModTime()) < settled {
		return nil
	}
	return info
}

// read reads the file. The info is that of the file that was read; with an error, it may be nil.
func (f *File) read() (keys, fs.FileInfo, error) {
	if info, err := os.Stat(f.path); err != nil {
		return nil, nil, err // it names the file
	} else if !info.Mode().IsRegular() {
		return nil, nil, &fs.PathError{Op: "read", Path: f.path, Err: errors.New("is not a regular file")} // opening it might not return
	}
	file, err := os.Open(f.path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err != nil {
		return nil, nil, err
	}
	if len(text) > maxFileSize {
		return nil, info, &fs.PathError{Op: "read", Path: f.path, Err: errors.New("is larger than 16 MiB")}
	}
	k, err := parse(string(text), f.reserved...)
	if err != nil {
		return nil, info, fmt.Errorf("%s:%w", f.path, err)
	}
	return k, info, nil
}
