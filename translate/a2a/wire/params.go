package wire

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// The members of a message. Those of 0.1 come first.
const (
	messageRole = iota
	messageParts
	messageMetadata
	messageID
	messageContext
	messageTask
	messageExtensions
	messageReferences
	messageKind
)

var messageNames = [...][]string{
	V01: {"role", "parts", "metadata"},
	V03: {"role", "parts", "metadata", "messageId", "contextId", "taskId", "extensions", "referenceTaskIds", "kind"},
	V10: {"role", "parts", "metadata", "messageId", "contextId", "taskId", "extensions", "referenceTaskIds"},
}

// userRoles are the roles that the messages of a client have, by version.
var userRoles = [...]string{V01: "user", V03: "user", V10: "ROLE_USER"}

// The lists of a message may take listMemory bytes of memory, and listMemoryPerByte bytes for each byte of its JSON. Ordinary
// messages take far less; a message that consists of empty parts would take ten times its JSON.
const (
	listMemory        = 256 << 10
	listMemoryPerByte = 4
)

// decodeMessage decodes a message.
func decodeMessage(o *object, s *Send) {
	m := &s.Message
	m.Role = task.User
	m.Metadata = o.raw(messageMetadata)
	switch role := o.values[messageRole].Value; {
	case role == nil:
		o.wrong(messageRole, required)
	case role.Kind() != '"' || string(jsonrpc.Unquote(role)) != userRoles[o.version]:
		o.wrong(messageRole, "must be "+userRoles[o.version])
	}
	if o.version != V01 {
		m.ID = o.requiredID(messageID)
		s.Context, s.Task = o.id(messageContext), o.id(messageTask)
		m.Extensions, m.References = o.texts(messageExtensions, false), o.texts(messageReferences, true)
	}
	if o.version == V03 && o.has(messageKind) && o.text(messageKind) != "message" {
		o.wrong(messageKind, "must be message")
	}
	m.Parts = decodeParts(o)
}

// decodeParts decodes the parts of a message.
func decodeParts(o *object) []task.Part {
	const cost = 128 // memory of a part without its text
	value := o.values[messageParts].Value
	if value == nil {
		o.wrong(messageParts, required)
		return nil
	}
	var list []task.Part
	o.each(messageParts, func(element jsontext.Value) bool {
		p := o.object("message.parts[].", partNames[o.version], jsonrpc.Object{Text: element})
		if element.Kind() != '{' {
			return true
		}
		if o.budget -= cost + len(element); o.budget < 0 {
			o.wrong(messageParts, tooMany)
			return false
		}
		list = append(list, decodePart(&p))
		return true
	})
	if value.Kind() == '[' && o.index == 0 {
		o.wrong(messageParts, "must have at least one part")
	}
	return list
}

// The members of a part, and of the file in a part of 0.3 and 0.1.
const (
	partText = iota
	partData
	partMetadata
	partFilename
	partMediaType
	partRaw
	partURL
	partKind = iota - 4 // 0.3 and 0.1 have these instead of the four above
	partFile = iota - 4
)

const (
	fileBytes = iota
	fileURI
	fileName
	fileMimeType
)

var (
	partNames = [...][]string{
		V01: {"text", "data", "metadata", "type", "file"},
		V03: {"text", "data", "metadata", "kind", "file"},
		V10: {"text", "data", "metadata", "filename", "mediaType", "raw", "url"},
	}
	fileNames = []string{"bytes", "uri", "name", "mimeType"}
)

// decodePart decodes a part.
func decodePart(o *object) task.Part {
	p := task.Part{Metadata: o.raw(partMetadata)}
	if o.version == V10 {
		p.Part = decodeContent(o)
	} else {
		p.Part = decodeContentOfKind(o)
	}
	return p
}

