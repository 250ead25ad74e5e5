package front

// The characters of base64 (RFC 4648).
const (
	notBase64  = iota
	bothBase64 // in both alphabets
	stdBase64  // only in that of section 4
	urlBase64  // only in that of section 5
)

var base64Characters = func() (table [256]uint8) {
	for c := range table {
		switch c := byte(c); {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			table[c] = bothBase64
		case c == '+', c == '/':
			table[c] = stdBase64
		case c == '-', c == '_':
			table[c] = urlBase64
		}
	}
	return table
}()

// Base64 returns base64 text with padding in the standard alphabet (RFC 4648, section 4). ok is false if the text is not
// that. If lenient is true, the text may also be in the alphabet for URLs, and without padding.
func Base64(text []byte, lenient bool) (standard string, ok bool) {
	n, other := len(text), false
	for padding := 0; padding < 2 && n > 0 && text[n-1] == '='; padding++ {
		n--
	}
	for _, c := range text[:n] {
		switch base64Characters[c] {
		case notBase64:
			return "", false
		case urlBase64:
			other = true
		}
	}
	missing := -n & 3 // characters of padding
	padded := n+missing == len(text)
	if missing == 3 || !padded && (n < len(text) || !lenient) || other && !lenient {
		return "", false
	}
	if padded && !other {
		return string(text), true
	}
	b := append(make([]byte, 0, n+missing), text[:n]...)
	for i, c := range b {
		switch c {
		case '-':
			b[i] = '+'
		case '_':
			b[i] = '/'
		}
	}
	for range missing {
		b = append(b, '=')
	}
	return string(b), true
}
