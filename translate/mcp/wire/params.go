package wire

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// Param is a known member of params.
type Param int

// The known members.
const (
	ParamUnknown Param = iota
	ParamMeta
	ParamName
	ParamArguments
	ParamURI
	ParamCursor
	ParamTaskID
	ParamProtocolVersion
	ParamReference
	ParamArgument
	ParamNotifications
	ParamCount
)

var paramNames = [ParamCount]string{
	ParamMeta:            "_meta",
	ParamName:            "name",
	ParamArguments:       "arguments",
	ParamURI:             "uri",
	ParamCursor:          "cursor",
	ParamTaskID:          "taskId",
	ParamProtocolVersion: "protocolVersion",
	ParamReference:       "ref",
	ParamArgument:        "argument",
	ParamNotifications:   "notifications",
}

// String returns the name of the member.
func (p Param) String() string { return paramNames[p] }

func paramOf(name []byte) Param {
	for i, known := range paramNames {
		if known == string(name) {
			return Param(i)
		}
	}
	return ParamUnknown
}

// Params are the known members of the params of one request; those that are null are absent. That of ParamUnknown is always empty.
type Params [ParamCount]jsonrpc.Member

// Read reads params, which are an object. It returns the name of a member of them, or of an object
// in them other than the arguments, that is there twice.
func (p *Params) Read(req *jsonrpc.Request) (name string, twice bool) {
	assign := func(m jsonrpc.Member) {
		if id := paramOf(jsonrpc.Unquote(m.Name)); id != ParamUnknown && !jsonrpc.IsNull(m.Value) {
			p[id] = m
		}
	}
	for _, m := range req.Members {
		assign(m)
	}
	if req.Members == nil {
		jsonrpc.EachMember(req.Params, func(name, value jsontext.Value) bool { // there are none or too many
			assign(jsonrpc.Member{Name: name, Value: value})
			return true
		})
	}
	if name, twice = repeated(req.Members, req.Params); twice {
		return name, true
	}
	for _, id := range []Param{ParamReference, ParamArgument, ParamNotifications} {
		if name, twice = repeatedIn(p[id].Value); twice {
			return name, true
		}
	}
	return "", false
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
}

// Read reads the member _meta of params. It returns the name of a member of it, or of the capabilities, that is
// there twice.
func (m *Meta) Read(meta jsonrpc.Member) (name string, twice bool) {
	object := meta.Value
	var trace, priority jsontext.Value
	known := [...]struct {
		name string
		to   *jsontext.Value
	}{{MetaVersion, &m.Version}, {MetaCapabilities, &m.Capabilities}, {MetaProgress, &m.ProgressToken}, {MetaTraceParent, &trace}, {MetaPriority, &priority}}
	jsonrpc.EachMember(object, func(name, value jsontext.Value) bool {
		text := jsonrpc.Unquote(name)
		for _, k := range known {
			if k.name == string(text) && !jsonrpc.IsNull(value) {
				*k.to = value
			}
		}
		return true
	})
	m.Tasks = Member(Member(m.Capabilities, "extensions"), ExtensionTasks).Kind() == '{'
	m.TraceParent, m.Priority = Text(trace), Text(priority)
	if name, twice = repeated(meta.Members, object); twice {
		return name, true
	}
	return repeatedIn(m.Capabilities)
}
