package agentskills

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"time"
	"weak"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front/skillfile"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// content is the SKILL.md of one skill for all public URLs. It is immutable. It does not hold the descriptor and the files of the skill,
// which are larger than their text: the cache decides how long they stay in memory.
type content struct {
	file, name, source string // as in the skill
	of                 weak.Pointer[document.Descriptor]

	description string
	parts       []string
	sum         [sha256.Size]byte // of all that an index says of it, apart from the public URL
}

// isOf reports whether the content was made of a skill as it is.
func (c *content) isOf(s *skill) bool {
	return c.file == s.file && c.name == s.name && c.source == s.source && c.of == weak.Make(s.descriptor)
}

func (c *content) size() int {
	size := len(c.description)
	for _, part := range c.parts {
		size += len(part)
	}
	return size
}

// at returns the file for a public URL.
func (c *content) at(url string) string { return strings.Join(c.parts, url) }

// digestAt returns the digest of the file for a public URL.
func (c *content) digestAt(url string) [sha256.Size]byte { return sha256.Sum256([]byte(c.at(url))) }

func newContent(s *skill, authenticated bool) (*content, error) {
	c := &content{
		file: s.file, name: s.name, source: s.source, of: weak.Make(s.descriptor),
		description: skillfile.Describe(cmp.Or(skillfile.Plain(s.descriptor.Name, skillfile.MaxField), s.name), s.descriptor.Description, s.descriptor.Tags),
	}
	if s.files != nil {
		c.description = skillfile.Plain(s.descriptor.Description, skillfile.MaxDescription)
	}
	parts, err := s.page(c.description, authenticated)
	if err != nil {
		return nil, err
	}
	if c.parts = parts; c.size() > maxPage {
		return nil, errors.New("the SKILL.md of the skill is too long")
	}
	c.sum = sha256.Sum256([]byte(c.file + urlMark + c.description + urlMark + c.at(urlMark)))
	return c, nil
}

// view is what a caller may see.
type view struct {
	*list

	next   time.Time // the time from which it is read again
	fresh  time.Time // the end of the freshness of the lists; zero: they are incomplete
	closed bool      // all sources need a principal
}

func byFile(c *content, file string) int { return strings.Compare(c.file, file) }

// contentFor returns the content of a skill: the one that is known, if the skill has not changed. nil: the skill can't have one.
func (s *Site) contentFor(of *skill) *content {
	if of.descriptor == nil {
		return nil
	}
	s.mu.Lock()
	known := s.contents[of.name]
	s.mu.Unlock()
	if known == nil || !known.isOf(of) {
		made, err := newContent(of, s.RequirePrincipal)
		if err != nil {
			return nil
		}
		if known == nil || known.file != made.file || known.source != made.source || !slices.Equal(known.parts, made.parts) { // else the descriptor was read again
			known = made
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.contents[of.name] = known
	return known
}

// withoutRepeated removes all contents with the same name, which takes a search for hashes that are equal.
func withoutRepeated(sorted []*content) []*content {
	same := func(i, j int) bool { return 0 <= i && j < len(sorted) && sorted[i].file == sorted[j].file }
	kept := make([]*content, 0, len(sorted))
	for i, c := range sorted {
		if !same(i-1, i) && !same(i, i+1) {
			kept = append(kept, c)
		}
	}
	return kept
}
