package wire

import (
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
	if o.budget < 0 {
		return nil
	}
	r := read(value)
	defer r.release()
	if !r.enter('[') {
		o.wrong(messageParts, "must be an array")
		return nil
	}
	var list []task.Part
	for o.index = 0; r.more() && !o.full(); o.index++ {
		p := object{decoder: o.decoder, path: "message.parts[].", known: partNames[o.version]}
		start := r.decoder.InputOffset()
		if !r.enter('{') {
			o.fault(p.name(), "must be an object")
			if r.value() == nil {
				return nil
			}
			continue
		}
		p.readMembers(r)
		if o.budget -= cost + int(r.decoder.InputOffset()-start); o.budget < 0 {
			o.wrong(messageParts, tooMany)
			return nil
		}
		list = append(list, decodePart(&p))
	}
	if o.index == 0 {
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
