package wire

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Violation is an error in a member of params.
type Violation struct {
	// Field is the path of the member, such as message.parts[0].data.
	Field string
	// Description is the rest of a sentence that begins with the field, such as "must be an object".
	Description string
}

// Reason returns the reason in reports.
func (v *Violation) Reason() run.Reason {
	if v.Description == required {
		return run.Required
	}
	return reasonInvalid
}

// reasonInvalid is the reason of all violations but those by absent members.
const reasonInvalid run.Reason = "invalid"

// maxViolations is how many violations are reported.
const maxViolations = 20

// required describes a member that is absent.
const required = "is required"

// decoder decodes the params of one request.
type decoder struct {
	version    Version
	violations []Violation
	// index replaces the brackets in the path of a violation. It is that of the list's element that is being read.
	index int
	// budget is how many bytes of memory the lists of the message may still take.
	budget int
}

// fault adds a violation.
func (d *decoder) fault(field, description string) {
	if len(d.violations) < maxViolations {
		field = strings.Replace(field, "[]", "["+strconv.Itoa(d.index)+"]", 1)
		d.violations = append(d.violations, Violation{field, description})
	}
}

// full reports whether there are maxViolations, so that further ones would not be reported.
func (d *decoder) full() bool { return len(d.violations) == maxViolations }

// maxKnown is the largest number of members that an object has in any version.
const maxKnown = 9

// object is an object of the params with its known members.
type object struct {
	*decoder
	path   string   // the prefix of its members' paths: empty, or ends in a dot
	known  []string // the names of its members
	values [maxKnown]jsonrpc.Member
	seen   uint16 // one bit for each known member that is there, also as null
}

// object reads an object. An absent object is one without members.
func (d *decoder) object(path string, known []string, from jsonrpc.Object) object {
	o := object{decoder: d, path: path, known: known}
	if len(from.Text) > 0 && from.Text.Kind() != '{' {
		o.fault(o.name(), "must be an object")
	}
	for _, m := range from.Members {
		o.add(m)
	}
	if from.Members == nil {
		jsonrpc.EachMember(from.Text, func(name, value jsontext.Value) bool {
			o.add(jsonrpc.Member{Name: name, Value: value})
			return true
		})
	}
	return o
}

// add adds a member, if its name is known. has treats null as absent.
func (o *object) add(m jsonrpc.Member) {
	i := o.indexOf(jsonrpc.Unquote(m.Name))
	if i < 0 {
		return
	}
	if o.seen&(1<<i) != 0 {
		o.wrong(i, "must not appear twice")
		return
	}
	o.seen |= 1 << i
	if m.Value.Kind() != 'n' {
		o.values[i] = m
	}
}

// indexOf returns the index of a known name, or -1. In 1.0, a name may also be in snake case, as in the schema of
// Protocol Buffers.
func (o *object) indexOf(name []byte) int {
	for i, known := range o.known {
		if known == string(name) {
			return i
		}
	}
	if o.version != V10 || bytes.IndexByte(name, '_') < 0 {
		return -1
	}
	for i, known := range o.known {
		if isSnake(name, known) {
			return i
		}
	}
	return -1
}

// isSnake reports whether a name is a name in camel case written in snake case.
func isSnake(name []byte, camel string) bool {
	n := 0
	for i := range len(camel) {
		c := camel[i]
		if c >= 'A' && c <= 'Z' {
			if n == len(name) || name[n] != '_' {
				return false
			}
			n++
			c += 'a' - 'A'
		}
		if n == len(name) || name[n] != c {
			return false
		}
		n++
	}
	return n == len(name)
}

// name returns the path of the object itself.
func (o *object) name() string {
	if o.path == "" {
		return "params"
	}
	return strings.TrimSuffix(o.path, ".")
}

// wrong adds a violation of a member.
func (o *object) wrong(i int, description string) { o.fault(o.path+o.known[i], description) }

// has reports whether a member is present and not null.
func (o *object) has(i int) bool { return o.values[i].Value != nil }

// member returns a member that is an object. ok is false if it is absent or not an object.
func (o *object) member(i int, known []string) (m object, ok bool) {
	v := &o.values[i]
	switch v.Value.Kind() {
	case '{':
		return o.object(o.path+o.known[i]+".", known, jsonrpc.Object{Text: v.Value, Members: v.Members}), true
	case jsontext.KindInvalid:
	default:
		o.wrong(i, "must be an object")
	}
	return m, false
}

// text returns a string, or "" if it is absent.
func (o *object) text(i int) string {
	switch v := o.values[i].Value; v.Kind() {
	case '"':
		return string(jsonrpc.Unquote(v))
	case jsontext.KindInvalid:
	default:
		o.wrong(i, "must be a string")
	}
	return ""
}

