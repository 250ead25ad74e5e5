package skillsite

import (
	"bytes"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Main is the path of the file that explains a skill.
const Main = "SKILL.md"

// Files are the files of a skill by their paths. They must not be changed.
type Files struct {
	content map[string][]byte
	paths   []string // in their order; Main is first
	size    int64
}

// single returns the files of a skill that has only a SKILL.md.
func single(text []byte) *Files { return newFiles(map[string][]byte{Main: bytes.Clone(text)}) }

// newFiles returns files without the hidden characters of their texts: a model would read them, and people who look at the files do not see them.
func newFiles(content map[string][]byte) *Files {
	f := &Files{content: content, paths: slices.Sorted(maps.Keys(content))}
	for path, text := range content {
		if path == Main && utf8.Valid(text) || safetext.IsText(text) {
			content[path] = []byte(safetext.Lines(string(text)))
		}
	}
	if at := slices.Index(f.paths, Main); at > 0 {
		f.paths = slices.Insert(slices.Delete(f.paths, at, at+1), 0, Main)
	}
	for path, text := range content {
		f.size += int64(len(path) + len(text))
	}
	return f
}

// Brief returns the files with the content of SKILL.md only, for lists of many skills: the others may take 16 MiB. f may be nil.
func (f *Files) Brief() *Files {
	if f == nil {
		return nil
	}
	main := f.content[Main]
	return &Files{content: map[string][]byte{Main: main}, paths: f.paths, size: int64(len(main))}
}

// Get returns the content of a file, and whether there is one.
func (f *Files) Get(path string) ([]byte, bool) {
	text, ok := f.content[path]
	return text, ok
}

// Paths returns the paths of the files: SKILL.md, then the others in their byte order.
func (f *Files) Paths() []string { return f.paths }

// Size returns how much memory the files take, about.
func (f *Files) Size() int64 { return f.size }

// Any reports whether a function is true for the content of a file.
func (f *Files) Any(is func([]byte) bool) bool {
	for _, text := range f.content {
		if is(text) {
			return true
		}
	}
	return false
}
