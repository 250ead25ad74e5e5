package jsonrpc

import "bytes"

// Deeper reports whether arrays and objects nest deeper than limit, the outermost
// counting as 1. It is asked before parsing, because parsers recurse, and their
// own bounds are far higher. For text that is not JSON the answer may be wrong
// either way, but never for the part of it up to the first fault, which is all a
// parser descends into.
func Deeper(text []byte, limit int) bool {
	// Most texts have fewer brackets than the limit, and counting is cheap.
	if bytes.Count(text, []byte{'['})+bytes.Count(text, []byte{'{'}) <= limit {
		return false
	}
	if text = bytes.TrimLeft(text, " \t\r\n"); len(text) == 0 || text[0] != '[' && text[0] != '{' {
		return false // it is a scalar, or no JSON, such as a page of HTML
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

// stringEnd returns the place of the quote that closes the one at start, or
// the end of the text.
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
