package ecma

import (
	"strconv"
	"strings"
	"unicode/utf16"
)

// atomEscape reads an escape outside of a class after its backslash. It reports whether a quantifier may follow.
func (p *parser) atomEscape() (quantifiable bool) {
	switch c := p.peek(); {
	case c == 'b' || c == 'B':
		p.at++
		p.emit(`\` + string(c))
		return false
	case '1' <= c && c <= '9' && p.backReference():
		return true
	case c == 'k' && (p.unicode || p.named):
		p.at++
		if !p.accept("<") {
			p.fail(`\k needs a name`)
			return false
		}
		p.references = append(p.references, p.groupName())
		p.hinder("a back reference")
		return true
	}
	if texts, ok := p.setEscape(); ok {
		p.emit("[" + texts + "]")
		return true
	}
	p.literal(p.characterEscape(false))
	return true
}

// backReference reads the number of a group. In Annex B, the number of no group is an octal number or a digit.
func (p *parser) backReference() bool {
	start := p.at
	if number(p.digits()) <= p.captures {
		p.hinder("a back reference")
		return true
	}
	p.at = start
	if p.unicode {
		p.fail("no group has the number of a back reference")
	}
	return p.unicode
}

// controls are the characters of escapes with one letter.
var controls = map[rune]rune{'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

// syntaxCharacters may be escaped with the flag u.
const syntaxCharacters = `^$\.*+?()[]{}|/`

// characterEscape reads an escape of one character after its backslash.
func (p *parser) characterEscape(inClass bool) rune {
	c := p.next()
	switch {
	case c == end:
		p.fail(`a single \ at the end`)
		return 0
	case controls[c] != 0:
		return controls[c]
	case c == 'c':
		return p.control(inClass)
	case c == 'x':
		if r, ok := p.hexadecimal(2); ok {
			return r
		}
	case c == 'u':
		if r, ok := p.codePoint(p.unicode); ok {
			return p.whole(r)
		}
	case c == '0' && !strings.ContainsRune("0123456789", p.peek()):
		return 0
	case '0' <= c && c <= '7' && !p.unicode:
		p.at--
		return p.octal()
	case strings.ContainsRune(syntaxCharacters, c), c == '-' && inClass:
		return c
	}
	if p.unicode || c == 'k' && p.named {
		p.fail(`unknown escape \` + string(c))
	}
	return c
}

// control reads the letter of \cA. In Annex B, the backslash stands for itself if there is none.
func (p *parser) control(inClass bool) rune {
	c := p.peek()
	letter := 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
	switch {
	case letter, inClass && !p.unicode && (c == '_' || '0' <= c && c <= '9'):
		p.at++
		return c & 31
	case p.unicode:
		p.fail(`\c needs a letter`)
	default:
		p.at--
	}
	return '\\'
}

// codePoint reads 4 digits, two times 4 digits that are a surrogate pair, or digits in braces.
func (p *parser) codePoint(braces bool) (rune, bool) {
	if rest, found := strings.CutPrefix(p.source[p.at:], "{"); found {
		digits, _, closed := strings.Cut(rest, "}")
		r, err := strconv.ParseUint(digits, 16, 32)
		switch {
		case !closed || digits == "":
			return 0, false
		case !braces:
			p.hinder(`\u{…} without the flag u`)
			return 0, false
		case err != nil || r > 0x10ffff:
			return 0, false
		}
		p.at += len(digits) + 2
		return rune(r), true
	}
	first, ok := p.hexadecimal(4)
	after := p.at
	if ok && utf16.IsSurrogate(first) && p.accept(`\u`) {
		if second, isUnit := p.hexadecimal(4); isUnit {
			if pair := utf16.DecodeRune(first, second); pair != '\ufffd' {
				return pair, true
			}
		}
		p.at = after
	}
	return first, ok
}

// whole returns a code point of the source. Half of a surrogate pair matches no text, unless the provider's engine reads texts as code units.
func (p *parser) whole(r rune) rune {
	if utf16.IsSurrogate(r) && !p.negated {
		p.hinder("half of a surrogate pair")
	}
	return r
}
