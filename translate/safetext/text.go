package safetext

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const ellipsis = '…'

// Clip cuts a text that is longer than n bytes and appends an ellipsis. It changes nothing else.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + string(ellipsis)
}

// Line returns a text as one line of at most limit characters. If the text is cut, the last one
// is an ellipsis. Control characters and line breaks become spaces. Invisible characters are left
// out, except for joiners, which scripts and emoji need; an emoji without its variation selector is still one. A text with very many invisible
// characters is cut at one of them.
func Line(s string, limit int) string {
	if isSafe(s, limit) {
		return s
	}
	var b []byte
	count, last := 0, 0 // last is the offset of the last character in b
	for i, r := range s {
		r = replaceInLine(r)
		if r == invisible && i < 16*limit {
			continue
		}
		if r == invisible || count == limit {
			if count == limit {
				b = b[:last]
			}
			return string(utf8.AppendRune(b, ellipsis))
		}
		last = len(b)
		b = utf8.AppendRune(b, r)
		count++
	}
	return string(b)
}

// TrimmedLine is [Line] without white space at its ends.
func TrimmedLine(s string, limit int) string { return strings.TrimSpace(Line(s, limit)) }

// isSafe reports whether Line would not change a text.
func isSafe(s string, limit int) bool {
	count := 0
	for _, r := range s {
		if count++; count > limit || replaceInLine(r) != r || r == utf8.RuneError {
			return false
		}
	}
	return true
}

// Field returns a text for a field of a log line: at most limit bytes and an ellipsis. Control
// characters become spaces. Invisible characters and invalid UTF-8 become U+FFFD, so that the log
// shows where they were.
func Field(s string, limit int) string {
	end := ""
	if len(s) > limit {
		s, end = strings.ToValidUTF8(s[:limit], ""), string(ellipsis) // the cut may be in the middle of a character
	}
	return strings.Map(func(r rune) rune {
		if r = replaceInLine(r); r == invisible {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar))) + end
}

// invisible stands for a character without a visible form.
const invisible = -1

// replaceInLine returns the character that replaces another in [Line], or invisible.
func replaceInLine(r rune) rune {
	switch {
	case ' ' <= r && r <= '~', r == '\u200c', r == '\u200d':
		return r
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r): // visible, unlike the rest of Cf
		return r
	case unicode.Is(unicode.Cf, r), isIgnorable(r):
		return invisible
	case unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp):
		return ' '
	}
	return r
}

// isIgnorable reports whether a letter or mark is rendered as nothing (Default_Ignorable_Code_Point): a filler, or a variation selector,
// with which any text can be hidden behind a visible character.
func isIgnorable(r rune) bool {
	return r > unicode.MaxLatin1 && unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Lines returns a text of several lines without control characters and invisible characters, as in [Line]. Tabs and line breaks stay.
func Lines(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return r
		}
		return replaceInLine(r)
	}, s)
}

// IsText reports whether the content of a file is text: UTF-8 without NUL.
func IsText(content []byte) bool { return utf8.Valid(content) && bytes.IndexByte(content, 0) < 0 }

// Escape replaces each character that is not printable by its JSON escape (\u0000), except for those
// in except. So JSON keeps its meaning.
func Escape(s, except string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) && !isIgnorable(r) || strings.ContainsRune(except, r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// Printable reports whether all characters of a text are visible: letters, marks, numbers,
// punctuation, symbols and spaces, except for those that Unicode renders as nothing
// (Default_Ignorable_Code_Point).
func Printable(s string) bool {
	for _, r := range s {
		switch {
		case r >= ' ' && r < unicode.MaxASCII:
		case !unicode.IsPrint(r), isIgnorable(r), r == '\u2800': // a blank
			return false
		}
	}
	return true
}
