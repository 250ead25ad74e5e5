package wire

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// message appends a message of the task. With ofTask, it has the member taskId. index is its place in the history.
func (w *writer) message(m *task.Message, index int, ofTask bool) {
	w.Buf = append(w.Buf, '{')
	if w.version == V03 {
		w.Text("kind", "message")
	}
	if w.version != V01 {
		w.messageID(m, index)
		w.Text("contextId", w.task.Context)
		if ofTask {
			w.Text("taskId", w.taskID())
		}
	}
	w.Text("role", roleName(w.version, m.Role))
	w.parts(m.Parts)
	w.Raw("metadata", m.Metadata)
	if w.version != V01 {
		if len(m.Extensions) > 0 {
			w.Texts("extensions", m.Extensions)
		}
		if len(m.References) > 0 {
			w.Texts("referenceTaskIds", m.References)
		}
	}
	w.Close()
}

// messageID appends the id of a message. Messages that were sent in 0.1 have none; their id is the task's id with their place
// in the history.
func (w *writer) messageID(m *task.Message, index int) {
	if m.ID != "" {
		w.Text("messageId", m.ID)
		return
	}
	w.Text("messageId", w.task.ID+"."+strconv.Itoa(index))
}

func roleName(v Version, r task.Role) string {
	switch {
	case r == task.User:
		return userRoles[v]
	case v == V10:
		return "ROLE_AGENT"
	}
	return "agent"
}

func (w *writer) parts(list []task.Part) {
	w.OpenArray("parts")
	for i := range list {
		w.Next()
		if w.version == V10 {
			w.part(&list[i])
		} else {
			w.partOfKind(&list[i])
		}
	}
	w.CloseArray()
}

// part appends a part of 1.0.
func (w *writer) part(p *task.Part) {
	w.Buf = append(w.Buf, '{')
	switch p.Kind {
	case front.PartData:
		w.data("data", p.Data)
	case front.PartBytes:
		w.Text("raw", p.Text)
	case front.PartURL:
		w.Text("url", p.Text)
	default:
		w.Text("text", p.Text)
	}
	w.Optional("filename", p.Filename)
	w.Optional("mediaType", p.MediaType)
	w.Raw("metadata", p.Metadata)
	w.Close()
}

// partOfKind appends a part of 0.3 or 0.1.
func (w *writer) partOfKind(p *task.Part) {
	name := "kind"
	if w.version == V01 {
		name = "type"
	}
	w.Buf = append(w.Buf, '{')
	switch p.Kind {
	case front.PartData:
		w.Text(name, "data")
		if p.Data.Kind() == '{' {
			w.data("data", p.Data)
		} else {
			w.OpenMember("data") // these versions allow only objects
			w.data("result", p.Data)
			w.Close()
		}
	case front.PartBytes, front.PartURL:
		w.Text(name, "file")
		w.OpenMember("file")
		if p.Kind == front.PartBytes {
			w.Text("bytes", p.Text)
		} else {
			w.Text("uri", p.Text)
		}
		w.Optional("name", p.Filename)
		w.Optional("mimeType", p.MediaType)
		w.Close()
	default:
		w.Text(name, "text")
		w.Text("text", p.Text)
	}
	w.Raw("metadata", p.Metadata)
	w.Close()
}

// data appends a value. A part that was read from a damaged record may have none.
func (w *writer) data(name string, value jsontext.Value) {
	w.Name(name)
	if len(value) == 0 {
		value = jsontext.Value("null")
	}
	w.Buf = append(w.Buf, value...)
}
