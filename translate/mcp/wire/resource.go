package wire

import (
	"mime"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// The files of each skill, which are resources.
const (
	FileSkill      = "SKILL.md"
	FileDescriptor = "descriptor.json"
)

const resourceScheme = "skill://"

// ResourceTemplate is the template of the URIs of files.
const ResourceTemplate = resourceScheme + "{name}/{file}"

// Escape escapes a text for a path of a URI.
func Escape(s string) string { return url.PathEscape(s) }

// ResourceURI returns the URI of a file of a skill, by the [ResourceTemplate].
func ResourceURI(name, file string) string { return resourceScheme + Escape(name) + "/" + Escape(file) }

// ParseResource returns the skill and the file that a URI means. The name is one segment of the path; nothing is resolved. The slashes in the
// path of a file may be escaped or not; for all else, each file has one URI.
func ParseResource(uri string) (name, file string, ok bool) {
	rest, ok := strings.CutPrefix(uri, resourceScheme)
	segment, escaped, both := strings.Cut(rest, "/")
	name, err := url.PathUnescape(segment)
	if !ok || !both || err != nil || name == "" || Escape(name) != segment {
		return "", "", false
	}
	file, err = url.PathUnescape(escaped)
	if err != nil || file == "" {
		return "", "", false
	}
	one := Escape(file)
	return name, file, escaped == one || escaped == strings.ReplaceAll(one, "%2F", "/")
}

// MediaType returns the media type of a file by its name.
func MediaType(file string, text []byte) string {
	switch path.Ext(file) {
	case ".md":
		return "text/markdown"
	case ".json":
		return "application/json"
	}
	if known, _, err := mime.ParseMediaType(mime.TypeByExtension(path.Ext(file))); err == nil {
		return known
	}
	if utf8.Valid(text) {
		return "text/plain"
	}
	return "application/octet-stream"
}

// Contents adds a file to an array: its text decides on the media type, and the content is its text.
func (w *Writer) Contents(uri, file string, text []byte, content front.Content) {
	w.Open()
	w.Text("uri", uri)
	w.Text("mimeType", MediaType(file, text))
	name := "blob"
	if content.IsText {
		name = "text"
	}
	w.Content(name, content)
	w.Close()
}
