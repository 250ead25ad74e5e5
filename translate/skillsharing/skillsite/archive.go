package skillsite

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Bounds of archives.
const (
	maxEntries  = 1000
	maxPath     = 256      // bytes
	maxLevels   = 16       // of folders
	maxUnpacked = 16 << 20 // bytes of all files
	maxRatio    = 100      // unpacked to packed bytes, from freeRatio on
	freeRatio   = 1 << 20  // bytes
	maxQuoted   = 100      // of a path, in messages
)

// unpacking collects the files of an archive within the bounds.
type unpacking struct {
	content map[string][]byte
	entries int
	left    int64 // bytes that further files may have
}

// unpack returns the files of an archive: .zip or .tar.gz, by its first bytes.
func unpack(text []byte) (*Files, error) {
	u := &unpacking{
		content: map[string][]byte{},
		left:    min(maxUnpacked, max(freeRatio, maxRatio*int64(len(text)))),
	}
	var err error
	switch {
	case bytes.HasPrefix(text, []byte("\x1f\x8b")):
		err = u.tar(text)
	case bytes.HasPrefix(text, []byte("PK")):
		err = u.zip(text)
	default:
		err = errors.New("it is neither a .tar.gz nor a .zip")
	}
	if err != nil {
		return nil, err
	}
	for name := range u.content {
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			if u.content[folder] != nil {
				return nil, refused(name, "is in a folder that is a file")
			}
		}
	}
	return newFiles(u.content), nil
}

func (u *unpacking) tar(text []byte) error {
	packed, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return errors.New("it is not valid gzip")
	}
	// The headers between the files count, too: they may be long.
	all := &io.LimitedReader{R: packed, N: u.left + maxEntries*4<<10}
	r := tar.NewReader(all)
	for {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && all.N <= 0:
			return errTooLarge
		case err != nil:
			return errors.New("it is not a valid tar file")
		}
		switch h.Typeflag {
		case tar.TypeXGlobalHeader: // has no file; git archive writes one
			continue
		case tar.TypeReg, tar.TypeDir:
		default:
			return refused(h.Name, "is a link or a special file")
		}
		if h.Typeflag == tar.TypeReg {
			err = u.file(h.Name, h.Size, r)
		} else {
			_, err = u.enter(h.Name)
		}
		if err != nil {
			return err
		}
	}
}

func (u *unpacking) zip(text []byte) error {
	r, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return errors.New("it is not a valid zip file")
	}
	for _, f := range r.File {
		switch mode := f.Mode(); {
		case strings.HasSuffix(f.Name, "/"), mode.IsDir():
			_, err = u.enter(f.Name)
		case mode&fs.ModeType != 0:
			err = refused(f.Name, "is a link or a special file")
		case f.Flags&1 != 0:
			err = refused(f.Name, "is encrypted")
		default:
			err = u.compressed(f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacking) compressed(f *zip.File) error {
	if f.UncompressedSize64 > uint64(u.left) { //nolint:gosec // left is not negative
		return errTooLarge
	}
	r, err := f.Open()
	if err != nil {
		return refused(f.Name, "can't be unpacked")
	}
	defer r.Close()
	return u.file(f.Name, int64(f.UncompressedSize64), r) //nolint:gosec // at most left
}

var errTooLarge = fmt.Errorf("its files have more than %d MiB, or more than %d times the bytes of the archive", maxUnpacked>>20, maxRatio)

// file adds a file.
func (u *unpacking) file(name string, size int64, r io.Reader) error {
	path, err := u.enter(name)
	switch {
	case err != nil:
		return err
	case u.content[path] != nil:
		return refused(name, "is there twice")
	case path == "":
		return refused(name, "is a file without a name")
	case size > u.left:
		return errTooLarge
	}
	text := make([]byte, size)
	if n, err := io.ReadFull(r, text); err != nil || n != len(text) {
		return refused(name, "can't be unpacked")
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(r, 1)); n > 0 || err != nil { // at the end, a zip checks its sum
		return refused(name, "can't be unpacked")
	}
	u.left -= size
	u.content[path] = text
	return nil
}

// enter counts an entry, and returns its path without "./".
func (u *unpacking) enter(name string) (string, error) {
	if u.entries++; u.entries > maxEntries {
		return "", fmt.Errorf("it has more than %d entries", maxEntries)
	}
	path := strings.TrimPrefix(strings.TrimSuffix(name, "/"), "./")
	if path == "" || path == "." {
		return "", nil
	}
	switch {
	case len(path) > maxPath:
		return "", refused(name, fmt.Sprintf("has a path of more than %d bytes", maxPath))
	case !utf8.ValidString(path) || safetext.Line(path, len(path)) != path:
		return "", refused(name, "has a path with characters that are not allowed")
	case strings.ContainsAny(path, `\:`):
		return "", refused(name, "has a path with a backslash or a colon")
	case strings.Count(path, "/") >= maxLevels:
		return "", refused(name, fmt.Sprintf("is in more than %d folders", maxLevels))
	}
	if !fs.ValidPath(path) {
		return "", refused(name, "has a path that is absolute, or with empty segments, . or ..")
	}
	return path, nil
}

// refused returns the error about an entry.
func refused(name, why string) error {
	return fmt.Errorf("its entry %q %s", safetext.Line(name, maxQuoted), why)
}