// requiredText returns a string that must not be empty.
func (o *object) requiredText(i int) string {
	if !o.has(i) {
		o.wrong(i, required)
		return ""
	}
	n := len(o.violations)
	s := o.text(i)
	if s == "" && n == len(o.violations) {
		o.wrong(i, "must not be empty")
	}
	return s
}

// id returns an id, or "" if it is absent. In the JSON of Protocol Buffers, which 1.0 uses, an empty string is the same as absent.
func (o *object) id(i int) string {
	if !o.has(i) {
		return ""
	}
	n := len(o.violations)
	s := o.text(i)
	if s == "" && o.version == V10 || n < len(o.violations) {
		return ""
	}
	o.checkID(i, s)
	return s
}

// requiredID returns an id.
func (o *object) requiredID(i int) string {
	if !o.has(i) {
		o.wrong(i, required)
		return ""
	}
	n := len(o.violations)
	s := o.text(i)
	if n == len(o.violations) {
		o.checkID(i, s)
	}
	return s
}

func (o *object) checkID(i int, s string) {
	if problem := idProblem(s); problem != "" {
		o.wrong(i, problem)
	}
}

// idProblem returns what is wrong with an id; empty: nothing. People read ids in logs and lists, so that they must have no characters
// that end a line, change the direction of text or can't be seen.
func idProblem(s string) string {
	switch {
	case s == "" || len(s) > maxID && utf8.RuneCountInString(s) > maxID:
		return "must have from 1 to 256 characters"
	case !safetext.Printable(s):
		return "must have no control characters and no invisible ones"
	}
	return ""
}

// flag returns a boolean, or the parameter otherwise if it is absent.
func (o *object) flag(i int, otherwise bool) bool {
	switch o.values[i].Value.Kind() {
	case 't':
		return true
	case 'f':
		return false
	case jsontext.KindInvalid:
	default:
		o.wrong(i, "must be true or false")
	}
	return otherwise
}

// count returns a whole number that is not negative, or nil if it is absent. 50.0 and 5e1 are whole numbers, too, since JSON does
// not distinguish integers (RFC 8259, section 6).
func (o *object) count(i int) *int {
	v := o.values[i].Value
	if v == nil {
		return nil
	}
	f := -1.0
	if v.Kind() == '0' {
		f, _ = strconv.ParseFloat(string(v), 64) // valid JSON can only be out of range
	}
	if f != math.Trunc(f) || f < 0 {
		o.wrong(i, "must be a whole number, 0 or greater")
		return nil
	}
	n := int(min(f, math.MaxInt32))
	return &n
}

// raw returns an object as it was sent, or nil if it is absent.
func (o *object) raw(i int) jsontext.Value {
	v := o.values[i].Value
	if v == nil {
		return nil
	}
	if v.Kind() != '{' {
		o.wrong(i, "must be an object")
		return nil
	}
	return v.Clone()
}

// texts returns a list of strings, which may have to be ids. Their cost is taken from the budget.
func (o *object) texts(i int, ids bool) (list []string) {
	const cost = 16 // memory of a string without its text
	path := o.path + o.known[i] + "[]"
	o.each(i, func(element jsontext.Value) bool {
		if element.Kind() != '"' {
			o.fault(path, "must be a string")
			return true
		}
		if o.budget -= cost + len(element); o.budget < 0 {
			o.wrong(i, tooMany)
			return false
		}
		s := string(jsonrpc.Unquote(element))
		if problem := idProblem(s); ids && problem != "" {
			o.fault(path, problem)
		}
		list = append(list, s)
		return true
	})
	return list
}

// each calls a function for each element of a member that is an array, until it returns false or no further violations are reported.
func (o *object) each(i int, do func(element jsontext.Value) bool) {
	v := o.values[i].Value
	if v == nil || o.budget < 0 {
		return
	}
	if v.Kind() != '[' {
		o.wrong(i, "must be an array")
		return
	}
	o.index = 0
	jsonrpc.EachItem(v, func(element jsontext.Value) bool {
		goOn := !o.full() && do(element)
		o.index++
		return goOn
	})
}

// tooMany describes a list whose elements would take much more memory than their text.
const tooMany = "has too many small elements"

// base64 returns base64 text with padding in the standard alphabet. In the JSON of Protocol Buffers, which 1.0 uses, the
// text may also be in the alphabet for URLs, and without padding.
func (o *object) base64(i int) string {
	if v := o.values[i].Value; v.Kind() == '"' {
		if s, ok := front.Base64(jsonrpc.Unquote(v), o.version == V10); ok {
			return s
		}
	}
	o.wrong(i, "must be base64")
	return ""
}
