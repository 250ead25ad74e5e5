package jsonrpc

import "github.com/go-json-experiment/json/jsontext"

// Object is a JSON object as it was sent, with its members if they were collected, so that
// a large object does not have to be parsed again.
type Object struct {
	Text jsontext.Value // nil: there is none
	// Members are the members of Text, in order; nil: Text was not parsed, or is empty or not an object.
	Members []Member
}

// Member is a member of an [Object]. Names and values are slices of the object's text.
type Member struct {
	Name  jsontext.Value // with quotation marks and escapes
	Value jsontext.Value
	// Members are the members of Value, as in Object.
	Members []Member
}
