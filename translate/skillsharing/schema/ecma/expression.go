package ecma

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// MaxBytes is the longest regular expression that is read. Reading takes time in proportion to the length.
	MaxBytes = 4096
	// maxText is the longest translation, in bytes. Classes have long ones.
	maxText = 32 << 10
	// maxRepeat is the largest repeat of package regexp.
	maxRepeat = 1000
)

// Expression is a regular expression of ECMA-262 as package regexp has it. Whether its syntax is right, Parse says.
type Expression struct {
	Text       string // matches the same texts, unless there is an obstacle
	Obstacle   string // why package regexp can't evaluate the expression: a noun
	Lenient    bool   // it is legal without the flag u only (Annex B), which JSON Schema demands
	Properties int    // number of Unicode properties, each of which has hundreds of ranges
}

// Translate reads an expression. Characters are code points.
func Translate(source string) (Expression, error) {
	if len(source) > MaxBytes {
		return Expression{}, fmt.Errorf("it has more than %d bytes", MaxBytes)
	}
	t := translator{rest: source}
	for t.rest != "" {
		t.term()
	}
	if t.problem != "" {
		return Expression{}, errors.New(t.problem)
	}
	if t.unicode && t.Lenient {
		t.hinder("what only the flag u has, beside what is legal without it only")
	}
	if t.Text = string(t.out); len(t.out) > maxText {
		t.hinder("its length")
		t.Text = ""
	}
	return t.Expression, nil
}

// Parse returns the expression as package regexp reads it, or why it is not legal. It returns neither if package regexp can't evaluate it.
func (x Expression) Parse() (*syntax.Regexp, error) {
	tree, err := syntax.Parse(x.Text, syntax.Perl)
	bad, isBad := errors.AsType[*syntax.Error](err)
	switch {
	case isBad && (bad.Code == syntax.ErrLarge || bad.Code == syntax.ErrNestingDepth || bad.Code == syntax.ErrInvalidRepeatSize):
		return nil, nil
	case isBad:
		return nil, errors.New(bad.Code.String())
	case x.Obstacle != "":
		return nil, nil
	}
	return tree, nil
}

// translator reads an expression and translates it on the way.
type translator struct {
	Expression
	rest    string // of the source
	out     []byte
	problem string // why the expression is not legal
	unicode bool   // it means something else without the flag u
	negated bool   // within a class that is negated
}

const end rune = -1

func (t *translator) next() rune {
	if t.rest == "" {
		return end
	}
	c, size := utf8.DecodeRuneInString(t.rest)
	t.rest = t.rest[size:]
	return c
}

func (t *translator) accept(text string) (found bool) {
	t.rest, found = strings.CutPrefix(t.rest, text)
	return found
}

// match reads what an expression for the beginning matches, and returns its groups; nil: it does not match.
func (t *translator) match(beginning *regexp.Regexp) []string {
	groups := beginning.FindStringSubmatch(t.rest)
	if groups != nil {
		t.rest = t.rest[len(groups[0]):]
	}
	return groups
}

func (t *translator) emit(text string) { t.out = append(t.out, text...) }

func (t *translator) fail(problem string) { t.problem, t.rest = problem, "" }

func (t *translator) hinder(obstacle string) { t.Obstacle = cmp.Or(t.Obstacle, obstacle) }

// What package regexp has other words for. The texts are for use within a class, in which characters stand for themselves.
const (
	anything = `(?s:.)`
	nothing  = `[^\x00-\x{10FFFF}]`
	// WhiteSpace and LineTerminator of ECMA-262; \s of package regexp is ASCII only.
	spaces    = "\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
	notSpaces = "\x00-\x08\x0e-\x1f!-\u009f\u00a1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff\u3001-\ufefe\uff00-\U0010ffff"
)

// sets are the texts of escapes that stand for several characters.
var sets = map[byte]string{'d': `\d`, 'D': `\D`, 's': spaces, 'S': notSpaces, 'w': `\w`, 'W': `\W`}

var repeat = regexp.MustCompile(`^([0-9]+)(,?)([0-9]*)\}`)

