package wire

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// userRoles are the roles that the messages of a client have, by version.
var userRoles = [...]string{V01: "user", V03: "user", V10: "ROLE_USER"}

// The lists of a message may take listMemory bytes of memory, and listMemoryPerByte bytes for each byte of its JSON. Ordinary
// messages take far less; a message that consists of empty parts would take ten times its JSON.
const (
	listMemory        = 256 << 10
	listMemoryPerByte = 4
)

// The members of the objects in params, in any version.
var (
	sendNames          = []string{"message", "metadata", "configuration", "tenant", "id", "sessionId", "historyLength", "pushNotification"}
	configurationNames = []string{"historyLength", "returnImmediately", "blocking", "taskPushNotificationConfig", "pushNotificationConfig"}
	messageNames       = []string{"role", "parts", "metadata", "messageId", "contextId", "taskId", "extensions", "referenceTaskIds", "kind"}
	partNames          = []string{"text", "data", "metadata", "filename", "mediaType", "raw", "url", "kind", "type", "file"}
	fileNames          = []string{"bytes", "uri", "name", "mimeType"}
	queryNames         = []string{"id", "historyLength", "tenant"}
	listNames          = []string{"contextId", "status", "pageSize", "pageToken", "historyLength", "statusTimestampAfter", "includeArtifacts", "tenant"}
	pushNames          = []string{"url", "token", "authentication", "id", "taskId", "tenant", "pushNotificationConfig", "pushNotificationConfigId"}
	authNames          = []string{"scheme", "schemes", "credentials"}
)

// Send are the params of the methods that send a message.
type Send struct {
	// Task is the id of the task that the message is for; empty: a new one. In 0.1 the client chooses it, and it is never
	// empty.
	Task string
	// Context is the id of the conversation; empty: the client has not named one.
	Context string
	Message task.Message
	// Immediately says that the client gets its answer without waiting for the end of the run.
	Immediately bool
	// HistoryLength is the largest number of messages in the answer; nil: the default of the version.
	HistoryLength *int
	// Push is a webhook for the task; nil: none.
	Push *PushParams
	// Metadata is the metadata of the request, an object; nil: none.
	Metadata jsontext.Value
	// Tenant is a member of 1.0; empty: none.
	Tenant string
}

// DecodeSend decodes the params of the methods that send a message.
func DecodeSend(v Version, params jsonrpc.Object) (Send, []Violation) {
	d := decoder{version: v}
	o := d.object("", sendNames, params)
	s := Send{Metadata: o.raw("metadata")}
	if v == V01 {
		s.Task, s.Context = o.requiredID("id"), o.id("sessionId")
		s.HistoryLength = o.count("historyLength")
		s.Push = decodeInline(&o, "pushNotification")
	} else if c, ok := o.member("configuration", configurationNames); ok {
		s.HistoryLength = c.count("historyLength")
		if v == V10 {
			s.Immediately = c.flag("returnImmediately", false)
			s.Push = decodeInline(&c, "taskPushNotificationConfig")
		} else {
			s.Immediately = !c.flag("blocking", true)
			s.Push = decodeInline(&c, "pushNotificationConfig")
		}
	}
	if v == V10 {
		s.Tenant = o.text("tenant")
	}
	o.needs("message")
	if m, ok := o.member("message", messageNames); ok {
		d.budget = listMemory + listMemoryPerByte*len(o.get("message").Value)
		decodeMessage(&m, &s)
	}
	return s, d.violations
}

// decodeMessage decodes a message.
func decodeMessage(o *object, s *Send) {
	m := &s.Message
	m.Role = task.User
	m.Metadata = o.raw("metadata")
	if role := o.get("role").Value; o.needs("role") && (role.Kind() != '"' || string(jsonrpc.Unquote(role)) != userRoles[o.version]) {
		o.wrong("role", "must be "+userRoles[o.version])
	}
	if o.version != V01 {
		m.ID = o.requiredID("messageId")
		s.Context, s.Task = o.id("contextId"), o.id("taskId")
		m.Extensions, m.References = o.texts("extensions", false), o.texts("referenceTaskIds", true)
	}
	if o.version == V03 && o.has("kind") && o.text("kind") != "message" {
		o.wrong("kind", "must be message")
	}
	if o.needs("parts") {
		m.Parts = decodeParts(o)
	}
}

// decodeParts decodes the parts of a message.
func decodeParts(o *object) (list []task.Part) {
	const cost = 128 // memory of a part without its text
	o.each("parts", func(element jsontext.Value) bool {
		p := o.object("message.parts[].", partNames, jsonrpc.Object{Text: element})
		if element.Kind() != '{' {
			return true
		}
		if o.budget -= cost + len(element); o.budget < 0 {
			o.wrong("parts", tooMany)
			return false
		}
		made := task.Part{Metadata: p.raw("metadata")}
		switch o.version {
		case V10:
			made.Part = decodePart(&p)
		case V03:
			made.Part = decodePartOfKind(&p, "kind")
		case V01:
			made.Part = decodePartOfKind(&p, "type")
		}
		list = append(list, made)
		return true
	})
	if o.index == 0 {
		o.wrong("parts", "must have at least one part")
	}
	return list
}

