package mcp

import (
	"net/http"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Error codes of MCP.
const (
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
	codeLegacyNoResource   = -32002
)

// Bounds of texts in answers, in characters.
const (
	maxMessage = 2000
	maxURI     = 1000
)

// quoted returns a text of the client for a message.
func quoted(s string) string { return `"` + safetext.Line(s, wire.MaxQuoted) + `"` }

func headerMismatch(why string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: codeHeaderMismatch, Message: "Header mismatch: " + why, Status: http.StatusBadRequest}
}

// unsupportedVersion returns the error for a version that is not served.
func (r *request) unsupportedVersion(requested string) *jsonrpc.Error {
	var w front.Writer
	w.Open()
	w.Texts("supported", r.front.Options.Versions)
	w.Text("requested", safetext.Line(requested, wire.MaxQuoted))
	w.Close()
	return &jsonrpc.Error{
		Code: codeUnsupportedVersion, Status: http.StatusBadRequest, Data: w.Buf,
		Message: "Unsupported protocol version " + quoted(requested) + ": this server speaks " + strings.Join(r.front.Options.Versions, ", "),
	}
}

// malformed returns the error for a modern request that does not describe itself.
func malformed(why string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Invalid params: " + why, Status: http.StatusBadRequest}
}

// invalid returns the error for wrong params.
func invalid(why string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Invalid params: " + why}
}

func (r *request) methodNotFound() *jsonrpc.Error {
	e := &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + safetext.Line(r.Method, wire.MaxQuoted)}
	if place := r.elsewhere(); place != nil {
		var w front.Writer
		w.Open()
		w.Place(place)
		w.Close()
		e.Message, e.Data = "Method not found: "+place.Text, w.Buf
	}
	if r.modern {
		e.Status = http.StatusNotFound
	}
	return e
}

// elsewhere returns where a method of another protocol is served; nil: it is none.
func (r *request) elsewhere() *front.Place { return r.front.Elsewhere.Of(r.HTTP, Name, r.Method) }

// text returns the text of a member that is one. fault is the error for one that is missing or of another type.
func (r *request) text(of wire.Param) (value string, fault *jsonrpc.Error) {
	v := r.params[of].Value
	switch {
	case v == nil:
		return "", invalid(of.String() + " is required")
	case v.Kind() != '"':
		return "", invalid(of.String() + " must be a string")
	}
	return wire.Text(v), nil
}
