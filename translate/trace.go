package translate

import (
	"encoding/binary"
	"encoding/hex"
	mathrand "math/rand/v2"
	"strings"
)

// TraceIDOf returns the trace id of a traceparent (W3C Trace Context, section 3.2), or nothing if it is invalid. One of a later version may have
// more fields (section 3.2.4).
func TraceIDOf(traceParent string) string {
	fields := strings.Split(traceParent, "-")
	later := len(fields) >= 4 && isHex(fields[0], 2) && fields[0] > "00" && fields[0] != "ff"
	if !later && (len(fields) != 4 || fields[0] != "00") || !isHex(fields[1], 32) || !isHex(fields[2], 16) || !isHex(fields[3], 2) {
		return ""
	}
	if strings.Trim(fields[1], "0") == "" || strings.Trim(fields[2], "0") == "" {
		return ""
	}
	return fields[1]
}

// isHex reports whether text has the given length and only digits and the letters a to f.
func isHex(text string, length int) bool {
	return len(text) == length && strings.Trim(text, "0123456789abcdef") == ""
}

// NewTraceID makes a W3C trace id, for calls of one request that have none.
func NewTraceID() string {
	var id [16]byte
	var text [2 * len(id)]byte
	binary.NativeEndian.PutUint64(id[:8], mathrand.Uint64()|1) //nolint:gosec // unique, and never all zeros; no secret
	binary.NativeEndian.PutUint64(id[8:], mathrand.Uint64())   //nolint:gosec // as above
	hex.Encode(text[:], id[:])
	return string(text[:])
}
