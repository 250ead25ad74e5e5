package strictjson

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Space returns the index of the first byte from i on that is not white space, or the length of the text.
func Space(t []byte, i int) int {
	for i < len(t) && t[i] <= ' ' && (t[i] == ' ' || t[i] == '\n' || t[i] == '\r' || t[i] == '\t') {
		i++
	}
	return i
}

// String reads the string whose quotation mark is at i. It returns the index after the string; 0: the string is invalid. The string has as
// many characters as bytes between the quotation marks, less excess. It is plain if it has no escape sequence.
func String(t []byte, i int) (end, excess int, isPlain bool) {
	isPlain = true
	for i++; ; {
		for i+8 <= len(t) {
			special := specials(binary.LittleEndian.Uint64(t[i:]))
			if special != 0 {
				i += bits.TrailingZeros64(special) / 8
				break
			}
			i += 8
		}
		if i >= len(t) {
			return 0, 0, false
		}
		switch c := t[i]; {
		case c == '"':
			return i + 1, excess, isPlain
		case c == '\\':
			size := escape(t[i:])
			if size == 0 {
				return 0, 0, false
			}
			i, excess, isPlain = i+size, excess+size-1, false
		case c < ' ':
			return 0, 0, false
		case c < utf8.RuneSelf: // fewer than eight bytes are left
			i++
		}
		for i < len(t) && t[i] >= utf8.RuneSelf { // usually several in a row
			char, size := utf8.DecodeRune(t[i:])
			if char == utf8.RuneError && size == 1 {
				return 0, 0, false
			}
			i, excess = i+size, excess+size-1
		}
	}
}

// specials returns 0 if eight bytes are all ASCII characters other than quotation marks, backslashes and control characters. Otherwise, the
// lowest bit that is set belongs to the first other byte.
func specials(eight uint64) uint64 {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	quotes, backslashes := eight^(ones*'"'), eight^(ones*'\\')
	return (eight | (eight - ones*' ') | (quotes - ones) | (backslashes - ones)) & high
}

// escape returns the size of the escape sequence of one character at the start of a text; 0: it is invalid.
func escape(t []byte) int {
	if len(t) < 2 {
		return 0
	}
	switch t[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		const size = len(`\u0000`)
		switch unit := codeUnit(t); {
		case unit < 0, 0xdc00 <= unit && unit < 0xe000:
			return 0
		case unit < 0xd800 || unit >= 0xe000:
			return size
		default: // half of a surrogate pair
			if low := codeUnit(t[size:]); low < 0xdc00 || low >= 0xe000 {
				return 0
			}
			return 2 * size
		}
	}
	return 0
}

// codeUnit returns the number in the escape sequence \u0000 at the start of a text; negative: there is none.
func codeUnit(t []byte) int {
	const size = len(`\u0000`)
	if len(t) < size || t[0] != '\\' || t[1] != 'u' {
		return -1
	}
	unit := 0
	for _, c := range t[2:size] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		unit = unit<<4 | int(c)
	}
	return unit
}

// Number reads the number at i. It returns the index after it; 0: it is not a number. An integer has neither a fraction nor an exponent;
// exponent is how many digits that has.
func Number(t []byte, i int) (end, exponent int, isInteger bool) {
	if i < len(t) && t[i] == '-' {
		i++
	}
	first := i
	if i = digits(t, i); i == first || t[first] == '0' && i > first+1 {
		return 0, 0, false
	}
	isInteger = true
	if i < len(t) && t[i] == '.' {
		isInteger = false
		first = i + 1
		if i = digits(t, first); i == first {
			return 0, 0, false
		}
	}
	if i < len(t) && t[i]|0x20 == 'e' {
		isInteger = false
		i++
		if i < len(t) && (t[i] == '+' || t[i] == '-') {
			i++
		}
		first = i
		if i = digits(t, i); i == first {
			return 0, 0, false
		}
		exponent = i - first
	}
	return i, exponent, isInteger
}

// digits returns the index after the digits at i.
func digits(t []byte, i int) int {
	for i < len(t) && t[i]-'0' <= 9 {
		i++
	}
	return i
}

// StringEnd returns the index of the quotation mark that closes a string in which i is, or the length of the text.
func StringEnd(t []byte, i int) int {
	for ; i < len(t); i++ {
		switch t[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(t)
}

// Literal returns the index after a word at i; 0: the text has another there.
func Literal(t []byte, i int, word string) int {
	if end := i + len(word); end <= len(t) && string(t[i:end]) == word {
		return end
	}
	return 0
}
