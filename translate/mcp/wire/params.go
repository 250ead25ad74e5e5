// Package wire reads and writes what the versions of MCP have in common: header fields, JSON values, definitions of tools and content.
package wire

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// RepeatedParam returns the name of a member of params, or of an object in them other than the arguments, that is there twice.
func RepeatedParam(req *jsonrpc.Request) (name string, twice bool) {
	if name, twice = repeated(jsonrpc.Object{Text: req.Params, Members: req.Members}); twice {
		return name, true
	}
	for _, of := range []string{"ref", "argument", "notifications"} {
		if name, twice = repeatedIn(req.Param(of).Value); twice {
			return name, true
		}
	}
	return "", false
}

// The header fields of MCP over HTTP, in canonical form.
const (
	HeaderVersion = "Mcp-Protocol-Version"
	HeaderMethod  = "Mcp-Method"
	HeaderName    = "Mcp-Name"
)

// NameParams are the members of params that the field [HeaderName] repeats, by method.
var NameParams = map[string]string{
	"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
}

// The members of _meta.
const (
	MetaVersion      = "io.modelcontextprotocol/protocolVersion"
	MetaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaServerInfo   = "io.modelcontextprotocol/serverInfo"
	MetaSubscription = "io.modelcontextprotocol/subscriptionId"
	MetaProgress     = "progressToken"
	MetaTraceParent  = "traceparent"

	// ExtensionTasks is the extension for tasks (SEP-2663).
	ExtensionTasks = "io.modelcontextprotocol/tasks"
	// ExtensionSkills is the extension for skills of the Agent Skills format (SEP-2640).
	ExtensionSkills = "io.modelcontextprotocol/skills"

	MetaPriority    = "io.github.skill-bridge/priority"
	MetaError       = "io.github.skill-bridge/error"
	MetaUnavailable = "io.github.skill-bridge/unavailable"
	MetaWarnings    = "io.github.skill-bridge/warnings"
)

// Warnings returns what adds to the _meta of a result what was wrong with the provider's answer, and how it was read nevertheless; empty: nothing was.
func Warnings(list []string) []func(*front.Writer) {
	if len(list) == 0 {
		return nil
	}
	return []func(*front.Writer){func(w *front.Writer) {
		w.OpenArray(MetaWarnings)
		w.AnswerFaults(list)
		w.CloseArray()
	}}
}

// Meta is what the _meta of a request says.
type Meta struct {
	Version, Capabilities jsontext.Value // nil: absent
	ProgressToken         jsontext.Value
	TraceParent           string
	Priority              string // that the client asks for; empty: none
	Tasks                 bool   // the client takes tasks as answers
	OpensURLs             bool   // the client can ask its user to open a URL
}

// Read reads the object _meta of params. It returns the name of a member of it, or of the capabilities, that is
// there twice.
func (m *Meta) Read(object jsontext.Value) (name string, twice bool) {
	m.Version, m.Capabilities, m.ProgressToken = jsonrpc.ValueOf(object, MetaVersion), jsonrpc.ValueOf(object, MetaCapabilities), jsonrpc.ValueOf(object, MetaProgress)
	m.TraceParent, m.Priority = jsonrpc.Text(jsonrpc.ValueOf(object, MetaTraceParent)), jsonrpc.Word(jsonrpc.ValueOf(object, MetaPriority))
	m.Tasks = jsonrpc.ValueOf(jsonrpc.ValueOf(m.Capabilities, "extensions"), ExtensionTasks).Kind() == '{'
	m.OpensURLs = jsonrpc.ValueOf(jsonrpc.ValueOf(m.Capabilities, "elicitation"), "url").Kind() == '{'
	if name, twice = repeated(jsonrpc.Object{Text: object}); twice {
		return name, true
	}
	return repeatedIn(m.Capabilities)
}

// Field returns the value of a header field, trimmed, and whether there is exactly one.
func Field(h http.Header, name string) (value string, ok bool) {
	values := h[name]
	if len(values) != 1 {
		return "", false
	}
	return Trim(values[0]), true
}

// DecodeField returns the text of a field's value, which clients encode if it has other characters than visible ASCII. It is encoded if it has both marks.
func DecodeField(value string) (decoded string, ok bool) {
	const prefix, suffix = "=?base64?", "?="
	coded, begins := strings.CutPrefix(value, prefix)
	coded, ends := strings.CutSuffix(coded, suffix)
	if !begins || !ends {
		return value, true
	}
	raw, err := base64.StdEncoding.DecodeString(coded)
	return string(raw), err == nil && utf8.Valid(raw)
}

// Repeats reports whether the header has one field that says a value.
func Repeats(h http.Header, name, value string) bool {
	said, ok := Field(h, name)
	if ok {
		said, ok = DecodeField(said)
	}
	return ok && said == value
}

// Trim removes the white space that HTTP permits around a field's value (RFC 9110, section 5.5).
func Trim(s string) string { return strings.Trim(s, " \t") }

// RepeatedArgument returns the name of an argument that is there twice, and the problem in words; empty: none is.
func RepeatedArgument(arguments jsontext.Value) (name, problem string) {
	name, twice := repeated(jsonrpc.Object{Text: arguments})
	if !twice {
		return "", ""
	}
	return name, "The argument \"" + name + "\" is there more than once."
}

// RepeatedInArguments is RepeatedArgument that also returns the name of an argument with a member that is there twice, at any depth.
func RepeatedInArguments(arguments jsontext.Value) (name, problem string) {
	if name, problem = RepeatedArgument(arguments); problem != "" {
		return name, problem
	}
	path := repeatedWithin(arguments)
	if path == "" {
		return "", ""
	}
	for name = range path.Tokens() {
		break
	}
	return safetext.Line(name, MaxQuoted), "In the arguments, \"" + safetext.Line(string(path), MaxQuoted) + "\" is there more than once."
}

// repeatedWithin returns where a value, or a value in it, has a member twice; empty: nowhere. The members of the value itself were compared before,
// so a value without objects in it is not read.
func repeatedWithin(value jsontext.Value) jsontext.Pointer {
	if bytes.Count(value, []byte("{")) < 2 || value.IsValid() {
		return ""
	}
	_, err := jsontext.NewDecoder(bytes.NewReader(value)).ReadValue()
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(err, jsontext.ErrDuplicateName) {
		return syntax.JSONPointer
	}
	return ""
}

// repeatedIn returns the name of a member that an object, or a value in it, has twice, cleaned.
func repeatedIn(object jsontext.Value) (name string, twice bool) {
	if object.Kind() != '{' {
		return "", false
	}
	if name, twice = repeated(jsonrpc.Object{Text: object}); twice {
		return name, true
	}
	path := repeatedWithin(object)
	return safetext.Line(path.LastToken(), MaxQuoted), path != ""
}

// repeated returns a name that an object has more than once, cleaned.
func repeated(object jsonrpc.Object) (name string, twice bool) {
	name, twice = jsonrpc.Repeated(object)
	return safetext.Line(name, MaxQuoted), twice
}
