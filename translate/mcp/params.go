package mcp

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
)

// param is a known member of params.
type param int

const (
	paramUnknown param = iota
	paramMeta
	paramName
	paramArguments
	paramURI
	paramCursor
	paramTaskID
	paramProtocolVersion
	paramReference
	paramArgument
	paramNotifications
	paramCount
)

var paramNames = [paramCount]string{
	paramMeta:            "_meta",
	paramName:            "name",
	paramArguments:       "arguments",
	paramURI:             "uri",
	paramCursor:          "cursor",
	paramTaskID:          "taskId",
	paramProtocolVersion: "protocolVersion",
	paramReference:       "ref",
	paramArgument:        "argument",
	paramNotifications:   "notifications",
}

func paramOf(name []byte) param {
	for i, known := range paramNames {
		if known == string(name) {
			return param(i)
		}
	}
	return paramUnknown
}

// params are the known members of the params of one request. That of paramUnknown is always empty.
type params [paramCount]jsonrpc.Member

// read reads params. It returns the name of a member that is there twice; empty: none is.
func (p *params) read(req *jsonrpc.Request) (repeated string) {
	assign := func(m jsonrpc.Member) {
		switch id := paramOf(jsonrpc.Unquote(m.Name)); {
		case id == paramUnknown:
		case p[id].Value != nil:
			repeated = paramNames[id]
		default:
			p[id] = m
		}
	}
	if req.Members != nil {
		for _, m := range req.Members {
			assign(m)
		}
		return repeated
	}
	jsonrpc.EachMember(req.Params, func(name, value jsontext.Value) bool { // there are none or too many
		assign(jsonrpc.Member{Name: name, Value: value})
		return true
	})
	return repeated
}

// text returns the text of a member that is one. fault is the error for one that is missing or of another type.
func (r *request) text(of param) (value string, fault *jsonrpc.Error) {
	v := r.params[of].Value
	switch {
	case v == nil:
		return "", invalid(paramNames[of] + " is required")
	case v.Kind() != '"':
		return "", invalid(paramNames[of] + " must be a string")
	}
	return wire.Text(v), nil
}

// The members of _meta.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaServerInfo   = "io.modelcontextprotocol/serverInfo"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
	metaProgress     = "progressToken"
	metaTraceParent  = "traceparent"

	// extensionTasks is the extension for tasks (SEP-2663).
	extensionTasks = "io.modelcontextprotocol/tasks"

	metaError       = "io.github.skill-bridge/error"
	metaUnavailable = "io.github.skill-bridge/unavailable"
)

// meta is what the _meta of a request says.
type meta struct {
	version, capabilities jsontext.Value // nil: absent
	progressToken         jsontext.Value
	traceParent           string
	tasks                 bool // the client takes tasks as answers
}

func (m *meta) read(object jsontext.Value) {
	jsonrpc.EachMember(object, func(name, value jsontext.Value) bool {
		switch string(jsonrpc.Unquote(name)) {
		case metaVersion:
			m.version = value
		case metaCapabilities:
			m.capabilities = value
			m.tasks = wire.Member(wire.Member(value, "extensions"), extensionTasks).Kind() == '{'
		case metaProgress:
			m.progressToken = value
		case metaTraceParent:
			m.traceParent = wire.Text(value)
		}
		return true
	})
}
