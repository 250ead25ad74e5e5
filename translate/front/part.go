package front

import "github.com/go-json-experiment/json/jsontext"

// Part is a piece of content in no protocol's words: what a run returns, or what a caller sends.
type Part struct {
	Kind PartKind `json:"kind"`
	// Text is the text of a PartText, the base64 text of a PartBytes, and the URL of a PartURL.
	Text string `json:"text,omitzero"`
	// Data is the value of a PartData: any JSON value, as it was sent.
	Data jsontext.Value `json:"data,omitzero"`
	// Filename and MediaType describe the content; empty: not known.
	Filename  string `json:"filename,omitzero"`
	MediaType string `json:"mediaType,omitzero"`
}

// PartKind is the kind of a [Part].
type PartKind uint8

// The kinds of parts.
const (
	PartText  PartKind = iota + 1 // a text for people or models
	PartData                      // a JSON value
	PartBytes                     // a file, in base64 (RFC 4648, section 4)
	PartURL                       // a file, by its URL
)
