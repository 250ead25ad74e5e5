package card

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Serve answers a GET or HEAD request with a card, or with 304 if the client has this card already (RFC 9110, section 13). The
// caller has to check the method.
func Serve(w http.ResponseWriter, r *http.Request, c *Card) {
	header := w.Header()
	scope, fresh := "public", ", max-age="+strconv.FormatInt(int64(c.MaxAge/time.Second), 10)
	if c.Private {
		scope = "private"
		if c.Restricted { // a cookie or another header may name the principal, so the next request for the URL may be another's
			fresh = ", no-cache"
		}
	}
	header.Set("Cache-Control", scope+fresh)
	header.Set("ETag", c.ETag)
	header.Set("Last-Modified", c.LastModified.UTC().Format(http.TimeFormat))
	header.Add("Vary", "A2A-Version")
	if c.Restricted {
		header.Add("Vary", "Authorization")
	}
	header.Set("Access-Control-Allow-Origin", "*")
	if c.isHeldBy(r.Header) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(c.size))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	for _, piece := range c.pieces {
		if _, err := w.Write(piece); err != nil {
			return // the client has disconnected
		}
	}
}

// isHeldBy reports whether the header of a conditional request says that the client has this card.
func (c *Card) isHeldBy(header http.Header) bool {
	if tags := header.Values("If-None-Match"); len(tags) > 0 {
		return matches(strings.Join(tags, ","), c.ETag)
	}
	since, err := http.ParseTime(header.Get("If-Modified-Since"))
	return err == nil && !c.LastModified.Truncate(time.Second).After(since)
}

// matches reports whether a list of entity tags contains a tag, by weak comparison.
func matches(list, tag string) bool {
	for {
		list = strings.TrimLeft(list, " \t,")
		if list == "" {
			return false
		}
		if list[0] == '*' {
			return true
		}
		list = strings.TrimPrefix(list, "W/")
		if list == "" || list[0] != '"' {
			return false
		}
		end := strings.IndexByte(list[1:], '"')
		if end < 0 {
			return false
		}
		if list[:end+2] == tag {
			return true
		}
		list = list[end+2:]
	}
}
