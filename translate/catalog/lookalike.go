package catalog

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"go.mau.fi/util/confusable"
	"golang.org/x/text/unicode/norm"
)

// lookAlikes knows sources by what their namespaces look like: texts look alike if their
// skeletons are the same (UTS #39, section 4), in which characters of all scripts that are
// easily taken for one another are one.
type lookAlikes struct {
	sources map[string]*Section // by the skeletons of their namespaces
	longest int                 // of these
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

// imitated returns another source than s whose namespace an id seems to begin with,
// because of characters that are not ASCII; nil: there is none.
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

// skeletons are what a text looks like, with / as ., in whatever case it is written: as if it
// were written in lower case, and as if the capital letters that it looks like were. (Capital
// and small letters of a script may look like different ones of another.)
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
