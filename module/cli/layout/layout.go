// Package layout fits texts into the columns of a terminal.
package layout

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// Width returns how many columns of a terminal a text takes.
func Width(text string) (n int) {
	for _, r := range text {
		n += columnsOf(r)
	}
	return n
}

func columnsOf(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Cut shortens a text to a number of columns; 0: it does not.
func Cut(text string, most int) string {
	if most == 0 || Width(text) <= most {
		return text
	}
	left := most - 1
	for i, r := range text {
		if left -= columnsOf(r); left < 0 {
			return text[:i] + "…"
		}
	}
	return text
}

// maxHelp is the length of the lines of a help, in characters.
const maxHelp = 80

// Wrap breaks the lines of a help, of which those that begin with a space stay as they are.
func Wrap(help string) string {
	var lines []string
	prose := false // the last line may get further words
	for line := range strings.SplitSeq(help, "\n") {
		if line == "" || line[0] == ' ' {
			lines, prose = append(lines, line), false
			continue
		}
		for word := range strings.FieldsSeq(line) {
			if last := len(lines) - 1; prose && len(lines[last])+1+len(word) <= maxHelp {
				lines[last] += " " + word
				continue
			}
			lines, prose = append(lines, word), true
		}
	}
	return strings.Join(lines, "\n")
}
