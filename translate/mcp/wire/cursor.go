package wire

import (
	"encoding/base64"
	"strings"
)

// NewCursor returns the cursor of the page of a list after a name. Each list has a letter.
func NewCursor(list, after string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(list + "1:" + after))
}

// ParseCursor returns the name after which a page of a list begins. ok is false if the cursor is none of the list.
func ParseCursor(list, cursor string) (after string, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	after, ok = strings.CutPrefix(string(raw), list+"1:")
	return after, ok && err == nil && isToolName(after) && NewCursor(list, after) == cursor // the decoder skips line ends
}

// isToolName reports whether a text has the form of the name of a tool.
func isToolName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}
