package safetext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const ellipsis = '…'

// Clip shortens a text to at most n bytes and an ellipsis. It changes nothing else.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + string(ellipsis)
}

// Line returns a text as one line of at most limit characters; a longer text ends in an ellipsis. Control characters and line
// breaks become spaces. Line leaves out invisible characters, except joiners, which scripts and emoji need. It also cuts a
// text after very many invisible ones.
func Line(s string, limit int) string {
	if isSafe(s, limit) {
		return s
	}
	var b []byte
	count, last := 0, 0 // last is where the last character that fits begins
	for i, r := range s {
		r = safe(r)
		if r == unseen && i < 16*limit {
			continue
		}
		if r == unseen || count == limit {
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

// isSafe reports whether Line has nothing to change.
func isSafe(s string, limit int) bool {
	count := 0
	for _, r := range s {
		if count++; count > limit || safe(r) != r || r == utf8.RuneError {
			return false
		}
	}
	return true
}

// Field returns a text for a field of a log line: at most limit bytes and an ellipsis. Control characters become spaces.
// Invisible characters, and bytes that are no UTF-8, become U+FFFD, so that the log shows that they were there.
func Field(s string, limit int) string {
	if len(s) <= limit && isPlainASCII(s) {
		return s // nearly every field, and a line has many
	}
	if len(s) > limit {
		return strings.Map(marked, strings.ToValidUTF8(s[:limit], "")) + string(ellipsis) // the cut may be in the middle of a character
	}
	return strings.Map(marked, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
}

// marked is what a character becomes in the log.
func marked(r rune) rune {
	if r = safe(r); r == unseen {
		return unicode.ReplacementChar
	}
	return r
}

// isPlainASCII reports whether a text has visible ASCII characters and spaces only.
func isPlainASCII(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// unseen stands for invisible characters.
const unseen = -1

// safe is what a character becomes in a line.
func safe(r rune) rune {
	switch {
	case ' ' <= r && r <= '~', r == '\u200c', r == '\u200d':
		return r
	case unicode.Is(unicode.Cf, r):
		return unseen
	case unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp):
		return ' '
	}
	return r
}

// Escape replaces characters that a terminal doesn't print, other than those in except, by JSON's escapes. JSON keeps its meaning.
func Escape(s, except string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) || strings.ContainsRune(except, r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// Printable reports whether each character of a text can be seen and stays where it is:
// letters, marks, numbers, punctuation, symbols and plain spaces, but none that
// Unicode says to ignore.
func Printable(s string) bool {
	for _, r := range s {
		switch {
		case r >= ' ' && r < unicode.MaxASCII:
		case !unicode.IsPrint(r), unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector), r == '\u2800': // a blank
			return false
		}
	}
	return true
}
