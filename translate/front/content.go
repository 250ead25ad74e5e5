package front

import (
	"encoding/base64"
	"slices"
	"strings"

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

// base64Alphabet has the characters of base64 (RFC 4648, section 4).
const base64Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// fromURLs replaces the characters that only the alphabet for URLs has (section 5).
var fromURLs = strings.NewReplacer("-", "+", "_", "/")

// Base64 returns base64 text with padding in the standard alphabet (RFC 4648, section 4). ok is false if the text is not
// that. If lenient is true, the text may also be in the alphabet for URLs, and without padding.
func Base64(text []byte, lenient bool) (standard string, ok bool) {
	standard = string(text)
	if lenient {
		standard = fromURLs.Replace(standard)
		if !strings.HasSuffix(standard, "=") {
			standard += strings.Repeat("=", -len(standard)&3)
		}
	}
	content := strings.TrimSuffix(strings.TrimSuffix(standard, "="), "=")
	if len(standard)%4 != 0 || strings.Trim(content, base64Alphabet) != "" {
		return "", false
	}
	return standard, true
}

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
