package wire

import (
	"bytes"
	"math"
	"slices"
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
	return "invalid"
}

// maxViolations is how many violations are reported.
const maxViolations = 20

// Descriptions of violations.
const (
	required = "is required"
	notList  = "must be an array"
	notMap   = "must be an object"
	notText  = "must be a string"
	// tooMany describes a list whose elements would take much more memory than their text.
	tooMany = "has too many small elements"
)

// decoder decodes the params of one request.
type decoder struct {
	version    Version
	violations []Violation
	// index replaces the brackets in the path of a violation. It is that of the list's element that is being read.
	index int
	// budget is how many bytes of memory the lists of the message may still take.
	budget int
}

// fault adds a violation, unless the field has one.
func (d *decoder) fault(field, description string) {
	field = strings.Replace(field, "[]", "["+strconv.Itoa(d.index)+"]", 1)
	if len(d.violations) < maxViolations && !slices.ContainsFunc(d.violations, func(v Violation) bool { return v.Field == field }) {
		d.violations = append(d.violations, Violation{field, description})
	}
}

// maxKnown is the largest number of members that an object has in any version.
const maxKnown = 10

// object is an object of the params with its known members. Its methods panic for the name of another one.
type object struct {
	*decoder
	path   string   // the prefix of its members' paths: empty, or ends in a dot
	known  []string // the names of its members
	values [maxKnown]jsonrpc.Member
}

// object reads an object. An absent object is one without members.
func (d *decoder) object(path string, known []string, from jsonrpc.Object) object {
	o := object{decoder: d, path: path, known: known}
	if len(from.Text) > 0 && from.Text.Kind() != '{' {
		o.faultOfAll(notMap)
	}
	for _, m := range from.Members {
		o.add(m)
	}
	if from.Members == nil {
		for name, value := range jsonrpc.Members(from.Text) {
			o.add(jsonrpc.Member{Name: name, Value: value})
		}
	}
	return o
}

// add adds a member, if its name is known.
func (o *object) add(m jsonrpc.Member) {
	name := jsonrpc.Unquote(m.Name)
	i := slices.IndexFunc(o.known, func(known string) bool { return known == string(name) })
	if i < 0 && o.version == V10 && bytes.IndexByte(name, '_') >= 0 {
		i = slices.IndexFunc(o.known, func(known string) bool { return isSnake(name, known) })
	}
	switch {
	case i < 0:
	case o.values[i].Value != nil:
		o.wrong(o.known[i], "must not appear twice")
	default:
		o.values[i] = m
	}
}

// isSnake reports whether a name is one in camel case written in snake case, as in the schema of Protocol Buffers.
func isSnake(name []byte, camel string) bool {
	return bytes.Equal(name, bytes.ToLower(name)) && strings.EqualFold(string(bytes.ReplaceAll(name, []byte("_"), nil)), camel)
}

// faultOfAll adds a violation of the object itself.
func (o *object) faultOfAll(description string) {
	if o.path == "" {
		o.fault("params", description)
		return
	}
	o.fault(strings.TrimSuffix(o.path, "."), description)
}

// wrong adds a violation of a member.
func (o *object) wrong(name, description string) { o.fault(o.path+name, description) }

// get returns a member as it was sent, also null.
func (o *object) get(name string) *jsonrpc.Member { return &o.values[slices.Index(o.known, name)] }

// has reports whether a member is present and not null.
func (o *object) has(name string) bool {
	v := o.get(name).Value
	return v != nil && !jsonrpc.IsNull(v)
}

// needs is has for a member that is required.
func (o *object) needs(name string) bool {
	if !o.has(name) {
		o.wrong(name, required)
		return false
	}
	return true
}

// value returns a member of a kind; nil: it is absent, or a violation because it is of another kind.
func (o *object) value(name string, kind jsontext.Kind, otherwise string) jsontext.Value {
	v := o.get(name).Value
	switch {
	case !o.has(name):
		return nil
	case v.Kind() != kind:
		o.wrong(name, otherwise)
		return nil
	}
	return v
}

// member returns a member that is an object. ok is false if it is absent or not an object.
func (o *object) member(name string, known []string) (m object, ok bool) {
	v := o.value(name, '{', notMap)
	if v == nil {
		return m, false
	}
	return o.object(o.path+name+".", known, jsonrpc.Object{Text: v, Members: o.get(name).Members}), true
}

// text returns a string, or "" if it is absent.
func (o *object) text(name string) string {
	if v := o.value(name, '"', notText); v != nil {
		return string(jsonrpc.Unquote(v))
	}
	return ""
}

// requiredText returns a string that must not be empty.
func (o *object) requiredText(name string) string {
	s := o.text(name)
	if o.needs(name) && s == "" {
		o.wrong(name, "must not be empty")
	}
	return s
}

// id returns an id, or "" if it is absent. In the JSON of Protocol Buffers, which 1.0 uses, an empty string is the same as absent.
func (o *object) id(name string) string {
	s := o.text(name)
	if !o.has(name) || s == "" && o.version == V10 {
		return ""
	}
	return o.requiredID(name)
}

// requiredID returns an id.
func (o *object) requiredID(name string) string {
	s := o.text(name)
	if problem := idProblem(s); o.needs(name) && problem != "" {
		o.wrong(name, problem)
	}
	return s
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
func (o *object) flag(name string, otherwise bool) bool {
	switch o.get(name).Value.Kind() {
	case 't':
		return true
	case 'f':
		return false
	}
	if o.has(name) {
		o.wrong(name, "must be true or false")
	}
	return otherwise
}

// count returns a whole number that is not negative, or nil if it is absent. 50.0 and 5e1 are whole numbers, too, since JSON does
// not distinguish integers (RFC 8259, section 6).
func (o *object) count(name string) *int {
	const otherwise = "must be a whole number, 0 or greater"
	v := o.value(name, '0', otherwise)
	if v == nil {
		return nil
	}
	f, _ := strconv.ParseFloat(string(v), 64) // valid JSON can only be out of range
	if f != math.Trunc(f) || f < 0 {
		o.wrong(name, otherwise)
		return nil
	}
	return new(int(min(f, math.MaxInt32)))
}

// raw returns an object as it was sent, or nil if it is absent.
func (o *object) raw(name string) jsontext.Value { return o.value(name, '{', notMap).Clone() }

// texts returns a list of strings, which may have to be ids. Their cost is taken from the budget.
func (o *object) texts(name string, ids bool) (list []string) {
	const cost = 16 // memory of a string without its text
	path := o.path + name + "[]"
	o.each(name, func(element jsontext.Value) bool {
		if element.Kind() != '"' {
			o.fault(path, notText)
			return true
		}
		if o.budget -= cost + len(element); o.budget < 0 {
			o.wrong(name, tooMany)
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
func (o *object) each(name string, do func(element jsontext.Value) bool) {
	if o.budget < 0 {
		return
	}
	o.index = 0
	for element := range jsonrpc.Items(o.value(name, '[', notList)) {
		goOn := len(o.violations) < maxViolations && do(element)
		if o.index++; !goOn {
			break
		}
	}
}

// base64 returns base64 text with padding in the standard alphabet. In the JSON of Protocol Buffers, which 1.0 uses, the
// text may also be in the alphabet for URLs, and without padding.
func (o *object) base64(name string) string {
	if v := o.get(name).Value; v.Kind() == '"' {
		if s, ok := front.Base64(jsonrpc.Unquote(v), o.version == V10); ok {
			return s
		}
	}
	o.wrong(name, "must be base64")
	return ""
}
