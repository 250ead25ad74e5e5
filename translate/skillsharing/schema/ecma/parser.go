package ecma

import (
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
	var groups []bool   // those that are open: whether a quantifier may follow them
	repeatable := false // a quantifier may follow
	for p.at < len(p.source) {
		switch c := p.next(); c {
		case '|', '^', '$':
			p.emit(string(c))
			repeatable = false
		case '(':
			groups, repeatable = append(groups, p.group()), false
		case ')':
			last := len(groups) - 1
			if last < 0 {
				p.fail("unmatched )")
				break
			}
			p.emit(")")
			groups, repeatable = groups[:last], groups[last]
		case '.':
			p.emit("[^\n\r\u2028\u2029]")
			repeatable = true
		case '[':
			p.class()
			repeatable = true
		case '\\':
			repeatable = p.atomEscape()
		case '*', '+', '?':
			p.quantify(repeatable, string(c))
			repeatable = false
		case '{', '}', ']':
			p.at--
			quantifier := p.braces()
			switch {
			case quantifier != "":
				p.quantify(repeatable, quantifier)
			case p.unicode:
				p.fail("a single " + string(c))
			default:
				p.at++
				p.literal(c)
			}
			repeatable = quantifier == ""
		default:
			p.literal(c)
			repeatable = true
		}
	}
	if len(groups) > 0 {
		p.fail("missing )")
	}
	for _, name := range p.references {
		if !p.names[name] {
			p.fail("no group has the name of a back reference")
		}
	}
	return p.problem == ""
}

// quantify writes a quantifier. That it is greedy or not makes no difference.
func (p *parser) quantify(repeatable bool, quantifier string) {
	if !repeatable {
		p.fail("nothing to repeat before " + quantifier[:1])
	}
	p.emit(quantifier)
	p.accept("?")
}

// group reads the beginning of a group after its parenthesis. It reports whether a quantifier may follow the group.
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

// tooOften is a repeat that is above all that can be evaluated. Package regexp has repeats up to largest.
const tooOften, largest = 1e15, 1000

// braces reads {n}, {n,} or {n,m}, and returns it for package regexp; empty: there is no such quantifier.
func (p *parser) braces() (quantifier string) {
	start := p.at
	if p.accept("{") {
		least := p.digits()
		most, comma := least, p.accept(",")
		if comma {
			most = p.digits()
		}
		if least != "" && p.accept("}") {
			if most != "" && number(most) < number(least) {
				p.fail("the numbers of a repeat are in the wrong order")
			}
			if max(number(least), number(most)) > largest {
				p.hinder("a large repeat")
			}
			return "{" + least + "," + most + "}"
		}
	}
	p.at = start
	return ""
}

func number(digits string) (n int) {
	for _, c := range digits {
		n = min(10*n+int(c-'0'), tooOften)
	}
	return n
}
