package skillsprotocol

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// markdown is text whose structure is this package's own: whatever a document of
// a provider contributed to it has been escaped. Only the functions of this file
// make it from other text (CommonMark 0.31.2; tables as in GitHub Flavored
// Markdown, section 4.10).
type markdown string

// Bounds of a text of a descriptor within a page, in characters.
const (
	maxProse = 4000
	maxSpan  = 1000
)

// active are the characters that can start something other than text.
const active = "\\`*_[]<>|~&"

// prose makes one line of plain text that also fits a cell of a table.
func prose(text string) markdown {
	line := strings.Join(strings.Fields(safetext.Line(text, maxProse)), " ")
	var b strings.Builder
	for i, r := range line {
		if strings.ContainsRune(active, r) || startsBlock(line, i) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return markdown(b.String())
}

// startsBlock reports whether the character at i would make a heading, a list or
// a rule of the line. The number of an item has nine digits at most.
func startsBlock(line string, i int) bool {
	switch line[i] {
	case '#', '-', '+', '=':
		return i == 0
	case '.', ')':
		return 0 < i && i <= 9 && strings.Trim(line[:i], "0123456789") == ""
	}
	return false
}

// code makes a code span of one line. Its fence is longer than any row of
// backticks inside.
func code(text string) markdown {
	line := strings.Join(strings.Fields(safetext.Line(text, maxSpan)), " ")
	if line == "" {
		return ""
	}
	fence := strings.Repeat("`", longestRun(line, '`')+1)
	if line[0] == '`' || line[len(line)-1] == '`' {
		line = " " + line + " "
	}
	return markdown(fence + line + fence)
}

// cell makes a code span within a table, where only a pipe needs escaping.
func cell(text string) markdown {
	return markdown(strings.ReplaceAll(string(code(text)), "|", `\|`))
}

func longestRun(s string, c byte) int {
	longest, run := 0, 0
	for i := range len(s) {
		if s[i] != c {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// block makes a code block of a JSON value. No line of formatted JSON starts with
// a backtick, so that none can end the block.
func block(value jsontext.Value) (markdown, error) {
	text, err := jsontext.AppendFormat([]byte(nil), value, jsontext.Multiline(true), jsontext.WithIndent("  "), jsontext.AllowDuplicateNames(true))
	if err != nil {
		return "", err
	}
	return markdown("```json\n" + string(text) + "\n```"), nil
}
