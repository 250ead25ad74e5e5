package jsonrpc

import "bytes"

// tooDeep reports whether arrays and objects nest deeper than limit. It is asked
// before parsing, because the parser's own bound is far higher and it recurses.
// For text that is not JSON the answer may be wrong either way, but never for
// the part of it up to the first fault, which is all a parser descends into.
func tooDeep(text []byte, limit int) bool {
	// Most bodies have fewer brackets than the limit, and counting is cheap.
	if bytes.Count(text, []byte{'['})+bytes.Count(text, []byte{'{'}) <= limit {
		return false
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
