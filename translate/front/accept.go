package front

import (
	"mime"
	"net/http"
	"slices"
	"strings"
)

// AcceptsStream reports whether a client says that it reads server-sent events, in one of these media ranges. r may be nil.
func AcceptsStream(r *http.Request, ranges ...string) bool {
	if r == nil {
		return false
	}
	for _, line := range r.Header["Accept"] {
		for item := range strings.SplitSeq(line, ",") {
			if mediaType, _, err := mime.ParseMediaType(item); err == nil && slices.Contains(ranges, mediaType) {
				return true
			}
		}
	}
	return false
}
