package skillfile

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Markdown is Markdown in which text of providers is escaped (CommonMark 0.31.2; tables
// as in GitHub Flavored Markdown, section 4.10). Only the functions of this file make it
// from other text.
type Markdown string

// Bounds of a text of a descriptor, in characters.
const (
	maxProse = 4000
	maxSpan  = 1000
)

// active are the characters that have a meaning in Markdown.
const active = "\\`*_[]<>|~&"

// Prose returns a text as one line, escaped, also for cells of tables.
func Prose(text string) Markdown {
	line := strings.Join(strings.Fields(safetext.Line(text, maxProse)), " ")
	var b strings.Builder
	for i, r := range line {
		if strings.ContainsRune(active, r) || startsBlock(line, i) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return Markdown(b.String())
}

// startsBlock reports whether the character at i would make the line a heading, a list item
// or a thematic break. The number of a list item has at most nine digits.
func startsBlock(line string, i int) bool {
	switch line[i] {
	case '#', '-', '+', '=':
		return i == 0
	case '.', ')':
		return 0 < i && i <= 9 && strings.Trim(line[:i], "0123456789") == ""
	}
	return false
}

// Code returns a text as a code span of one line. Its fence is longer than any sequence of
// backticks in the text.
func Code(text string) Markdown {
	line := strings.Join(strings.Fields(safetext.Line(text, maxSpan)), " ")
	if line == "" {
		return ""
	}
	fence := "`"
	for strings.Contains(line, fence) {
		fence += "`"
	}
	if line[0] == '`' || line[len(line)-1] == '`' {
		line = " " + line + " "
	}
	return Markdown(fence + line + fence)
}

// Cell returns a text as a code span in a cell of a table, where pipes are escaped.
func Cell(text string) Markdown {
	return Markdown(strings.ReplaceAll(string(Code(text)), "|", `\|`))
}

// block returns a JSON value as a code block. No line of formatted JSON starts with a
// backtick, so that the value can't end the block.
func block(value jsontext.Value) (Markdown, error) {
	text, err := jsontext.AppendFormat([]byte(nil), value, jsontext.Multiline(true), jsontext.WithIndent("  "), jsontext.AllowDuplicateNames(true))
	if err != nil {
		return "", err
	}
	return Markdown("```json\n" + safetext.Escape(string(text), "\n") + "\n```"), nil
}