// decodeContent decodes the content of a part of 1.0. Null is the same as absent, except in the member data: in Protocol Buffers,
// null is a value of this member. So a part that has only null as its data has data, and one that also has a text has the text.
func decodeContent(o *object) front.Part {
	p := front.Part{Filename: o.text(partFilename), MediaType: o.text(partMediaType)}
	contents := 0
	for _, c := range [...]struct {
		member int
		kind   front.PartKind
	}{{partText, front.PartText}, {partRaw, front.PartBytes}, {partURL, front.PartURL}, {partData, front.PartData}} {
		if o.has(c.member) {
			contents++
			p.Kind = c.kind
		}
	}
	if contents == 0 && o.seen&(1<<partData) != 0 {
		p.Kind, p.Data = front.PartData, jsontext.Value("null")
		return p
	}
	if contents != 1 {
		o.fault(o.name(), "must have exactly one of text, raw, url and data")
		return p
	}
	switch p.Kind {
	case front.PartText:
		p.Text = o.text(partText)
	case front.PartBytes:
		p.Text = o.base64(partRaw)
	case front.PartURL:
		p.Text = o.requiredText(partURL)
	case front.PartData:
		p.Data = o.values[partData].Value.Clone()
	}
	return p
}

// decodeContentOfKind decodes the content of a part of 0.3 or 0.1.
func decodeContentOfKind(o *object) (p front.Part) {
	if !o.has(partKind) {
		o.wrong(partKind, required)
		return p
	}
	var content int
	switch o.text(partKind) {
	case "text":
		p.Kind, content = front.PartText, partText
	case "data":
		p.Kind, content = front.PartData, partData
	case "file":
		content = partFile
	default:
		o.wrong(partKind, "must be text, file or data")
		return p
	}
	if !o.has(content) {
		o.wrong(content, required)
		return p
	}
	switch content {
	case partText:
		p.Text = o.text(partText)
	case partData:
		p.Data = o.raw(partData)
	case partFile:
		if f, ok := o.member(partFile, fileNames); ok {
			p = decodeFile(&f)
		}
	}
	return p
}

// decodeFile decodes the file of a part of 0.3 or 0.1.
func decodeFile(o *object) front.Part {
	p := front.Part{Filename: o.text(fileName), MediaType: o.text(fileMimeType)}
	switch {
	case o.has(fileBytes) == o.has(fileURI):
		o.fault(o.name(), "must have either bytes or uri")
	case o.has(fileBytes):
		p.Kind, p.Text = front.PartBytes, o.base64(fileBytes)
	default:
		p.Kind, p.Text = front.PartURL, o.requiredText(fileURI)
	}
	return p
}

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

// The members of the params that send a message, and of their configuration.
const (
	sendMessage = iota
	sendMetadata
	sendConfiguration
	sendTenant
	sendID      = iota - 2 // 0.1 has these three instead of the two above
	sendSession = iota - 2
	sendHistoryLength
	sendPush
)

const (
	configurationHistoryLength = iota
	configurationWaiting
	configurationPush
)

var (
	sendNames = [...][]string{
		V01: {"message", "metadata", "id", "sessionId", "historyLength", "pushNotification"},
		V03: {"message", "metadata", "configuration"},
		V10: {"message", "metadata", "configuration", "tenant"},
	}
	configurationNames = [...][]string{
		V03: {"historyLength", "blocking", "pushNotificationConfig"},
		V10: {"historyLength", "returnImmediately", "taskPushNotificationConfig"},
	}
)

// DecodeSend decodes the params of the methods that send a message.
func DecodeSend(v Version, params jsonrpc.Object) (Send, []Violation) {
	d := decoder{version: v}
	o := d.object("", sendNames[v], params)
	s := Send{Metadata: o.raw(sendMetadata)}
	if v == V01 {
		s.Task, s.Context = o.requiredID(sendID), o.id(sendSession)
		s.HistoryLength = o.count(sendHistoryLength)
		s.Push = decodeInline(&o, sendPush)
	} else if c, ok := o.member(sendConfiguration, configurationNames[v]); ok {
		decodeConfiguration(&c, &s)
	}
	if v == V10 {
		s.Tenant = o.text(sendTenant)
	}
	if !o.has(sendMessage) {
		o.wrong(sendMessage, required)
	}
	if m, ok := o.member(sendMessage, messageNames[v]); ok {
		d.budget = listMemory + listMemoryPerByte*len(o.values[sendMessage].Value)
		decodeMessage(&m, &s)
	}
	return s, d.violations
}

