package front

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// AcceptsStream reports whether a client says that it reads server-sent events, in one of these media ranges. The most specific range
// is first; if it is there with the weight 0, the others do not count (RFC 9110, section 12.5.1). r may be nil.
func AcceptsStream(r *http.Request, ranges ...string) bool {
	if r == nil {
		return false
	}
	accepted, best := false, len(ranges)
	for _, line := range r.Header["Accept"] {
		for item := range strings.SplitSeq(line, ",") {
			mediaType, params, err := mime.ParseMediaType(item)
			if err != nil {
				continue
			}
			if at := slices.Index(ranges[:best], mediaType); at >= 0 {
				weight, err := strconv.ParseFloat(params["q"], 64)
				accepted, best = err != nil || weight > 0, at
			}
		}
	}
	return accepted
}
