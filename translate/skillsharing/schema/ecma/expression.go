package ecma

import (
	"errors"
	"fmt"
)

// MaxBytes is the longest regular expression that is read. Reading takes time in proportion to the length.
const MaxBytes = 4096

// Expression is a legal regular expression of ECMA-262.
type Expression struct {
	Text     string // for package regexp: matches the same texts; empty if there is an obstacle
	Obstacle string // why package regexp can't evaluate the expression: a noun
	Lenient  bool   // only the grammar of Annex B allows it

	Properties int // number of Unicode properties, each of which has hundreds of ranges
}

// Translate reads an expression. It is legal if the grammar with the flag u allows it, as JSON Schema demands, or else
// the grammar of Annex B, which validators without that flag use. The grammar decides what the expression means. Characters are
// code points in both.
func Translate(source string) (Expression, error) {
	if len(source) > MaxBytes {
		return Expression{}, fmt.Errorf("it has more than %d bytes", MaxBytes)
	}
	captures, named := groupsOf(source)
	p := parser{reader: reader{source: source}, unicode: true, captures: captures, names: map[string]bool{}}
	if !p.parse() {
		p = parser{reader: reader{source: source}, captures: captures, named: named, names: map[string]bool{}}
		if !p.parse() {
			return Expression{}, errors.New(p.problem)
		}
	}
	if p.obstacle != "" {
		return Expression{Obstacle: p.obstacle, Lenient: !p.unicode}, nil
	}
	return Expression{Lenient: !p.unicode, Text: string(p.out), Properties: p.properties}, nil
}

// groupsOf returns the number of capturing groups, and whether one has a name.
func groupsOf(source string) (captures int, named bool) {
	inClass := false
	for i := 0; i < len(source); i++ {
		rest := source[i+1:]
		switch c := source[i]; {
		case c == '\\':
			i++
		case inClass:
			inClass = c != ']'
		case c == '[':
			inClass = true
		case c == '(' && (rest == "" || rest[0] != '?'):
			captures++
		case c == '(' && len(rest) > 2 && rest[1] == '<' && rest[2] != '=' && rest[2] != '!':
			captures++
			named = true
		}
	}
	return captures, named
}
