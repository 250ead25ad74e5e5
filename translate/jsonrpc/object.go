package jsonrpc

import "github.com/go-json-experiment/json/jsontext"

// Object is a JSON object as it was sent. Its members travel with it where they are known:
// to read a large object once more costs more than all else that is done with it.
type Object struct {
	Text jsontext.Value // nil: there is none
	// Members are those of Text, in their order, if it is known to be an object that has some; nil: they have to be read.
	Members []Member
}

// Member is a member of an [Object]. Names and values are slices of the text that it was
// read from.
type Member struct {
	Name  jsontext.Value // with its quotation marks and escapes
	Value jsontext.Value
	// Members are those of Value, as in an Object.
	Members []Member
}
