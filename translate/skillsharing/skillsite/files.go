package skillsite

import (
	"bytes"
	"compress/flate"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Main is the path of the file that explains a skill.
const Main = "SKILL.md"

// Files are the files of a skill by their paths. They must not be changed. All but SKILL.md are compressed, each by itself: archives may unpack to
// 16 MiB, and a cache that kept that of many would soon unpack them for each list and each file that is read.
type Files struct {
	content map[string]file
	infos   []Info // Main is first, the others are in the byte order of their paths
	size    int64
}

// Info is what a manifest says of a file.
type Info struct {
	Path   string
	Size   int    // in bytes
	Digest string // "sha256:" and 64 hexadecimal digits
}

// NewInfo returns the info about a file.
func NewInfo(path string, text []byte) Info { return Info{path, len(text), digestOf("", text)} }

// file is a file as it is kept.
type file struct {
	bytes    []byte
	size     int
	deflated bool
}

// single returns the files of a skill that has only a SKILL.md.
func single(text []byte) *Files { return newFiles(map[string][]byte{Main: bytes.Clone(text)}) }

// newFiles returns files without the hidden characters of their texts: a model would read them, and people who look at the files do not see them.
func newFiles(content map[string][]byte) *Files {
	f := &Files{content: make(map[string]file, len(content))}
	paths := slices.Sorted(maps.Keys(content))
	if at := slices.Index(paths, Main); at > 0 {
		paths = slices.Insert(slices.Delete(paths, at, at+1), 0, Main)
	}
	packing := newPacking()
	for _, path := range paths {
		text := content[path]
		if path == Main && utf8.Valid(text) || safetext.IsText(text) {
			text = []byte(safetext.Lines(string(text)))
		}
		kept := file{bytes: text, size: len(text)}
		if path != Main {
			kept = packing.pack(text)
		}
		f.content[path] = kept
		f.infos = append(f.infos, NewInfo(path, text))
		f.size += int64(len(path) + len(kept.bytes))
		delete(content, path) // so that not all of them are in memory twice
	}
	return f
}

// Brief returns the files with the content of SKILL.md only, for lists of many skills. f may be nil.
func (f *Files) Brief() *Files {
	if f == nil {
		return nil
	}
	main := f.content[Main]
	return &Files{content: map[string]file{Main: main}, infos: f.infos, size: int64(main.size)}
}

// Get returns the content of a file, and whether there is one. That of others than SKILL.md is unpacked for each call: [Files.SizeOf] says how much
// memory it takes.
func (f *Files) Get(path string) ([]byte, bool) {
	kept, ok := f.content[path]
	return kept.text(), ok
}

// SizeOf returns the size of a file in bytes; 0: there is none.
func (f *Files) SizeOf(path string) int { return f.content[path].size }

// Infos returns what a manifest says of the files: SKILL.md, then the others in the byte order of their paths.
func (f *Files) Infos() []Info { return f.infos }

// Paths returns the paths of the files, in the order of [Files.Infos].
func (f *Files) Paths() []string {
	paths := make([]string, len(f.infos))
	for i, of := range f.infos {
		paths[i] = of.Path
	}
	return paths
}

// Size returns how much memory the files take, about.
func (f *Files) Size() int64 { return f.size }

// Any reports whether a function is true for the content of a file.
func (f *Files) Any(is func([]byte) bool) bool {
	for _, kept := range f.content {
		if is(kept.text()) {
			return true
		}
	}
	return false
}

// text returns the content of the file.
func (f file) text() []byte {
	if !f.deflated {
		return f.bytes
	}
	text := make([]byte, f.size)
	if _, err := io.ReadFull(flate.NewReader(bytes.NewReader(f.bytes)), text); err != nil {
		panic("skillsite: a compressed file can't be read: " + err.Error()) // it was written by pack
	}
	return text
}

// packing compresses files.
type packing struct {
	buffer bytes.Buffer
	writer *flate.Writer
}

func newPacking() *packing {
	p := new(packing)
	p.writer, _ = flate.NewWriter(&p.buffer, flate.BestSpeed) // the level is valid
	return p
}

// pack returns a file as it is kept: compressed, if that saves memory.
func (p *packing) pack(text []byte) file {
	const header = 64 // what is as short is not worth it
	if len(text) > header {
		p.buffer.Reset()
		p.writer.Reset(&p.buffer)
		_, _ = p.writer.Write(text) // a buffer returns no error
		_ = p.writer.Close()
		if p.buffer.Len() < len(text)-header {
			return file{bytes.Clone(p.buffer.Bytes()), len(text), true}
		}
	}
	return file{text, len(text), false}
}
