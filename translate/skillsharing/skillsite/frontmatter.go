package skillsite

import (
	"bytes"
	"fmt"
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

// readFrontMatter reads the front matter. It understands what authors of the format write at its top level: plain and quoted texts on one or
// more lines, and blocks of lines (| and >). It is more lenient than YAML: a plain text may have a colon.
func readFrontMatter(text []byte) (f frontMatter) {
	head, _ := splitFrontMatter(text)
	if !utf8.Valid(head) {
		return frontMatter{}
	}
	lines := strings.Split(strings.ReplaceAll(string(head), "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); {
		key, value, found := strings.Cut(lines[i], ":")
		i++
		if !found {
			continue
		}
		own := i
		for i < len(lines) && (strings.TrimSpace(lines[i]) == "" || strings.HasPrefix(lines[i], " ") || strings.HasPrefix(lines[i], "\t")) {
			i++
		}
		switch {
		case key == "name" && f.name == "":
			f.name = scalar(value, lines[own:i])
		case key == "description" && f.description == "":
			f.description = strings.TrimSpace(safetext.Line(scalar(value, lines[own:i]), maxDescription))
		}
	}
	return f
}

// scalar returns the text of a value: the rest of its line, and the indented lines below it.
func scalar(value string, below []string) string {
	value = strings.TrimSpace(value)
	if value == "" || value[0] != '|' && value[0] != '>' {
		text := joined(value, below)
		if len(text) >= 2 && (text[0] == '"' || text[0] == '\'') {
			return unquoted(text)
		}
		if at := strings.Index(text, " #"); at >= 0 { // a comment
			text = strings.TrimSpace(text[:at])
		}
		return text
	}
	if value[0] == '>' {
		return joined("", below)
	}
	trimmed := make([]string, len(below))
	for i, line := range below {
		trimmed[i] = strings.TrimSpace(line)
	}
	return strings.TrimSpace(strings.Join(trimmed, "\n"))
}

// joined joins lines with spaces.
func joined(first string, below []string) string {
	return strings.Join(strings.Fields(first+" "+strings.Join(below, " ")), " ")
}

// unquoted returns the text between quotes; a comment may follow it.
func unquoted(text string) string {
	quote := text[0]
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		c := text[i]
		switch {
		case c == quote && quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
			b.WriteByte(quote)
		case c == quote:
			return b.String()
		case c == '\\' && quote == '"' && i+1 < len(text):
			i++
			b.WriteString(escaped(text[i]))
		default:
			b.WriteByte(c)
		}
	}
	return text // there is no second quote
}

// escaped returns what a character after a backslash means.
func escaped(c byte) string {
	switch c {
	case 'n', 't', 'r':
		return " "
	case '"', '\\', '/':
		return string(c)
	}
	return `\` + string(c)
}
