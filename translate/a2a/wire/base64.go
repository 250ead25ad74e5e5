package wire

import "github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"

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

// base64 returns base64 text with padding in the standard alphabet. In the JSON of Protocol Buffers, which 1.0 uses, the
// text may also be in the alphabet for URLs, and without padding.
func (o *object) base64(i int) string {
	if v := o.values[i].Value; v.Kind() == '"' {
		if s, ok := standardBase64(jsonrpc.Unquote(v), o.version == V10); ok {
			return s
		}
	}
	o.wrong(i, "must be base64")
	return ""
}

// standardBase64 returns base64 text with padding in the standard alphabet. ok is false if the text is not base64.
func standardBase64(text []byte, lenient bool) (standard string, ok bool) {
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
	if missing == 3 || n < len(text) && n+missing != len(text) || !lenient && (other || n+missing != len(text)) {
		return "", false
	}
	if !other && n+missing == len(text) {
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
