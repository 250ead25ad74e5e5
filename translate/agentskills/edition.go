package agentskills

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// edition is an index with its files, for one public URL. It is immutable, except for used.
type edition struct {
	url      string
	contents []*content
	digests  [][sha256.Size]byte
	index    string
	etag     string
	size     int // without the contents, in bytes
	used     time.Time
}

// versionSize is how many characters of the digest the URL of a file has.
const versionSize = 16

// schemaURI identifies the form of the index.
const schemaURI = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"

func newEdition(url string, contents []*content) *edition {
	e := &edition{url: url, contents: contents, digests: make([][sha256.Size]byte, len(contents))}
	var w front.Writer
	w.Open()
	w.Text("$schema", schemaURI)
	w.OpenArray("skills")
	for i, c := range contents {
		e.digests[i] = c.digestAt(url)
		digest := hex.EncodeToString(e.digests[i][:])
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
	e.index, e.etag = string(w.Buf), tagOf(sha256.Sum256(w.Buf))
	e.size = len(e.index) + len(contents)*(sha256.Size+8)
	return e
}

// tagOf returns the entity tag of bytes with a digest.
func tagOf(digest [sha256.Size]byte) string { return `"` + hex.EncodeToString(digest[:]) + `"` }

// digestOf returns the digest of the file of a content; false: the edition does not have it.
func (e *edition) digestOf(c *content) (digest [sha256.Size]byte, ok bool) {
	at, found := slices.BinarySearchFunc(e.contents, c.file, byFile)
	if !found || e.contents[at] != c {
		return digest, false
	}
	return e.digests[at], true
}

// editionOf returns the edition of a view for a public URL.
func (s *Site) editionOf(v *view, url string) *edition {
	if e := s.knownEdition(v, url); e != nil {
		return e
	}
	s.making.Lock()
	defer s.making.Unlock()
	if e := s.knownEdition(v, url); e != nil {
		return e
	}
	e := newEdition(url, v.contents)
	e.used = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.editions = append(s.editions, e)
	size := 0
	var newer *edition
	for i, kept := range slices.Backward(s.editions) {
		size += kept.size + kept.sizeBeside(newer)
		newer = kept
		if kept != e && (size > maxKept || len(s.editions)-i > maxEditions || time.Since(kept.used) > keep) {
			s.editions = slices.Delete(s.editions, 0, i+1)
			break
		}
	}
	return e
}

// sizeBeside returns the size of the contents that another edition does not have; nil: of all.
func (e *edition) sizeBeside(other *edition) (size int) {
	var others []*content
	if other != nil {
		others = other.contents
	}
	for _, c := range e.contents {
		for len(others) > 0 && others[0].file < c.file {
			others = others[1:]
		}
		if len(others) == 0 || others[0] != c {
			size += c.size()
		}
	}
	return size
}

// knownEdition returns the edition of a view if it was made before, and notes that it is used.
func (s *Site) knownEdition(v *view, url string) *edition {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range slices.Backward(s.editions) {
		if e.url == url && slices.Equal(e.contents, v.contents) {
			s.touch(i)
			return e
		}
	}
	return nil
}

// touch notes that an edition is used. The caller holds s.mu.
func (s *Site) touch(i int) {
	e := s.editions[i]
	e.used = time.Now()
	s.editions = append(slices.Delete(s.editions, i, i+1), e)
}

// earlier returns the file with a version that an edition had of a skill, which is the one that the caller may see now.
func (s *Site) earlier(now *content, url, version string) (text string, digest [sha256.Size]byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range slices.Backward(s.editions) {
		at, found := slices.BinarySearchFunc(e.contents, now.file, byFile)
		if e.url != url || !found || e.contents[at].name != now.name || !hasVersion(e.digests[at], version) {
			continue
		}
		text, digest = e.contents[at].at(url), e.digests[at]
		s.touch(i)
		return text, digest, true
	}
	return "", digest, false
}

// hasVersion reports whether a digest begins with a version.
func hasVersion(digest [sha256.Size]byte, version string) bool {
	return hex.EncodeToString(digest[:versionSize/2]) == version
}
