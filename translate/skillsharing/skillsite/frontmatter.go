package skillsite

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// frontMatter is what the bridge reads of the lines between --- at the beginning of a SKILL.md.
type frontMatter struct{ name, description string }

// maxFrontMatter bounds the front matter, in bytes.
const maxFrontMatter = 16 << 10

// splitFrontMatter returns the lines of the front matter and the text after it. Without front matter, head is nil.
func splitFrontMatter(text []byte) (head, body []byte) {
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	if !isRule(first) {
		return nil, text
	}
	for at := 0; at < min(len(rest), maxFrontMatter); {
		line, _, more := bytes.Cut(rest[at:], []byte("\n"))
		if isRule(line) {
			return rest[:at:at], rest[min(at+len(line)+1, len(rest)):]
		}
		if !more {
			break
		}
		at += len(line) + 1
	}
	return nil, text
}

// isRule reports whether a line begins or ends front matter.
func isRule(line []byte) bool {
	return strings.TrimRight(string(line[:min(len(line), 8)]), " \t\r") == "---"
}

// frontMatterFault returns why a SKILL.md has no front matter that can be read; empty: it has one.
func frontMatterFault(text []byte) string {
	if !utf8.Valid(text) {
		if bytes.HasPrefix(text, []byte("PK")) || bytes.HasPrefix(text, []byte("\x1f\x8b")) {
			return "is an archive, for which the type is " + TypeArchive
		}
		return "is not UTF-8"
	}
	if head, _ := splitFrontMatter(text); head != nil {
		return ""
	}
	if first, _, _ := bytes.Cut(bytes.TrimPrefix(text, []byte(byteOrderMark)), []byte("\n")); isRule(first) {
		return fmt.Sprintf("has front matter that does not end: a line --- must follow it within %d KiB", maxFrontMatter>>10)
	}
	return "has no front matter: its first line must be ---, and lines with name: and description: and another line --- must follow"
}

// FrontMatter returns the front matter of a SKILL.md as a JSON object, for programs that compare it with the YAML; nil: YAML or JSON can't have it.
func FrontMatter(text []byte) jsontext.Value {
	head, _ := splitFrontMatter(text)
	var root yaml.Node
	var object map[string]any
	if yaml.Unmarshal(head, &root) != nil || !readsAsJSON(&root) || root.Decode(&object) != nil {
		return nil
	}
	value, err := json.Marshal(object, json.Deterministic(true))
	if err != nil {
		return nil
	}
	return value
}

// readsAsJSON reports whether a node of YAML has no references to others, which could make it much larger. Times remain texts, as in YAML 1.2.
func readsAsJSON(n *yaml.Node) bool {
	if n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	return n.Kind != yaml.AliasNode && !slices.ContainsFunc(n.Content, func(below *yaml.Node) bool { return !readsAsJSON(below) })
}

// Body returns the text of a SKILL.md after its front matter.
func Body(text []byte) []byte {
	_, body := splitFrontMatter(text)
	return body
}

// member matches a name or description at the top level of front matter, with the indented and empty lines below it.
var member = regexp.MustCompile(`(?m)^(?:name|description):.*(?:\n(?:[ \t].*)?)*`)

// readFrontMatter reads the front matter. It is more lenient than YAML: other members do not matter, and a plain text may have a colon.
func readFrontMatter(text []byte) (f frontMatter) {
	head, _ := splitFrontMatter(text)
	for _, found := range member.FindAllString(string(head), -1) {
		var of struct{ Name, Description string }
		if yaml.Unmarshal([]byte(found), &of) != nil {
			key, value, _ := strings.Cut(found, ":")
			plain, _, _ := strings.Cut(strings.Join(strings.Fields(value), " "), " #") // without a comment
			if key == "name" {
				of.Name = plain
			} else {
				of.Description = plain
			}
		}
		f.name = cmp.Or(f.name, of.Name)
		f.description = cmp.Or(f.description, safetext.TrimmedLine(of.Description, maxDescription))
	}
	return f
}
