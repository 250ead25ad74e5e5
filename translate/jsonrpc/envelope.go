package jsonrpc

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// member is a member of a Request object that the specification defines.
type member int

const (
	memberUnknown member = iota
	memberVersion
	memberMethod
	memberParams
	memberID
	memberOutcome // of a Response object
	memberCount
)

// maxQuotedName is the length of the longest spelling of a known member name: "jsonrpc"
// with all characters escaped.
const maxQuotedName = len("jsonrpc")*len(`\u0000`) + 2

// memberOf returns the member with a quoted name. Names are case-sensitive and may have
// escapes.
func memberOf(quoted []byte) member {
	if len(quoted) > maxQuotedName {
		return memberUnknown
	}
	switch string(Unquote(quoted)) {
	case "jsonrpc":
		return memberVersion
	case "method":
		return memberMethod
	case "params":
		return memberParams
	case "id":
		return memberID
	case "result", "error":
		return memberOutcome
	}
	return memberUnknown
}

// Unquote returns the text of a valid JSON string. It shares the memory of quoted, if that has no escapes.
func Unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	// A valid string can't fail here.
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return text
}

// envelope holds the members of one Request object while it is read.
type envelope struct {
	values   [memberCount]jsontext.Value
	repeated [memberCount]bool
	members  []Member // of params
}

func (e *envelope) add(m member, value jsontext.Value) {
	if m == memberUnknown {
		return
	}
	e.repeated[m] = e.values[m] != nil
	e.values[m] = value
}

// element returns the request, or an error if the object is invalid (JSON-RPC 2.0, section 4).
func (e *envelope) element(p *Profile) element {
	id := e.values[memberID]
	if p.TakesResponse != nil && e.isResponse() {
		return element{response: true, Request: Request{ID: id}, Err: p.fault(CodeInvalidRequest, "this is a response, and a request is expected")}
	}
	if IsNull(e.values[memberParams]) {
		e.values[memberParams] = nil
	}
	reason := e.fault(p)
	if reason == "" {
		return element{Request: Request{
			Method:  p.method(Unquote(e.values[memberMethod])),
			Params:  e.values[memberParams],
			Members: e.members,
			ID:      id,
		}}
	}
	if e.repeated[memberID] || !p.isID(id) {
		id = nil
	}
	return element{Request: Request{ID: id}, Err: p.fault(CodeInvalidRequest, reason)}
}

// fault returns why the object is not a valid Request object; empty: it is.
func (e *envelope) fault(p *Profile) string {
	for m, repeated := range e.repeated {
		if repeated && member(m) != memberOutcome {
			return memberNames[m] + " must not stand there twice"
		}
	}
	id := e.values[memberID]
	switch {
	case e.values[memberVersion].Kind() != '"' || string(Unquote(e.values[memberVersion])) != "2.0":
		return `jsonrpc must be the string "2.0"`
	case e.values[memberMethod].Kind() != '"':
		return "method must be a string"
	case e.values[memberParams] != nil && !isStructured(e.values[memberParams]):
		return "params must be an object or an array, or be left out"
	case id == nil:
		return ""
	case id.Kind() == 'n' && !p.NullID:
		return "id must not be null"
	case id.Kind() == '0' && !p.isID(id):
		return "id must be a string or a whole number"
	case !p.isID(id):
		return "id must be a string or a number"
	}
	return ""
}

// isResponse reports whether the object is a Response object with an id (JSON-RPC 2.0, section 5).
func (e *envelope) isResponse() bool {
	return e.values[memberOutcome] != nil && e.values[memberMethod] == nil && e.values[memberID] != nil && e.repeated == [memberCount]bool{}
}

var memberNames = [memberCount]string{
	memberVersion: "jsonrpc",
	memberMethod:  "method",
	memberParams:  "params",
	memberID:      "id",
}

func isStructured(v jsontext.Value) bool {
	return v.Kind() == '{' || v.Kind() == '['
}

// isID reports whether v can be the id of an answer.
func (p *Profile) isID(v jsontext.Value) bool {
	switch v.Kind() {
	case '"':
		return true
	case '0':
		return !p.WholeIDs || !bytes.ContainsAny(v, ".eE")
	case 'n':
		return p.NullID
	}
	return false
}
