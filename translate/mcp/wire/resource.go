package wire

import (
	"mime"
	"net/url"
	"path"
	"regexp"
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

// ResourceURI returns the URI of the SKILL.md of a skill, by the [ResourceTemplate].
func ResourceURI(name string) string { return resourceScheme + url.PathEscape(name) + "/" + FileSkill }

// SkillURI returns the URI of a file in the folder of a skill of the extension [ExtensionSkills], whose name is that in the front matter of its SKILL.md.
func SkillURI(namespace, name, file string) string {
	parts := strings.Split(file, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
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

// expanded are the forms of a template's variable: expansions escape all but unreserved characters, and some others leave those that a segment of a path may
// have (RFC 3986, section 3.3). needless is the escape of an unreserved character (section 2.3).
var (
	expanded = regexp.MustCompile(`^(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*$`)
	needless = regexp.MustCompile(`(?i)%(?:2[de]|3[0-9]|4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9ae])`)
)

// unescape returns the value of a template's variable. ok is false if the text is none.
func unescape(text string) (value string, ok bool) {
	value, err := url.PathUnescape(text)
	return value, err == nil && expanded.MatchString(text) && !needless.MatchString(text)
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
	w.Text("uri", ResourceURI(name))
	w.Text("name", tool+"/"+FileSkill)
	w.Text("title", safetext.Line(title, MaxQuoted))
	w.Text("description", safetext.Line(description, MaxDescription))
	w.Text("mimeType", MediaType(FileSkill, nil))
	w.Close()
}

// ResourceTemplates are the templates of resources.
const ResourceTemplates = `[{"uriTemplate":"` + ResourceTemplate + `","name":"skill","title":"Files of a skill","description":"` +
	FileSkill + ` explains the skill of a name; ` + FileDescriptor + ` is what its provider has published."}]`
