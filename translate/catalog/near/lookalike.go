package near

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"go.mau.fi/util/confusable"
	"golang.org/x/text/unicode/norm"
)

// LookAlikes finds namespaces that look like others to people, with letters of other scripts, or in other widths, by their skeletons. Two texts look alike if their
// skeletons (UTS #39, section 4) are equal. A skeleton replaces each character by a
// representative of all characters that look like it.
type LookAlikes struct {
	namespaces map[string]string // by their skeletons
	longest    int               // length of the longest skeleton
}

// Add adds a namespace.
func (l *LookAlikes) Add(namespace string) {
	var shape skeletons
	for _, r := range namespace {
		shape.add(r)
	}
	if l.namespaces == nil {
		l.namespaces = map[string]string{}
	}
	for _, skeleton := range shape {
		l.namespaces[string(skeleton)] = namespace
		l.longest = max(l.longest, len(skeleton))
	}
}

// Imitated returns the namespace, other than own, that looks like the beginning of the id; empty: there
// is none. An id in ASCII imitates no namespace.
func (l *LookAlikes) Imitated(own, id string) string {
	foreign := strings.IndexFunc(id, func(r rune) bool { return r >= utf8.RuneSelf })
	if foreign < 0 {
		return ""
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
			if other := l.namespaces[string(shape[j][:end])]; other != "" && other != own {
				return other
			}
		}
	}
	return ""
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

func appendShape(b []byte, r rune) []byte {
	return append(b, strings.ReplaceAll(shapeOf(r), "/", ".")...)
}

func shapeOf(r rune) string {
	if shape := confusable.GetReplacement(r); shape != "" {
		return shape
	}
	return string(r)
}