// decodePart decodes the content of a part of 1.0. Null is the same as absent, except in the member data: in Protocol Buffers,
// null is a value of this member. So a part that has only null as its data has data, and one that also has a text has the text.
func decodePart(o *object) front.Part {
	p := front.Part{Filename: o.text("filename"), MediaType: o.text("mediaType")}
	contents, content := 0, ""
	for _, name := range [...]string{"text", "raw", "url", "data"} {
		if o.has(name) {
			contents, content = contents+1, name
		}
	}
	data := o.get("data").Value
	switch {
	case contents == 0 && data != nil:
		p.Kind, p.Data = front.PartData, jsontext.Value("null")
	case contents != 1:
		o.faultOfAll("must have exactly one of text, raw, url and data")
	case content == "text":
		p.Kind, p.Text = front.PartText, o.text("text")
	case content == "raw":
		p.Kind, p.Text = front.PartBytes, o.base64("raw")
	case content == "url":
		p.Kind, p.Text = front.PartURL, o.requiredText("url")
	default:
		p.Kind, p.Data = front.PartData, data.Clone()
	}
	return p
}

// decodePartOfKind decodes the content of a part of 0.3 or 0.1. kind is the name of the member that says what it has.
func decodePartOfKind(o *object, kind string) (p front.Part) {
	if !o.needs(kind) {
		return p
	}
	content := o.text(kind)
	if content != "text" && content != "data" && content != "file" {
		o.wrong(kind, "must be text, file or data")
		return p
	}
	o.needs(content)
	switch content {
	case "text":
		p.Kind, p.Text = front.PartText, o.text("text")
	case "data":
		p.Kind, p.Data = front.PartData, o.raw("data")
	case "file":
		f, ok := o.member("file", fileNames)
		if !ok {
			break
		}
		p.Filename, p.MediaType = f.text("name"), f.text("mimeType")
		switch {
		case f.has("bytes") == f.has("uri"):
			f.faultOfAll("must have either bytes or uri")
		case f.has("bytes"):
			p.Kind, p.Text = front.PartBytes, f.base64("bytes")
		default:
			p.Kind, p.Text = front.PartURL, f.requiredText("uri")
		}
	}
	return p
}

// TaskQuery are the params of the methods that read, cancel or watch one task.
type TaskQuery struct {
	ID string
	// HistoryLength is the largest number of messages in the answer; nil: the default of the version.
	HistoryLength *int
	// Tenant is a member of 1.0; empty: none.
	Tenant string
}

// DecodeTaskQuery decodes the params of the methods that read, cancel or watch one task.
func DecodeTaskQuery(v Version, params jsonrpc.Object) (TaskQuery, []Violation) {
	d := decoder{version: v}
	o := d.object("", queryNames, params)
	q := TaskQuery{ID: o.requiredID("id"), HistoryLength: o.count("historyLength")}
	if v == V10 {
		q.Tenant = o.text("tenant")
	}
	return q, d.violations
}

// ListQuery are the params of ListTasks, which only 1.0 has.
type ListQuery struct {
	Context   string     // empty: all
	State     task.State // 0: all
	PageSize  int
	PageToken string
	// HistoryLength is the largest number of messages of each task in the answer; nil: all.
	HistoryLength *int
	// Since selects tasks whose status has this time or a later one; zero: all.
	Since time.Time
	// Artifacts says that the answer has the artifacts of the tasks.
	Artifacts bool
	Tenant    string // empty: none
}

// DefaultPageSize is the page size of ListTasks if the params have none.
const DefaultPageSize = 50

// DecodeList decodes the params of ListTasks.
func DecodeList(params jsonrpc.Object) (ListQuery, []Violation) {
	d := decoder{version: V10}
	o := d.object("", listNames, params)
	q := ListQuery{
		Context: o.id("contextId"), PageSize: DefaultPageSize, PageToken: o.text("pageToken"), HistoryLength: o.count("historyLength"),
		Artifacts: o.flag("includeArtifacts", false), Tenant: o.text("tenant"),
	}
	if n := o.count("pageSize"); n != nil {
		if q.PageSize = *n; q.PageSize < 1 || q.PageSize > 100 {
			o.wrong("pageSize", "must be from 1 to 100")
		}
	}
	if name := o.text("status"); o.has("status") {
		i := slices.Index(stateNames[:], name)
		if i < 0 {
			o.wrong("status", "must be the name of a state, such as TASK_STATE_WORKING")
		}
		q.State = task.State(max(i, 0)) //nolint:gosec // there are nine names
	}
	if text := o.text("statusTimestampAfter"); o.has("statusTimestampAfter") {
		var err error
		if q.Since, err = time.Parse(time.RFC3339Nano, text); err != nil {
			o.wrong("statusTimestampAfter", "must be a time such as 2025-10-28T10:30:00.000Z")
		}
	}
	return q, d.violations
}
