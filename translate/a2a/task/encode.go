package task

import (
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// encoder appends the JSON of a task. Package json takes ten times as long, and each version of a task is encoded.
type encoder struct{ front.Writer }

// encode returns the JSON of a task, which package json decodes.
func (t *Task) encode() []byte {
	e := encoder{front.Writer{Buf: make([]byte, 0, 512)}}
	e.Open()
	e.Optional("name", t.Name)
	e.Text("context", t.Context)
	e.Raw("inputs", t.Inputs)
	e.Optional("output_type", t.OutputType)
	e.Integer("timeout_ms", t.Timeout)
	e.Optional("priority", t.Priority)
	if !t.Deadline.IsZero() {
		e.time("deadline", t.Deadline)
	}
	e.OpenMember("status")
	e.Unsigned("state", uint64(t.Status.State))
	e.time("at", t.Status.At)
	if t.Status.Message != nil {
		e.Name("message")
		e.message(t.Status.Message)
	}
	e.Close()
	e.OpenArray("history")
	for i := range t.History {
		e.Next()
		e.message(&t.History[i])
	}
	e.CloseArray()
	e.Texts("warnings", t.Warnings)
	e.flag("pushed", t.Pushed)
	e.Unsigned("event", t.Event)
	e.OpenArray("news")
	for i := range t.News {
		n := &t.News[i]
		e.Open()
		e.Integer("version", n.Version)
		e.Unsigned("state", uint64(n.State))
		e.time("at", n.At)
		e.Integer("history", int64(n.History))
		e.flag("says", n.Says)
		e.flag("artifact", n.Artifact)
		e.Close()
	}
	e.CloseArray()
	e.Close()
	return e.Buf
}

func (e *encoder) message(m *Message) {
	e.Buf = append(e.Buf, '{')
	e.Optional("id", m.ID)
	e.Unsigned("role", uint64(m.Role))
	e.OpenArray("parts")
	for i := range m.Parts {
		p := &m.Parts[i]
		e.Open()
		e.Unsigned("kind", uint64(p.Kind))
		e.Optional("text", p.Text)
		e.Raw("data", p.Data)
		e.Optional("filename", p.Filename)
		e.Optional("mediaType", p.MediaType)
		e.Raw("metadata", p.Metadata)
		e.Close()
	}
	e.CloseArray()
	e.Raw("metadata", m.Metadata)
	if len(m.Extensions) > 0 {
		e.Texts("extensions", m.Extensions)
	}
	if len(m.References) > 0 {
		e.Texts("references", m.References)
	}
	e.Close()
}

// flag adds a boolean unless it is false.
func (e *encoder) flag(name string, is bool) {
	if is {
		e.Raw(name, []byte("true"))
	}
}

func (e *encoder) time(name string, t time.Time) {
	e.Name(name)
	e.Buf = append(t.AppendFormat(append(e.Buf, '"'), time.RFC3339Nano), '"')
}
