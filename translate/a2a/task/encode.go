package task

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// encoder appends the JSON of a task. It is the same as that of package json, which takes three times as long: each task is encoded at
// least once. A test compares them.
type encoder struct {
	front.Writer
	err error // the first one
}

// appendTask appends the JSON of a task.
func appendTask(b []byte, t *Task) ([]byte, error) {
	e := encoder{Writer: front.Writer{Buf: append(b, '{')}}
	e.Text("id", t.ID)
	e.Optional("name", t.Name)
	e.Text("context", t.Context)
	e.Optional("skill", t.Skill)
	e.value("inputs", t.Inputs)
	e.ref(&t.Ref)
	e.Optional("output_type", t.OutputType)
	e.optionalInteger("timeout_ms", t.Timeout)
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
	if t.Artifact != nil {
		e.OpenMember("artifact")
		e.parts(t.Artifact.Parts)
		e.Close()
	}
	if len(t.Warnings) > 0 {
		e.Texts("warnings", t.Warnings)
	}
	if len(t.Push) > 0 {
		e.OpenArray("push")
		for i := range t.Push {
			e.Next()
			e.push(&t.Push[i])
		}
		e.CloseArray()
	}
	e.Unsigned("event", t.Event)
	if t.Told != 0 {
		e.Unsigned("told", t.Told)
	}
	e.time("created", t.Created)
	e.Close()
	return e.Buf, e.err
}

func (e *encoder) ref(r *run.Ref) {
	if *r == (run.Ref{}) {
		return
	}
	e.OpenMember("ref")
	e.Text("Source", r.Source)
	e.Text("SkillID", r.SkillID)
	e.Text("Version", r.Version)
	e.Text("ExecutionID", r.ExecutionID)
	e.time("Accepted", r.Accepted)
	e.time("NotBefore", r.NotBefore)
	e.Close()
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

func (e *encoder) push(p *PushConfig) {
	e.Buf = append(e.Buf, '{')
	e.Text("id", p.ID)
	e.Text("url", p.URL)
	e.Optional("secrets", p.Secrets)
	e.Optional("scheme", p.Scheme)
	e.Text("version", p.Version)
	e.Unsigned("set", p.Set)
	e.Unsigned("sent", p.Sent)
	e.optionalInteger("lost", int64(p.Lost))
	e.Close()
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
	b, err := jsontext.AppendFormat(e.Buf, v, recordOptions)
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
