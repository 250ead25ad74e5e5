package cache

import (
	"net/http"
	"slices"
	"strings"
)

// selection is what of a request selected the answer: the fields that Vary
// names, as they were sent (RFC 9111, section 4.1). The zero selection matches
// every request.
type selection struct {
	fields []field
	all    bool // Vary was "*": fields are all those that were sent
}

type field struct {
	name  string
	lines []string
}

// selectionOf takes from what was sent the fields that the answer varies on.
// Fields that were not sent are part of it too: they have no lines. The header
// sent must not change afterwards.
func selectionOf(answer, sent http.Header) selection {
	if variesOnEverything(answer) {
		all := selection{all: true}
		for name, lines := range sent {
			all.fields = append(all.fields, field{name, lines})
		}
		return all
	}
	var s selection
	for _, name := range listed(strings.Join(answer["Vary"], ",")) {
		s.fields = append(s.fields, field{name, sent[name]})
	}
	return s
}

// matches reports whether a request with the given header would have selected
// the same answer.
func (s selection) matches(sent http.Header) bool {
	for _, f := range s.fields {
		if !slices.Equal(f.lines, sent[f.name]) {
			return false
		}
	}
	return !s.all || len(s.fields) == len(sent)
}

func variesOnEverything(answer http.Header) bool {
	for _, line := range answer["Vary"] {
		for name := range strings.SplitSeq(line, ",") {
			if strings.Trim(name, " \t") == "*" {
				return true
			}
		}
	}
	return false
}
