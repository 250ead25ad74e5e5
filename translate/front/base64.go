package front

import "strings"

// base64Alphabet has the characters of base64 (RFC 4648, section 4).
const base64Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// fromURLs replaces the characters that only the alphabet for URLs has (section 5).
var fromURLs = strings.NewReplacer("-", "+", "_", "/")

// Base64 returns base64 text with padding in the standard alphabet (RFC 4648, section 4). ok is false if the text is not
// that. If lenient is true, the text may also be in the alphabet for URLs, and without padding.
func Base64(text []byte, lenient bool) (standard string, ok bool) {
	standard = string(text)
	if lenient {
		standard = fromURLs.Replace(standard)
		if !strings.HasSuffix(standard, "=") {
			standard += strings.Repeat("=", -len(standard)&3)
		}
	}
	content := strings.TrimSuffix(strings.TrimSuffix(standard, "="), "=")
	if len(standard)%4 != 0 || strings.Trim(content, base64Alphabet) != "" {
		return "", false
	}
	return standard, true
}
