package front

import (
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/http/httpguts"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Bounds of what a provider says about its output.
const (
	maxOutputParts = 1000 // an array of more elements is one part
	maxFilename    = 200  // characters
	maxMediaType   = 200  // bytes
	maxOutputURL   = 2048 // bytes
)

// Parts returns the output of a run as parts, by its content type: none for null or no output. What does not fit its
// content type is data. The data of the parts shares the memory of the output.
func Parts(output jsontext.Value, contentType string) []Part {
	contentType = cleanMediaType(contentType)
	essence := Essence(contentType)
	kind := output.Kind()
	switch {
	case kind == jsontext.KindInvalid || kind == 'n':
		return nil
	case essence == "" || essence == "application/json":
		return jsonParts(output, "")
	case strings.HasSuffix(essence, "+json"):
		return jsonParts(output, contentType)
	case essence == "multipart/mixed":
		if parts, ok := partsOf(output); ok {
			return parts
		}
	case kind == '{':
		if p, ok := partOf(output); ok {
			if p.MediaType == "" {
				p.MediaType = contentType
			}
			return []Part{p}
		}
	case kind == '"':
		text, err := jsontext.AppendUnquote(nil, output)
		if err != nil {
			break
		}
		if file, ok := fileOf(text, essence); ok {
			return []Part{file}
		}
		if strings.HasPrefix(essence, "text/") {
			p := Part{Kind: PartText, Text: string(text)}
			if contentType != "text/plain" {
				p.MediaType = contentType
			}
			return []Part{p}
		}
		if file, ok := Base64(text, false); ok {
			return []Part{{Kind: PartBytes, Text: file, MediaType: contentType}}
		}
	}
	return []Part{{Kind: PartData, Data: output}}
}

// partsOf returns a part for each element of an array. ok is false if it is none, or has too many elements.
func partsOf(array jsontext.Value) (parts []Part, ok bool) {
	if array.Kind() != '[' {
		return nil, false
	}
	for item := range jsonrpc.Items(array) {
		if len(parts) == maxOutputParts {
			return nil, false
		}
		parts = append(parts, elementOf(item))
	}
	return parts, true
}

// elementOf returns the part for an element of an array.
func elementOf(value jsontext.Value) Part {
	switch value.Kind() {
	case '"':
		if text, err := jsontext.AppendUnquote(nil, value); err == nil {
			if file, ok := fileOf(text, ""); ok {
				return file
			}
			return Part{Kind: PartText, Text: string(text)}
		}
	case '{':
		if p, ok := partOf(value); ok {
			return p
		}
	}
	return Part{Kind: PartData, Data: value}
}

// fileOf returns the part for a text that is an image or sound: base64 in any form if the content type says so, and otherwise a data URI.
func fileOf(text []byte, essence string) (p Part, ok bool) {
	if declared := mediaType(essence); declared != "" || hasDataScheme(text) {
		return mediaOf(text, declared)
	}
	return p, false
}

// contentKind returns the kind of the part that an object describes, by the name of the member with its content; 0: there is none.
func contentKind(name string) PartKind {
	switch {
	case name == "text":
		return PartText
	case name == "url":
		return PartURL
	case slices.Contains(bytesMembers, name):
		return PartBytes
	}
	return 0
}

// partOf returns the part that an object describes. ok is false if the object has other members than those of a part.
func partOf(object jsontext.Value) (p Part, ok bool) {
	for name, value := range jsonrpc.Members(object) {
		if value.Kind() != '"' {
			return p, false
		}
		member, text := string(jsonrpc.Unquote(name)), string(jsonrpc.Unquote(value))
		switch kind := contentKind(member); {
		case member == "filename":
			p.Filename = cleanFilename(text)
		case slices.Contains(typeMembers, member):
			p.MediaType = cleanMediaType(text)
		case kind == 0 || p.Kind != 0:
			return p, false
		default:
			p.Kind, p.Text = kind, text
		}
	}
	switch p.Kind {
	case PartBytes:
		if file, ok := mediaOf([]byte(p.Text), mediaType(p.MediaType)); ok {
			file.Filename = p.Filename
			return file, true
		}
		p.Text, ok = Base64([]byte(p.Text), false)
		return p, ok
	case PartURL:
		return p, isLink(p.Text)
	}
	return p, p.Kind == PartText
}

// isLink reports whether a URL is one that a client may follow.
func isLink(s string) bool {
	if len(s) > maxOutputURL || !safetext.Printable(s) {
		return false
	}
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// cleanFilename returns the last element of a path, as one line; empty: there is none.
func cleanFilename(s string) string {
	s = s[strings.LastIndexAny(s, `/\`)+1:]
	s = safetext.TrimmedLine(s, maxFilename)
	if strings.Trim(s, ".") == "" {
		return ""
	}
	return s
}

// cleanMediaType returns a media type with its parameters; empty: it is none, or too long.
func cleanMediaType(s string) string {
	s = strings.Trim(s, " \t")
	top, sub, _ := strings.Cut(Essence(s), "/")
	if len(s) > maxMediaType || !httpguts.ValidHeaderFieldName(top) || !httpguts.ValidHeaderFieldName(sub) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return s
}
