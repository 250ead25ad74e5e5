package skillsprotocol

import (
	"cmp"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// Bounds of what is quoted in answers, in characters.
const (
	maxMessage = 1000
	maxName    = 200
)

// builder appends JSON. Members stand in the order in which they are added, and
// raw values are copied as they are.
type builder struct{ buf []byte }

// next puts a comma where one is due: no JSON value ends in an opening bracket.
func (b *builder) next() {
	if n := len(b.buf); n > 0 && b.buf[n-1] != '{' && b.buf[n-1] != '[' {
		b.buf = append(b.buf, ',')
	}
}

func (b *builder) open()       { b.next(); b.buf = append(b.buf, '{') }
func (b *builder) close()      { b.buf = append(b.buf, '}') }
func (b *builder) closeArray() { b.buf = append(b.buf, ']') }

// name adds a member's name, which must need no escaping.
func (b *builder) name(name string) {
	b.next()
	b.buf = append(b.buf, '"')
	b.buf = append(b.buf, name...)
	b.buf = append(b.buf, '"', ':')
}

func (b *builder) openMember(name string) {
	b.name(name)
	b.buf = append(b.buf, '{')
}

func (b *builder) openArray(name string) {
	b.name(name)
	b.buf = append(b.buf, '[')
}

func (b *builder) text(name, value string) {
	b.name(name)
	b.buf = appendString(b.buf, value)
}

// optional adds a text unless it is empty.
func (b *builder) optional(name, value string) {
	if value != "" {
		b.text(name, value)
	}
}

// texts adds an array of texts.
func (b *builder) texts(name string, values []string) {
	b.openArray(name)
	for _, v := range values {
		b.next()
		b.buf = appendString(b.buf, v)
	}
	b.closeArray()
}

// raw adds a value unless there is none.
func (b *builder) raw(name string, value jsontext.Value) {
	if len(value) > 0 {
		b.name(name)
		b.buf = append(b.buf, value...)
	}
}

// limit adds which option of the operator's was exceeded.
func (b *builder) limit(name string, most int64) {
	b.openMember("details")
	b.text("limit", name)
	b.name("max")
	b.buf = strconv.AppendInt(b.buf, most, 10)
	b.close()
}

// advice adds the three members that every error has.
func (b *builder) advice(source skillsharing.Source, executed skillsharing.Executed, next translate.Next) {
	b.text("source", string(cmp.Or(source, skillsharing.SourceBridge)))
	b.text("executed", string(cmp.Or(executed, skillsharing.ExecutedMaybe)))
	b.text("next", string(cmp.Or(next, translate.NextNone)))
}

// findings adds what an error and its failure know beyond a code and a message.
func (b *builder) findings(f *translate.Failure, e *skillsharing.Error) {
	b.raw("details", e.Details)
	if len(e.Details) > 0 && e.DetailsSource == skillsharing.SourceProvider {
		b.text("details_source", string(skillsharing.SourceProvider))
	}
	b.raw("retry", e.Retry)
	b.advice(e.Source, e.Executed, f.Next)
}

// subject is what a failure is about, as far as the failure itself may not say.
type subject struct {
	name        string // as the agent wrote it
	skillID     string
	executionID string
	runToken    string // for coming back to the run; may be empty
}

// failureError makes the error of a call.
func failureError(f *translate.Failure, about subject) *jsonrpc.Error {
	e := cmp.Or(f.Err, &skillsharing.Error{})
	row := rowOf(f.Kind)
	if f.Kind == translate.RunFailed {
		// A run's end is answered as a result; where no run can have been, the bridge erred.
		row = codes[translate.Internal]
	}
	b := builder{buf: make([]byte, 0, 256+len(e.Details)+len(e.Retry))}
	b.open()
	if row.Name != "" && named(f.Kind, e.Source) {
		b.text("code", string(row.Name))
	}
	if row.Code == jsonrpc.CodeInvalidParams {
		b.argument(argumentOf(f.Kind, e))
	}
	b.optional("skill_id", cmp.Or(e.SkillID, about.skillID))
	if e.HTTPStatus != 0 {
		b.name("http_status")
		b.buf = strconv.AppendInt(b.buf, int64(e.HTTPStatus), 10)
	}
	b.optional("phase", string(e.Phase))
	b.optional("execution_id", cmp.Or(e.ExecutionID, about.executionID))
	b.optional("run_token", about.runToken)
	if f.Kind == translate.SkillNotFound && len(e.Details) == 0 {
		b.missing(e, about)
	}
	b.findings(f, e)
	b.close()
	message := messageOf(e.Message, row.Meaning)
	if f.NoneNear {
		message += " " + methodList + " tells which names there are."
	}
	return &jsonrpc.Error{Code: row.Code, Message: message, Data: b.buf}
}

// argument adds which of the agent's params is at fault.
func (b *builder) argument(a skillsharing.ArgumentError) {
	b.text("param", clean(a.Param, maxName))
	b.text("reason", a.Reason)
	b.optional("path", a.Path)
	if len(a.Candidates) > 0 {
		b.texts("candidates", a.Candidates)
	}
}

// argumentOf is the argument at fault, also where nobody has named it.
func argumentOf(kind translate.Kind, e *skillsharing.Error) skillsharing.ArgumentError {
	switch {
	case e.Arguments != nil:
		return *e.Arguments
	case kind == translate.SkillNotFound:
		return skillsharing.ArgumentError{Param: "name", Reason: "not_found"}
	case e.Source == skillsharing.SourceProvider:
		return skillsharing.ArgumentError{Param: "args", Reason: "rejected_by_provider"}
	}
	return skillsharing.ArgumentError{Param: "args", Reason: reasonInvalid}
}

// missing adds the details of SKILL_NOT_FOUND (Skill Sharing Protocol, section
// 8.3.4) where an error came without.
func (b *builder) missing(e *skillsharing.Error, about subject) {
	b.openMember("details")
	if id := cmp.Or(e.SkillID, about.skillID); id != "" {
		b.text("skill_id", id)
	} else {
		b.text("name", about.name)
	}
	b.close()
}

// messageOf never returns an empty message.
func messageOf(message, otherwise string) string {
	if s := clean(message, maxMessage); strings.TrimSpace(s) != "" {
		return s
	}
	return otherwise
}

// clean makes one bounded line of a text: control characters and line breaks
// become spaces, and characters that change the direction of text or can't be
// seen at all are left out, since they hide what a reader should see. A text that goes
// on and on with such is cut there.
func clean(s string, limit int) string {
	count, dirty := 0, false
	for _, r := range s {
		count++
		if count > limit || breaksLine(r) || misleads(r) || r == unicode.ReplacementChar {
			dirty = true
			break
		}
	}
	if !dirty {
		return s
	}
	var b strings.Builder
	count = 0
	for i, r := range s {
		unseen := misleads(r)
		if unseen && i < 16*limit {
			continue
		}
		if unseen || count == limit-1 {
			b.WriteRune('…')
			break
		}
		if breaksLine(r) {
			r = ' '
		}
		b.WriteRune(r)
		count++
	}
	return b.String()
}

func breaksLine(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
}

// misleads reports bidirectional controls, the byte order mark and tag characters.
func misleads(r rune) bool {
	switch {
	case r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
		return true
	case r >= 0xe0000 && r <= 0xe007f:
		return true
	}
	return r == '\u200e' || r == '\u200f' || r == '\u061c' || r == '\ufeff'
}

func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // the only error is bad UTF-8, which is replaced
	return b
}
