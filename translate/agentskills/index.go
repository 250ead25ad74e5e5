package agentskills

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// list are the contents that a caller may see. It is immutable, and independent of public URLs.
type list struct {
	contents []*content // by the names of the files
	tag      [sha256.Size]byte
	size     int // of the index, in bytes, whatever the public URL
}

// versionSize is how many characters of the digest the URL of a file has.
const versionSize = 16

// schemaURI identifies the form of the index.
const schemaURI = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"

func newList(contents []*content) *list {
	l := &list{contents: contents}
	h := sha256.New()
	for _, c := range contents {
		h.Write(c.sum[:])
	}
	h.Sum(l.tag[:0])
	text, _ := l.index(func(*content) ([sha256.Size]byte, error) { return [sha256.Size]byte{}, nil })
	l.size = len(text)
	return l
}

// contentOf returns the content of a file; nil: the list has none.
func (l *list) contentOf(file string) *content {
	at, found := slices.BinarySearchFunc(l.contents, file, byFile)
	if !found {
		return nil
	}
	return l.contents[at]
}

// etag returns the entity tag of the index for a public URL. It takes no digests of files.
func (l *list) etag(url string) string {
	return tagOf(sha256.Sum256(append(l.tag[:], url...)))
}

// index returns the index with the digests of the files.
func (l *list) index(digestOf func(*content) ([sha256.Size]byte, error)) (string, error) {
	w := front.Writer{Buf: make([]byte, 0, l.size)}
	w.Open()
	w.Text("$schema", schemaURI)
	w.OpenArray("skills")
	for _, c := range l.contents {
		sum, err := digestOf(c)
		if err != nil {
			return "", err
		}
		digest := hex.EncodeToString(sum[:])
		w.Open()
		w.Text("name", c.file)
		w.Text("type", "skill-md")
		w.Text("description", c.description)
		w.Text("url", c.file+"/"+digest[:versionSize]+"/SKILL.md") // relative to the index, which may be below a path
		w.Text("digest", "sha256:"+digest)
		w.Close()
	}
	w.CloseArray()
	w.Close()
	return string(w.Buf), nil
}

// tagOf returns the entity tag of bytes with a digest.
func tagOf(digest [sha256.Size]byte) string { return `"` + hex.EncodeToString(digest[:]) + `"` }

// hasVersion reports whether a digest begins with a version.
func hasVersion(digest [sha256.Size]byte, version string) bool {
	return hex.EncodeToString(digest[:versionSize/2]) == version
}

// madeIndex is the index of a list for a public URL.
type madeIndex struct {
	of   *list
	url  string
	text string
}

// indexOf returns the index of a list for a public URL, which takes the digests of all files unless it is kept. They are taken for one request at
// a time, and no longer than its context lasts. What is kept saves time only: files are found without it.
func (s *Site) indexOf(ctx context.Context, of *list, url string) (string, error) {
	if x := s.keptIndex(of, url); x != nil {
		return x.text, nil
	}
	select {
	case s.making <- struct{}{}:
		defer func() { <-s.making }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if x := s.keptIndex(of, url); x != nil {
		return x.text, nil
	}
	text, err := of.index(func(c *content) ([sha256.Size]byte, error) { return c.digestAt(url), ctx.Err() })
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.indexes = append(s.indexes, &madeIndex{of, url, text})
	size := 0
	for i, kept := range slices.Backward(s.indexes) {
		size += len(kept.text)
		if i < len(s.indexes)-1 && (size > maxKept || len(s.indexes)-i > maxIndexes) {
			s.indexes = slices.Delete(s.indexes, 0, i+1)
			break
		}
	}
	return text, nil
}

// keptIndex returns an index that was made before, and makes it the last to be given up; nil: there is none.
func (s *Site) keptIndex(of *list, url string) *madeIndex {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, x := range slices.Backward(s.indexes) {
		if x.url == url && x.of == of {
			s.indexes = append(slices.Delete(s.indexes, i, i+1), x)
			return x
		}
	}
	return nil
}

// lateText is a text that is made when it is read first: not for HEAD, and not for a client that has it.
type lateText func() (string, error)

// ReadAt implements [io.ReaderAt].
func (t lateText) ReadAt(into []byte, at int64) (int, error) {
	text, err := t()
	if err != nil {
		return 0, err
	}
	return strings.NewReader(text).ReadAt(into, at)
}
