package cache

import (
	"net/http"
	"slices"
	"strings"
)

// lasting are the fields of an answer that still matter once it is kept. Date
// and Age matter too, but only on arrival: a 304 brings its own.
var lasting = []string{"Cache-Control", "Etag", "Expires", "Last-Modified", "Vary"}

// lastingOf picks the lasting fields, without those that private="…" keeps from
// a shared cache (RFC 9111, section 5.2.2.7).
func lastingOf(answer http.Header) http.Header {
	private := parseDirectives(answer["Cache-Control"]).privateFields
	var kept http.Header // many documents have none
	for _, name := range lasting {
		if lines := answer[name]; len(lines) > 0 && !slices.Contains(private, name) {
			if kept == nil {
				kept = make(http.Header, len(lasting))
			}
			kept[name] = lines
		}
	}
	return kept
}

// renewed is the header of a kept answer after a 304: what the 304 says
// replaces what was known (RFC 9111, sections 3.2 and 4.3.4).
func renewed(kept, notModified http.Header) http.Header {
	header := notModified.Clone()
	if header == nil {
		header = make(http.Header, len(kept))
	}
	for name, lines := range kept {
		if len(header[name]) == 0 {
			header[name] = lines
		}
	}
	return header
}

// sentHeader is the header of one request: the caller's, with the conditions
// that the kept answer's validators make (RFC 9111, section 4.3.1). Conditions
// of the caller's own are removed, since their outcome would not concern the
// kept answer. Nil kept means an unconditional request.
func sentHeader(own, kept http.Header) (header http.Header, conditional bool) {
	header = own.Clone()
	if header == nil {
		header = make(http.Header)
	}
	header.Del("If-None-Match")
	header.Del("If-Modified-Since")
	if etag := kept.Get("ETag"); etag != "" {
		header.Set("If-None-Match", etag)
		conditional = true
	}
	if modified := kept.Get("Last-Modified"); isDate(modified) {
		header.Set("If-Modified-Since", modified)
		conditional = true
	}
	return header, conditional
}

// contradicts reports whether a 304 is about another version than the kept one,
// in which case it must not renew it (RFC 9111, section 4.3.4). A 304 without
// validators is about the one we asked for.
func contradicts(kept, notModified http.Header) bool {
	if etag := notModified.Get("ETag"); etag != "" {
		return opaqueTag(etag) != opaqueTag(kept.Get("ETag"))
	}
	modified, ours := notModified.Get("Last-Modified"), kept.Get("Last-Modified")
	return modified != "" && ours != "" && modified != ours
}

// opaqueTag is what the weak comparison of entity tags looks at (RFC 9110,
// section 8.8.3.2).
func opaqueTag(etag string) string {
	return strings.TrimPrefix(etag, "W/")
}

func isDate(s string) bool {
	_, err := http.ParseTime(s)
	return err == nil
}