// decodeConfiguration decodes the configuration of 1.0 and 0.3.
func decodeConfiguration(o *object, s *Send) {
	s.HistoryLength = o.count(configurationHistoryLength)
	s.Immediately = o.flag(configurationWaiting, o.version == V03) == (o.version == V10)
	s.Push = decodeInline(o, configurationPush)
}

// TaskQuery are the params of the methods that read, cancel or watch one task.
type TaskQuery struct {
	ID string
	// HistoryLength is the largest number of messages in the answer; nil: the default of the version.
	HistoryLength *int
	// Tenant is a member of 1.0; empty: none.
	Tenant string
}

const (
	queryID = iota
	queryHistoryLength
	queryTenant
)

var queryNames = []string{"id", "historyLength", "tenant"}

// DecodeTaskQuery decodes the params of the methods that read, cancel or watch one task.
func DecodeTaskQuery(v Version, params jsonrpc.Object) (TaskQuery, []Violation) {
	d := decoder{version: v}
	o := d.object("", queryNames, params)
	q := TaskQuery{ID: o.requiredID(queryID), HistoryLength: o.count(queryHistoryLength)}
	if v == V10 {
		q.Tenant = o.text(queryTenant)
	}
	return q, d.violations
}

// ListQuery are the params of ListTasks, which only 1.0 has.
type ListQuery struct {
	Context   string     // empty: all
	State     task.State // 0: all
	PageSize  int        // 0: the default
	PageToken string
	// HistoryLength is the largest number of messages of each task in the answer; nil: all.
	HistoryLength *int
	// Since selects tasks whose status has this time or a later one; zero: all.
	Since time.Time
	// Artifacts says that the answer has the artifacts of the tasks.
	Artifacts bool
	Tenant    string // empty: none
}

const (
	listContext = iota
	listStatus
	listPageSize
	listPageToken
	listHistoryLength
	listSince
	listArtifacts
	listTenant
)

var listNames = []string{"contextId", "status", "pageSize", "pageToken", "historyLength", "statusTimestampAfter", "includeArtifacts", "tenant"}

// DefaultPageSize is the page size of ListTasks if the params have none.
const DefaultPageSize = 50

const maxPageSize = 100

// DecodeList decodes the params of ListTasks.
func DecodeList(params jsonrpc.Object) (ListQuery, []Violation) {
	d := decoder{version: V10}
	o := d.object("", listNames, params)
	q := ListQuery{
		Context: o.id(listContext), PageToken: o.text(listPageToken), HistoryLength: o.count(listHistoryLength),
		Artifacts: o.flag(listArtifacts, false), Tenant: o.text(listTenant),
	}
	if o.has(listPageSize) {
		n := o.count(listPageSize)
		switch {
		case n == nil:
		case *n < 1 || *n > maxPageSize:
			o.wrong(listPageSize, "must be from 1 to 100")
		default:
			q.PageSize = *n
		}
	}
	if o.has(listStatus) {
		n := len(d.violations)
		i := slices.Index(stateNames[:], o.text(listStatus))
		if i < 0 {
			if n == len(d.violations) {
				o.wrong(listStatus, "must be the name of a state, such as TASK_STATE_WORKING")
			}
			i = 0
		}
		q.State = task.State(i)
	}
	if o.has(listSince) {
		n := len(d.violations)
		var err error
		if q.Since, err = time.Parse(time.RFC3339Nano, o.text(listSince)); err != nil && n == len(d.violations) {
			o.wrong(listSince, "must be a time such as 2025-10-28T10:30:00.000Z")
		}
	}
	return q, d.violations
}