func (t *translator) term() {
	switch c := t.next(); c {
	case '|', '^', '$', '*', '+', '?', ')':
		t.emit(string(c))
	case '(':
		t.group()
	case '.':
		t.emit("[^\n\r\u2028\u2029]")
	case '[':
		t.class()
	case '\\':
		t.escape()
	case '{':
		t.braces()
	default:
		t.Lenient = t.Lenient || c == '}' || c == ']'
		t.literal(c)
	}
}

// braces reads {n}, {n,} or {n,m} after the bracket, or the bracket is a character.
func (t *translator) braces() {
	m := t.match(repeat)
	if m == nil || m[2] == "" && m[3] != "" {
		t.Lenient = true
		t.literal('{')
		return
	}
	least, err := strconv.Atoi(m[1])
	most, alsoErr := strconv.Atoi(cmp.Or(m[3], m[1]))
	if err != nil || alsoErr != nil || max(least, most) > maxRepeat {
		t.hinder("a large repeat")
		least, most = 1, 1
	}
	switch {
	case m[2] == "":
		t.emit(fmt.Sprintf("{%d}", least))
	case m[3] == "":
		t.emit(fmt.Sprintf("{%d,}", least))
	default:
		t.emit(fmt.Sprintf("{%d,%d}", least, most))
	}
}

var (
	groupName = regexp.MustCompile(`^\?<[^>]+>`)
	modifiers = regexp.MustCompile(`^\?(?:[ims]+-?[ims]*|-[ims]+)([:)])`)
)

// group reads the beginning of a group after its parenthesis.
func (t *translator) group() {
	t.emit("(?:")
	switch {
	case t.accept("?:"):
	case t.accept("?="), t.accept("?!"):
		t.hinder("lookahead")
	case t.accept("?<="), t.accept("?<!"):
		t.hinder("lookbehind")
	case t.match(groupName) != nil:
	case strings.HasPrefix(t.rest, "?"):
		switch m := t.match(modifiers); {
		case strings.HasPrefix(t.rest, "?P"):
			t.fail("(?P is not of ECMA-262, which has (?<name>…) and \\k<name>")
		case m == nil:
			t.fail("unknown kind of group")
		case m[1] == ")":
			t.fail("modifiers need a group, as in (?i:…)")
		default:
			t.hinder("modifiers of a group")
		}
	}
}

// escape reads an escape outside of a class after its backslash.
func (t *translator) escape() {
	set := t.set()
	switch {
	case set != "":
		t.emit("[" + set + "]")
	case t.accept("b"):
		t.emit(`\b`)
	case t.accept("B"):
		t.emit(`\B`)
	case t.rest != "" && strings.Contains("k123456789", t.rest[:1]):
		t.hinder("a back reference")
		t.emit("(?:)")
		t.next()
	default:
		t.literal(t.character(false))
	}
}

