package front

import (
	"encoding/base64"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Content is the content of a file, for an answer. It may be large: an answer is as long as Size says, and needs no other copy.
type Content struct {
	// IsText says that it is written as a text; if not, in base64 (RFC 4648, section 4).
	IsText bool
	// Size is the length of its JSON string.
	Size int

	bytes []byte
}

// ContentOf returns the content of a file.
func ContentOf(file []byte) Content {
	c := Content{IsText: safetext.IsText(file), Size: len(`""`), bytes: file}
	if !c.IsText {
		c.Size += base64.StdEncoding.EncodedLen(len(file))
		return c
	}
	c.Size += len(file)
	for _, b := range file {
		switch {
		case b == '"', b == '\\', '\b' <= b && b <= '\r' && b != '\v':
			c.Size += len(`\n`) - 1
		case b < ' ':
			c.Size += len(`\u0000`) - 1
		}
	}
	return c
}

// Content adds the content of a file.
func (w *Writer) Content(name string, c Content) {
	w.Name(name)
	const rest = 1 << 10 // of the answer: a larger content is not copied once more for what follows it
	w.Buf = slices.Grow(w.Buf, c.Size+rest)
	if c.IsText {
		w.Buf, _ = jsontext.AppendQuote(w.Buf, c.bytes) // it is UTF-8
		return
	}
	w.Buf = append(base64.StdEncoding.AppendEncode(append(w.Buf, '"'), c.bytes), '"')
}
