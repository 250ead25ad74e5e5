// Package rawobject holds JSON objects that were taken apart into their members,
// whose values stay as they were written. What has been read and checked once is
// handed on with it, so that nobody has to read it again: of a large request,
// reading is what costs most.
package rawobject

import "github.com/go-json-experiment/json/jsontext"

// Member is a member of an object. Names and values are slices of the text that
// the object was read from.
type Member struct {
	Name  jsontext.Value // with its quotation marks and escapes
	Value jsontext.Value
	// Members are those of Value, if it is an object that was taken apart, too, and has any; else nil.
	Members []Member
}
