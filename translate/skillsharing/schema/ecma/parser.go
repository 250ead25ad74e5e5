package ecma

import (
	"fmt"
	"strings"
	"unicode"
)

// parser reads an expression by one of two grammars and translates it on the way.
type parser struct {
	reader
	translation
	unicode  bool // the grammar with the flag u; else that of Annex B
	captures int  // groups that back references may mean
	named    bool // a group has a name, so that \k is a back reference in Annex B, too

	names      map[string]bool // of groups; ECMA-262 does not let two groups have the same one unless they exclude each other, which is not checked
	references []string        // the names in back references
	modifiers
	negated bool // within a class that is negated
}

// modifiers are the flags that a group sets for what is in it.
type modifiers struct{ ignoreCase, multiline, dotAll bool }

// parse reads the whole expression and reports whether it is legal.
func (p *parser) parse() bool {
	p.disjunction()
	if p.at < len(p.source) {
		p.fail("unmatched )")
	}
	for _, name := range p.references {
		if !p.names[name] {
			p.fail("no group has the name of a back reference")
		}
	}
	return p.problem == ""
}

func (p *parser) disjunction() {
	for {
		for c := p.peek(); c != end && c != '|' && c != ')'; c = p.peek() {
			p.term()
		}
		if !p.accept("|") {
			return
		}
		p.emit("|")
	}
}

func (p *parser) term() {
	start := len(p.out)
	switch c := p.next(); c {
	case '^', '$':
		if p.multiline {
			p.hinder("^ or $ at each line")
		}
		p.emit(string(c))
		return
	case '(':
		if !p.group() {
			return
		}
	case '.':
		if p.dotAll {
			p.emit(anything)
		} else {
			p.emit("[^\n\r\u2028\u2029]")
		}
	case '[':
		p.class()
	case '\\':
		if !p.atomEscape() {
			return
		}
	case '*', '+', '?':
		p.fail("nothing to repeat before " + string(c))
	case '{', '}', ']':
		p.at--
		if _, _, repeats := p.braces(); repeats {
			p.fail("nothing to repeat before {")
		} else if p.unicode {
			p.fail(fmt.Sprintf("a single %c", c))
		} else {
			p.at++
		}
		p.literal(c)
	default:
		p.literal(c)
	}
	p.quantifier(start)
}

// group reads a group after its parenthesis. It reports whether a quantifier may follow.
func (p *parser) group() bool {
	before, opening, quantifiable := p.modifiers, "(?:", true
	switch {
	case p.accept("?:"):
	case p.accept("?="), p.accept("?!"):
		p.hinder("lookahead")
		quantifiable = !p.unicode
	case p.accept("?<="), p.accept("?<!"):
		p.hinder("lookbehind")
		quantifiable = false
	case p.accept("?<"):
		p.names[p.groupName()] = true
	case p.accept("?"):
		opening = p.modify()
	}
	p.emit(opening)
	p.disjunction()
	p.emit(")")
	if !p.accept(")") {
		p.fail("missing )")
	}
	p.modifiers = before
	return quantifiable
}

// modify reads modifiers, such as those of (?i-s:…).
func (p *parser) modify() string {
	if p.accept("P<") || p.accept("P=") || p.accept("P>") {
		p.fail("(?P is not of ECMA-262, which has (?<name>…) and \\k<name>")
		return ""
	}
	opening := "(?:"
	on, seen := true, ""
	for {
		c := p.next()
		switch {
		case c == ':' && seen != "" && seen != "-":
			return opening
		case c == '-' && on:
			on = false
		case c == ')' && seen != "":
			p.fail("modifiers need a group, as in (?i:…)")
		case strings.ContainsRune("ims", c) && !strings.ContainsRune(seen, c):
			switch c {
			case 'i':
				p.ignoreCase = on
				if opening = "(?i:"; !on {
					opening = "(?-i:"
				}
			case 'm':
				p.multiline = on
			case 's':
				p.dotAll = on
			}
		default:
			p.fail("unknown kind of group")
			return ""
		}
		seen += string(c)
	}
}

// groupName reads a name that ends with >.
func (p *parser) groupName() string {
	var name []rune
	for {
		c := p.next()
		if c == '>' && len(name) > 0 {
			return string(name)
		}
		if c == '\\' {
			if c = end; p.accept("u") {
				c, _ = p.codePoint(true)
			}
		}
		if !unicode.In(c, unicode.L, unicode.Nl, unicode.Other_ID_Start) && c != '$' && c != '_' &&
			(len(name) == 0 || !unicode.In(c, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Other_ID_Continue) && c != 0x200c && c != 0x200d) {
			p.fail("invalid name of a group")
			return ""
		}
		name = append(name, c)
	}
}

// quantifier reads a quantifier of what was written since start, if there is one. That it is greedy or not makes no difference.
func (p *parser) quantifier(start int) {
	switch c := p.peek(); c {
	case '*', '+', '?':
		p.at++
		p.emit(string(c))
	case '{':
		least, most, repeats := p.braces()
		switch {
		case repeats:
			p.repeat(start, least, most)
		case p.unicode:
			p.fail("incomplete quantifier")
			return
		default:
			return
		}
	default:
		return
	}
	p.accept("?")
}

// unbounded is a repeat without an upper bound, tooOften one that is above all that can be evaluated.
const (
	unbounded = -1
	tooOften  = 1_000_000
)

// braces reads {n}, {n,} or {n,m}.
func (p *parser) braces() (least, most int, ok bool) {
	start := p.at
	if p.accept("{") {
		first := p.digits()
		last, comma := first, p.accept(",")
		if comma {
			last = p.digits()
		}
		if first != "" && p.accept("}") {
			if last != "" && (len(last) < len(first) || len(last) == len(first) && last < first) {
				p.fail("the numbers of a repeat are in the wrong order")
			}
			if last == "" {
				return number(first), unbounded, true
			}
			return number(first), number(last), true
		}
	}
	p.at = start
	return 0, 0, false
}

func number(digits string) (n int) {
	for _, c := range digits {
		n = min(10*n+int(c-'0'), tooOften)
	}
	return n
}

// repeat writes a repeat of what was written since start. Package regexp has repeats up to 1000; larger ones become several.
func (p *parser) repeat(start, least, most int) {
	const (
		perRepeat  = 1000
		maxRepeats = 7 // matching long texts with more would take too much work
	)
	switch {
	case p.obstacle != "":
		return
	case least <= perRepeat && most == unbounded:
		p.emit(fmt.Sprintf("{%d,}", least))
		return
	case least <= perRepeat && most <= perRepeat:
		p.emit(fmt.Sprintf("{%d,%d}", least, most))
		return
	}
	atom := string(p.out[start:])
	if max(least, most)/perRepeat+2 > maxRepeats {
		p.hinder("a large repeat")
		return
	}
	p.expanded = true
	p.out = p.out[:start]
	for n := least; n > 0; n -= perRepeat {
		p.emit(fmt.Sprintf("%s{%d}", atom, min(n, perRepeat)))
	}
	if most == unbounded {
		p.emit(atom + "*")
	}
	for n := most - least; n > 0; n -= perRepeat {
		p.emit(fmt.Sprintf("%s{0,%d}", atom, min(n, perRepeat)))
	}
}
