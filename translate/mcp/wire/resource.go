package wire

import (
	"mime"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
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

// SkillURI returns the URI of a file in the folder of a skill of the extension [ExtensionSkills], whose name is that in the front matter of its SKILL.md.
func SkillURI(namespace, name, file string) string {
	parts := strings.Split(file, "/")
	for i, part := range parts {
		parts[i] = Escape(part)
	}
	return resourceScheme + namespace + "/" + name + "/" + strings.Join(parts, "/")
}

// ParseResource returns the skill and the file that a URI means, if it is one of those that the [ResourceTemplate] makes of them (RFC 6570,
// section 3.2.2), or [ResourceURI]. The name is one segment of the path; nothing is resolved. The slashes in the path of a file may be escaped
// or not.
func ParseResource(uri string) (name, file string, ok bool) {
	rest, ok := strings.CutPrefix(uri, resourceScheme)
	segment, escaped, both := strings.Cut(rest, "/")
	name, known := unescape(segment)
	if !ok || !both || !known || name == "" {
		return "", "", false
	}
	var parts []string
	for part := range strings.SplitSeq(escaped, "/") {
		if part, ok = unescape(part); !ok {
			return "", "", false
		}
		parts = append(parts, part)
	}
	file = strings.Join(parts, "/")
	return name, file, file != ""
}

// unescape returns the value of a template's variable. Expansions escape all but unreserved characters, some others leave those that a segment
// of a path may have (RFC 3986, section 3.3), and the digits of an escape may be in any case. ok is false if the text is none.
func unescape(text string) (value string, ok bool) {
	value, err := url.PathUnescape(text)
	if err != nil {
		return "", false
	}
	rest := text
	for i := range len(value) {
		switch c := value[i]; {
		case isUnreserved(c):
			ok = rest[0] == c
			rest = rest[1:]
		case rest[0] == '%':
			ok = true
			rest = rest[len("%00"):]
		default:
			ok = strings.IndexByte("!$&'()*+,;=:@", c) >= 0
			rest = rest[1:]
		}
		if !ok {
			return "", false
		}
	}
	return value, true
}

// isUnreserved reports whether no URI has to escape a character (RFC 3986, section 2.3).
func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
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

// SkillPage adds the resource with the SKILL.md of a skill. name and tool are those of the skill and its tool.
func (w *Writer) SkillPage(name, tool, title, description string) {
	w.Open()
	w.Text("uri", ResourceURI(name, FileSkill))
	w.Text("name", tool+"/"+FileSkill)
	w.Text("title", safetext.Line(title, MaxQuoted))
	w.Text("description", safetext.Line(description, MaxDescription))
	w.Text("mimeType", MediaType(FileSkill, nil))
	w.Close()
}

// ResourceTemplates are the templates of resources.
const ResourceTemplates = `[{"uriTemplate":"` + ResourceTemplate + `","name":"skill","title":"Files of a skill","description":"` +
	FileSkill + ` explains the skill of a name; ` + FileDescriptor + ` is what its provider has published."}]`
