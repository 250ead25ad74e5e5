package ecma

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// What package regexp has other words for. The texts are for use within a class, in which characters stand for themselves.
const (
	anything = `(?s:.)`
	nothing  = `[^\x00-\x{10FFFF}]`

	// WhiteSpace and LineTerminator of ECMA-262; \s of package regexp is ASCII only.
	spaces    = "\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
	notSpaces = "\x00-\x08\x0e-\x1f!-\u009f\u00a1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff\u3001-\ufefe\uff00-\U0010ffff"
	word      = "0-9A-Z_a-z"
	notWord   = "\x00-/:-@\\[-\\^`{-\U0010ffff"
)

// set is what an item of a class stands for: one character or several.
type set struct {
	char  rune
	texts string // for several
}

// class reads a class after its bracket.
func (p *parser) class() {
	start := len(p.out)
	p.negated = p.accept("^")
	if p.negated {
		p.emit("[^")
	} else {
		p.emit("[")
	}
	first := p.at
	for !p.accept("]") {
		if p.peek() == end {
			p.fail("missing ]")
			return
		}
		from := p.classItem()
		rest := p.source[p.at:]
		if !strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, "-]") {
			p.item(from)
			continue
		}
		p.at++
		to := p.classItem()
		switch {
		case from.texts == "" && to.texts == "" && from.char <= to.char:
			p.characters(from.char, to.char)
		case from.texts == "" && to.texts == "":
			p.fail("the ends of a range are in the wrong order")
		case p.unicode:
			p.fail("a range needs two characters")
		default:
			p.item(from)
			p.item(set{char: '-'})
			p.item(to)
		}
	}
	empty := p.at == first+1
	switch {
	case p.obstacle != "":
	case empty && p.negated:
		p.out = append(p.out[:start], anything...)
	case empty:
		p.out = append(p.out[:start], nothing...)
	default:
		p.emit("]")
	}
	p.negated = false
}

func (p *parser) item(s set) {
	if s.texts != "" {
		p.emit(s.texts)
		return
	}
	p.characters(s.char, s.char)
}

// characters writes a range of a class.
func (p *parser) characters(from, to rune) {
	p.literal(from)
	if from != to {
		p.emit("-")
		p.literal(to)
	}
}

// classItem reads a character or an escape of a class.
func (p *parser) classItem() set {
	c := p.next()
	if c == end {
		p.fail("missing ]")
	}
	if c != '\\' {
		return set{char: c}
	}
	if texts, ok := p.setEscape(); ok {
		return set{texts: texts}
	}
	if p.accept("b") {
		return set{char: '\b'}
	}
	return set{char: p.characterEscape(true)}
}

// setEscape reads \d, \D, \s, \S, \w, \W, \p{…} or \P{…} after its backslash. It returns the text for use within a class.
func (p *parser) setEscape() (texts string, ok bool) {
	c := p.peek()
	if c == 'p' || c == 'P' {
		p.at++
		if texts, ok = p.property(c == 'P'); !ok {
			p.at--
		}
		return texts, ok
	}
	if texts, ok = sets[c]; ok {
		p.at++
	}
	return texts, ok
}

// sets are the texts of escapes that stand for several characters.
var sets = map[rune]string{'d': `\d`, 'D': `\D`, 's': spaces, 'S': notSpaces, 'w': word, 'W': notWord}

// literal writes a character, for use within a class or outside.
func (p *parser) literal(c rune) {
	if c > 0xffff && !p.unicode {
		p.hinder("a character of two code units without the flag u")
	}
	if p.obstacle != "" {
		return
	}
	switch {
	case c == '_' || c == ' ' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z':
		p.out = utf8.AppendRune(p.out, c)
	case ' ' < c && c < 0x7f:
		p.out = utf8.AppendRune(append(p.out, '\\'), c)
	case c < 0xa0 || !utf8.ValidRune(c):
		p.out = append(append(append(p.out, `\x{`...), strconv.FormatInt(int64(c), 16)...), '}')
	default:
		p.out = utf8.AppendRune(p.out, c)
	}
}

// property reads a Unicode property after \p or \P. It returns the text for use within a class.
func (p *parser) property(negative bool) (text string, ok bool) {
	if !p.unicode { // a p, but hardly meant as one
		p.hinder(`\p without the flag u`)
		return "", false
	}
	rest := p.source[p.at:]
	length := strings.IndexByte(rest, '}')
	if length < 2 || rest[0] != '{' || strings.Trim(rest[1:length], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_=") != "" {
		return "", false
	}
	p.at += length + 1
	p.properties++
	switch name, value, hasValue := strings.Cut(rest[1:length], "="); {
	case !hasValue:
		text = category(name)
	case name == "General_Category" || name == "gc":
		text = category(value)
	case name == "Script" || name == "sc":
		text = script(value)
	}
	switch {
	case text == "":
		p.hinder("a Unicode property that Go does not know")
		text = nothing
	case negative:
		text = `\P` + text[2:]
	}
	return text, true
}
