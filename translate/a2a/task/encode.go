package task

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// encoder appends the JSON of a task. It is the same as that of package json, which takes three times as long: each version of a task is encoded.
// A test compares them.
type encoder struct {
	front.Writer
	err error // the first one
}

// appendTask appends the JSON of a task.
func appendTask(b []byte, t *Task) ([]byte, error) {
	e := encoder{Writer: front.Writer{Buf: append(b, '{')}}
	e.Optional("name", t.Name)
	e.Text("context", t.Context)
	e.value("inputs", t.Inputs)
	e.Optional("output_type", t.OutputType)
	e.optionalInteger("timeout_ms", t.Timeout)
	e.Optional("priority", t.Priority)
	if !t.Deadline.IsZero() {
		e.time("deadline", t.Deadline)
	}
	e.status(&t.Status)
	if len(t.History) > 0 {
		e.OpenArray("history")
		for i := range t.History {
			e.Next()
			e.message(&t.History[i])
		}
		e.CloseArray()
	}
	if len(t.Warnings) > 0 {
		e.Texts("warnings", t.Warnings)
	}
	e.flag("pushed", t.Pushed)
	e.Unsigned("event", t.Event)
	if t.Told != 0 {
		e.Unsigned("told", t.Told)
	}
	if t.Before != 0 {
		e.Unsigned("before", t.Before)
	}
	if len(t.News) > 0 {
		e.OpenArray("news")
		for i := range t.News {
			e.Next()
			e.event(&t.News[i])
		}
		e.CloseArray()
	}
	e.Close()
	return e.Buf, e.err
}

func (e *encoder) event(n *Event) {
	e.Buf = append(e.Buf, '{')
	e.optionalInteger("version", n.Version)
	e.Text("state", n.State.String())
	e.time("at", n.At)
	e.Integer("history", int64(n.History))
	e.flag("says", n.Says)
	e.flag("artifact", n.Artifact)
	e.Close()
}

func (e *encoder) flag(name string, is bool) {
	if is {
		e.Name(name)
		e.Buf = append(e.Buf, "true"...)
	}
}

func (e *encoder) status(s *Status) {
	e.OpenMember("status")
	e.Text("state", s.State.String())
	e.time("at", s.At)
	if s.Message != nil {
		e.Name("message")
		e.message(s.Message)
	}
	e.Close()
}

func (e *encoder) message(m *Message) {
	e.Buf = append(e.Buf, '{')
	e.Optional("id", m.ID)
	e.Unsigned("role", uint64(m.Role))
	e.parts(m.Parts)
	e.value("metadata", m.Metadata)
	if len(m.Extensions) > 0 {
		e.Texts("extensions", m.Extensions)
	}
	if len(m.References) > 0 {
		e.Texts("references", m.References)
	}
	e.Close()
}

func (e *encoder) parts(parts []Part) {
	e.OpenArray("parts")
	for i := range parts {
		p := &parts[i]
		e.Open()
		e.Unsigned("kind", uint64(p.Kind))
		e.Optional("text", p.Text)
		e.value("data", p.Data)
		e.Optional("filename", p.Filename)
		e.Optional("mediaType", p.MediaType)
		e.value("metadata", p.Metadata)
		e.Close()
	}
	e.CloseArray()
}

func (e *encoder) optionalInteger(name string, n int64) {
	if n != 0 {
		e.Integer(name, n)
	}
}

// time adds a time. The error is that for one which has no form in RFC 3339.
func (e *encoder) time(name string, t time.Time) {
	e.Name(name)
	e.Buf = append(e.Buf, '"')
	b, err := t.AppendText(e.Buf)
	e.Buf = append(b, '"')
	e.fail(err)
}

// value adds a value without the whitespace between its tokens, unless it is nil. Values were parsed when they were read, so compact ones
// are copied.
func (e *encoder) value(name string, v jsontext.Value) {
	if v == nil {
		return
	}
	e.Name(name)
	if isCompact(v) {
		e.Buf = append(e.Buf, v...)
		return
	}
	b, err := jsontext.AppendFormat(e.Buf, v, notesOptions)
	e.Buf = b
	e.fail(err)
}

// isCompact reports whether a valid value has no whitespace between its tokens.
func isCompact(v jsontext.Value) bool {
	text := false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			text = !text
		case text && c == '\\':
			i++
		case !text && c <= ' ':
			return false
		}
	}
	return len(v) > 0
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}
