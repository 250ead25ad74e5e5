package ecma

import (
	"fmt"
	"regexp"
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
	negated    bool            // within a class that is negated
}

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
	switch c := p.next(); c {
	case '^', '$':
		p.emit(string(c))
		return
	case '(':
		if !p.group() {
			return
		}
	case '.':
		p.emit("[^\n\r\u2028\u2029]")
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
	p.quantifier()
}

// group reads a group after its parenthesis. It reports whether a quantifier may follow.
func (p *parser) group() bool {
	quantifiable := true
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
		p.modify()
	}
	p.emit("(?:")
	p.disjunction()
	p.emit(")")
	if !p.accept(")") {
		p.fail("missing )")
	}
	return quantifiable
}

// modifiers are those of a group, and what ends them.
var modifiers = regexp.MustCompile(`^(?:[ims]+-?[ims]*|-[ims]+)[:)]`)

// modify reads modifiers, such as those of (?i-s:…), which few engines have.
func (p *parser) modify() {
	all := modifiers.FindString(p.source[p.at:])
	isTwice := strings.Count(all, "i") > 1 || strings.Count(all, "m") > 1 || strings.Count(all, "s") > 1
	switch {
	case p.accept("P<") || p.accept("P=") || p.accept("P>"):
		p.fail("(?P is not of ECMA-262, which has (?<name>…) and \\k<name>")
	case all == "" || isTwice:
		p.fail("unknown kind of group")
	case strings.HasSuffix(all, ")"):
		p.fail("modifiers need a group, as in (?i:…)")
	default:
		p.at += len(all)
		p.hinder("modifiers of a group")
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

// quantifier reads a quantifier, if there is one. That it is greedy or not makes no difference.
func (p *parser) quantifier() {
	switch c := p.peek(); c {
	case '*', '+', '?':
		p.at++
		p.emit(string(c))
	case '{':
		least, most, repeats := p.braces()
		switch {
		case repeats:
			p.repeat(least, most)
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

// repeat writes a repeat. Package regexp has repeats up to 1000.
func (p *parser) repeat(least, most int) {
	const largest = 1000
	switch {
	case max(least, most) > largest:
		p.hinder("a large repeat")
	case most == unbounded:
		p.emit(fmt.Sprintf("{%d,}", least))
	default:
		p.emit(fmt.Sprintf("{%d,%d}", least, most))
	}
}
