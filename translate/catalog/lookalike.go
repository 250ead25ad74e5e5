package catalog

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"go.mau.fi/util/confusable"
	"golang.org/x/text/unicode/norm"
)

// lookAlikes finds sources by the skeletons of their namespaces. Two texts look alike if their
// skeletons (UTS #39, section 4) are equal. A skeleton replaces each character by a
// representative of all characters that look like it.
type lookAlikes struct {
	sources map[string]*Section // by the skeletons of their namespaces
	longest int                 // length of the longest skeleton
}

func (l *lookAlikes) add(s *Section) {
	var shape skeletons
	for _, r := range s.Namespace {
		shape.add(r)
	}
	if l.sources == nil {
		l.sources = map[string]*Section{}
	}
	for _, skeleton := range shape {
		l.sources[string(skeleton)] = s
		l.longest = max(l.longest, len(skeleton))
	}
}

// imitated returns the source, other than s, whose namespace looks like the beginning of the id;
// nil: there is none. An id in ASCII imitates no namespace.
func (l *lookAlikes) imitated(s *Section, id string) *Section {
	foreign := strings.IndexFunc(id, func(r rune) bool { return r >= utf8.RuneSelf })
	if foreign < 0 {
		return nil
	}
	var shape skeletons
	for i, r := range id {
		ends := [2]int{len(shape[0]), len(shape[1])}
		if min(ends[0], ends[1]) > l.longest {
			break
		}
		shape.add(r)
		if i < foreign || string(shape[0][ends[0]:]) != "." {
			continue
		}
		for j, end := range ends {
			if other := l.sources[string(shape[j][:end])]; other != nil && other != s {
				return other
			}
		}
	}
	return nil
}

// skeletons are the two skeletons of a text, in lower case and with / as a dot: the first is made
// of the text in lower case, the second is the skeleton of the text as it is, then in lower case.
// They differ because a capital letter may look like another letter than its small form does.
type skeletons [2][]byte

func (s *skeletons) add(r rune) {
	for _, r := range norm.NFKC.String(string(r)) {
		s[0] = appendShape(s[0], unicode.ToLower(r))
		for _, r := range shapeOf(r) {
			s[1] = appendShape(s[1], unicode.ToLower(r))
		}
	}
}

func appendShape(b []byte, r rune) []byte { return append(b, dot(shapeOf(r))...) }

func shapeOf(r rune) string {
	if shape := confusable.GetReplacement(r); shape != "" {
		return shape
	}
	return string(r)
}
