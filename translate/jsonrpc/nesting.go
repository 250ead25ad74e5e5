package jsonrpc

import "bytes"

// Deeper reports whether arrays and objects nest deeper than limit; the outermost has the
// depth 1. Call it before parsing, since parsers recurse and have far higher bounds. For
// text that is not JSON, the result is right for the part before the first syntax error,
// where a parser stops.
func Deeper(text []byte, limit int) bool {
	// Most texts have fewer brackets than the limit. Counting is cheap.
	if bytes.Count(text, []byte{'['})+bytes.Count(text, []byte{'{'}) <= limit {
		return false
	}
	if text = bytes.TrimLeft(text, " \t\r\n"); len(text) == 0 || text[0] != '[' && text[0] != '{' {
		return false // a scalar, or not JSON
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i)
		case '[', '{':
			depth++
			if depth > limit {
				return true
			}
		case ']', '}':
			depth--
		}
	}
	return false
}

// stringEnd returns the index of the quote that closes the one at start, or
// the length of the text.
func stringEnd(text []byte, start int) int {
	for i := start + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text)
}