// class reads a class after its bracket.
func (t *translator) class() {
	t.negated = t.accept("^")
	defer func() { t.negated = false }()
	switch empty := t.accept("]"); {
	case empty && t.negated:
		t.emit(anything)
		return
	case empty:
		t.emit(nothing)
		return
	case t.negated:
		t.emit("[^")
	default:
		t.emit("[")
	}
	for t.rest != "" {
		if t.accept("]") {
			t.emit("]")
			return
		}
		isSet := t.item()
		if strings.HasPrefix(t.rest, "-]") || !t.accept("-") {
			continue
		}
		if isSet || setAhead.MatchString(t.rest) { // the hyphen is a character
			t.Lenient = true
			t.emit(`\`)
		}
		t.emit("-")
		t.item()
	}
	t.fail("missing ]")
}

var setAhead = regexp.MustCompile(`^\\[dDsSwWpP]`)

// item reads a character or an escape of a class. It reports whether the escape stands for several characters.
func (t *translator) item() (isSet bool) {
	if !t.accept(`\`) {
		t.literal(t.next())
		return false
	}
	switch set := t.set(); {
	case set != "":
		t.emit(set)
		return true
	case t.accept("b"):
		t.literal('\b')
	default:
		t.literal(t.character(true))
	}
	return false
}

var property = regexp.MustCompile(`^([pP])\{(?:([A-Za-z_]+)=)?([0-9A-Za-z_]+)\}`)

// set reads \d, \D, \s, \S, \w, \W, \p{…} or \P{…} after its backslash. It returns the text for use within a class; empty: there is no such escape.
func (t *translator) set() string {
	m := t.match(property)
	if m == nil {
		if t.rest == "" || sets[t.rest[0]] == "" {
			return ""
		}
		c := t.rest[0]
		t.next()
		return sets[c]
	}
	t.unicode = true
	t.Properties++
	name, known := m[3], false
	switch m[2] {
	case "", "General_Category", "gc":
		name = cmp.Or(unicode.CategoryAliases[name], name)
		known = unicode.Categories[name] != nil || name == "Any" || name == "ASCII" || name == "Assigned"
	case "Script", "sc":
		known = unicode.Scripts[name] != nil
	}
	if !known {
		t.hinder("a Unicode property that Go does not know")
		name = "L"
	}
	return `\` + m[1] + "{" + name + "}"
}

// controls are the characters of escapes with one letter.
var controls = map[rune]rune{'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

var (
	controlLetter = regexp.MustCompile(`^[A-Za-z]`)
	hexadecimal   = regexp.MustCompile(`^([0-9A-Fa-f]{2})`)
	codeUnits     = regexp.MustCompile(`^([0-9A-Fa-f]{4})(?:\\u([dD][c-fC-F][0-9A-Fa-f]{2}))?`)
	codePoint     = regexp.MustCompile(`^\{0*([0-9A-Fa-f]{1,6})\}`)
)

// character reads an escape of one character after its backslash.
func (t *translator) character(inClass bool) rune {
	c := t.next()
	switch {
	case c == end:
		t.fail(`a single \ at the end`)
	case controls[c] != 0:
		return controls[c]
	case c == 'c':
		if m := t.match(controlLetter); m != nil {
			return rune(m[0][0] & 31)
		}
		t.hinder(`\c without a letter`)
	case c == 'x':
		if m := t.match(hexadecimal); m != nil {
			return number(m[1])
		}
		t.Lenient = true
	case c == 'u':
		return t.codePoint()
	case c == '0' && (t.rest == "" || !strings.Contains("0123456789", t.rest[:1])):
		return 0
	case '0' <= c && c <= '9':
		t.hinder("an octal number")
	case c == 'p' || c == 'P':
		t.hinder(`\p without braces`)
	case !strings.ContainsRune(`^$\.*+?()[]{}|/`, c) && (c != '-' || !inClass):
		t.Lenient = true
	}
	return c
}

// codePoint reads 4 digits, two times 4 digits that are a surrogate pair, or digits in braces.
func (t *translator) codePoint() rune {
	if m := t.match(codePoint); m != nil {
		t.unicode = true
		return number(m[1])
	}
	m := codeUnits.FindStringSubmatch(t.rest)
	if m == nil {
		t.Lenient = true
		return 'u'
	}
	first := number(m[1])
	if m[2] != "" {
		if pair := utf16.DecodeRune(first, number(m[2])); pair != utf8.RuneError {
			t.rest = t.rest[len(m[0]):]
			return pair
		}
	}
	t.rest = t.rest[len(m[1]):]
	if utf16.IsSurrogate(first) && !t.negated { // it matches no text, unless the provider's engine reads texts as code units
		t.hinder("half of a surrogate pair")
	}
	return first
}

func number(digits string) rune {
	n, _ := strconv.ParseInt(digits, 16, 32) // the digits were matched
	return rune(n)
}

// literal writes a character, for use within a class or outside.
func (t *translator) literal(c rune) {
	switch {
	case c == '_' || c == ' ' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z':
		t.emit(string(c))
	case ' ' < c && c < 0x7f:
		t.emit(`\` + string(c))
	case c < 0xa0 || !utf8.ValidRune(c):
		t.emit(`\x{` + strconv.FormatInt(int64(c), 16) + "}")
	default:
		t.unicode = t.unicode || c > 0xffff
		t.emit(string(c))
	}
}
