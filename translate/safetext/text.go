package safetext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const ellipsis = '…'

// Clip shortens a text to at most n bytes and an ellipsis. It takes nothing else out.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + string(ellipsis)
}

// Line makes one line of a text, of at most so many characters: the last is an ellipsis where there was more. Control characters and line breaks
// become spaces. What can't be seen is left out, but for joiners, which scripts and emoji need. A text that goes on and on with what can't be seen is
// cut there.
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

// isSafe reports whether a text is a line of at most so many characters already.
func isSafe(s string, limit int) bool {
	count := 0
	for _, r := range s {
		if count++; count > limit || safe(r) != r || r == utf8.RuneError {
			return false
		}
	}
	return true
}

// Field makes a text fit for a field of a log line: at most so many bytes and an ellipsis. Control characters become spaces, and
// what can't be seen, or is no UTF-8, becomes U+FFFD, so that the log shows that there was something.
func Field(s string, limit int) string {
	if len(s) <= limit && isPlainASCII(s) {
		return s // as nearly always, and there are many in a line
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

// isPlainASCII reports whether a text has nothing but what can be seen, and spaces.
func isPlainASCII(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// unseen stands for characters that can't be seen.
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

// Escape writes what a terminal doesn't print as JSON does, so that JSON stays the same, but for the characters in except.
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
// letters, marks, numbers, punctuation, symbols and plain spaces, but none that Unicode
// wants to be ignored.
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
