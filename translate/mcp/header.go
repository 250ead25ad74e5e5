package mcp

import (
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
)

// nameParams are the members of params that the field Mcp-Name repeats, by method.
var nameParams = map[string]wire.Param{
	methodCallTool: wire.ParamName, methodGetPrompt: wire.ParamName, methodReadResource: wire.ParamURI,
	methodGetTask: wire.ParamTaskID, methodUpdateTask: wire.ParamTaskID, methodCancelTask: wire.ParamTaskID,
}

// checkHeader checks that the header of a modern request repeats what its body says, so that proxies can rely on it.
func (r *request) checkHeader() *jsonrpc.Error {
	if r.HTTP == nil {
		return nil
	}
	if said, ok := wire.Field(r.HTTP.Header, headerVersion); !ok {
		return headerMismatch("the field MCP-Protocol-Version is missing or is there more than once")
	} else if version := wire.Text(r.meta.Version); said != version {
		return headerMismatch("the field MCP-Protocol-Version says " + quoted(said) + ", and _meta says " + quoted(version))
	}
	if version := wire.Text(r.meta.Version); !isModern(version) || !r.front.Options.serves(version) {
		return r.unsupportedVersion(version)
	}
	if said, ok := wire.Field(r.HTTP.Header, headerMethod); !ok || said != r.Method {
		return headerMismatch("the field Mcp-Method must say the method " + quoted(r.Method))
	}
	value := r.params[nameParams[r.Method]].Value
	if value.Kind() != '"' {
		return nil // the method refuses the params
	}
	if !wire.Repeats(r.HTTP.Header, headerName, wire.Text(value)) {
		return headerMismatch("the field Mcp-Name must say the " + nameParams[r.Method].String() + " of the params")
	}
	return nil
}

// acceptsStream reports whether the client reads server-sent events.
func acceptsStream(r *request) bool { return front.AcceptsStream(r.HTTP, "text/event-stream") }
