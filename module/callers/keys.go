package callers

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
)

// maxKeySize bounds the keys of requests, in bytes, so that hashing one costs little.
const maxKeySize = 4096

// digest is the SHA-256 of a key.
type digest [sha256.Size]byte

// keys are those of a file, by their hashes. A caller who tries keys and measures how long the answers take learns nothing about them: maps of Go hash with
// a random seed.
type keys map[digest]owner

// owner is the principal of a key.
type owner struct {
	principal string
	line      int
}

// principal returns the principal of a key; empty: there is no such key.
func (k keys) principal(key string) string {
	if len(key) > maxKeySize {
		return ""
	}
	return k[sha256.Sum256([]byte(key))].principal
}

// principals returns the principals, each once.
func (k keys) principals() []string {
	names := make(map[string]bool, len(k))
	for _, o := range k {
		names[o.principal] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// parse reads the text of a file. Its error begins with the number of the line and quotes nothing, since somebody may have written a key
// instead of its hash. No principal may begin with a reserved text.
func parse(text string, reserved ...string) (keys, error) {
	k, n := keys{}, 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if comment := firstComment(words); comment >= 0 {
			words = words[:comment]
		}
		if len(words) == 0 {
			continue
		}
		if err := k.add(words, n); err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		if slices.ContainsFunc(reserved, func(prefix string) bool { return strings.HasPrefix(words[0], prefix) }) {
			return nil, fmt.Errorf("%d: the principal begins with the prefix of an issuer of callers_jwt, so that a user of it could be the same principal", n)
		}
	}
	return k, nil
}

// firstComment returns the index of the word that begins a comment: the first one, or one after the hash. -1: there is none.
func firstComment(words []string) int {
	for _, i := range []int{0, 2} {
		if i < len(words) && strings.HasPrefix(words[i], "#") {
			return i
		}
	}
	return -1
}

// add adds the key of a line.
func (k keys) add(words []string, line int) error {
	if len(words) != 2 {
		return fmt.Errorf("has %d words: a line is a principal and the SHA-256 of a key, separated by spaces", len(words))
	}
	key, err := hashOf(words[1])
	if err != nil {
		return err
	}
	if err := checkPrincipal(words[0]); err != nil {
		return err
	}
	if other, ok := k[key]; ok {
		return fmt.Errorf("has the same key as line %d", other.line)
	}
	k[key] = owner{words[0], line}
	return nil
}

// hashOf returns the SHA-256 that is written in hexadecimal.
func hashOf(word string) (d digest, err error) {
	if n, err := hex.Decode(d[:], []byte(word[:min(len(word), hex.EncodedLen(len(d)))])); err != nil || n != len(d) || len(word) != hex.EncodedLen(len(d)) {
		return d, fmt.Errorf("the second word is not the SHA-256 of a key, which has %d hexadecimal digits", hex.EncodedLen(len(d)))
	}
	if d == sha256.Sum256(nil) {
		return d, errors.New("the second word is the SHA-256 of an empty key")
	}
	return d, nil
}

// checkPrincipal checks that a principal can't be mistaken for another.
func checkPrincipal(name string) error {
	switch {
	case len(name) > options.MaxNameSize:
		return fmt.Errorf("the principal is longer than %d bytes", options.MaxNameSize)
	case !utf8.ValidString(name):
		return errors.New("the principal is not valid UTF-8")
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }):
		return errors.New("the principal has an invisible character, such as a byte order mark")
	}
	return nil
}

// Line returns the line of a file that gives a key to a principal.
func Line(principal, key string) (string, error) {
	if fields := strings.Fields(principal); len(fields) != 1 || fields[0] != principal || strings.HasPrefix(principal, "#") {
		return "", errors.New("a principal is one word that does not begin with #")
	}
	if err := checkPrincipal(principal); err != nil {
		return "", err
	}
	hash := sha256.Sum256([]byte(key))
	return principal + " " + hex.EncodeToString(hash[:]), nil
}

// minKeySize is the size of the shortest key that [CheckKey] accepts, in bytes.
const minKeySize = 22

// CheckKey checks that a key can be sent as a bearer token (RFC 6750, section 2.1), and that it may be long enough. Whether it is
// random can't be checked.
func CheckKey(key string) error {
	switch {
	case len(key) < minKeySize:
		return fmt.Errorf("the key is shorter than %d characters, so that it might be guessed from its hash", minKeySize)
	case len(key) > maxKeySize:
		return fmt.Errorf("the key is longer than %d bytes", maxKeySize)
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("the key has a character that can't be part of a header field, such as a space or a line end")
	}
	return nil
}

// NewKey returns a random key of 256 bits.
func NewKey() string {
	var key [sha256.Size]byte
	_, _ = rand.Read(key[:]) // never returns an error
	return hex.EncodeToString(key[:])
}

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
