package cache

import (
	"net/http"
	"slices"
	"strings"
)

// lasting are the header fields of an answer that are kept. Date and Age matter on
// arrival only: a 304 brings its own.
var lasting = []string{"Cache-Control", "Etag", "Expires", "Last-Modified", "Vary"}

// lastingOf picks the lasting fields, without those to omit.
func lastingOf(answer http.Header, omit []string) http.Header {
	var kept http.Header // many documents have none
	for _, name := range lasting {
		if lines := answer[name]; len(lines) > 0 && !slices.Contains(omit, name) {
			if kept == nil {
				kept = make(http.Header, len(lasting))
			}
			kept[name] = lines
		}
	}
	return kept
}

// conditionsFor makes the conditions of a request that is to renew a document from its
// validators (RFC 9111, section 4.3.1).
func conditionsFor(base *kept) http.Header {
	conditions := make(http.Header)
	if base == nil {
		return conditions
	}
	if etag := base.header.Get("ETag"); etag != "" {
		conditions.Set("If-None-Match", etag)
	}
	modified := base.header.Get("Last-Modified")
	if _, err := http.ParseTime(modified); err == nil {
		conditions.Set("If-Modified-Since", modified)
	}
	return conditions
}

// contradicts reports whether a 304 is about another version than the kept one, which
// it must not renew then (RFC 9111, section 4.3.4). A 304 without validators is about
// the version whose validators were sent.
func contradicts(kept, notModified http.Header) bool {
	if etag := notModified.Get("ETag"); etag != "" {
		return opaqueTag(etag) != opaqueTag(kept.Get("ETag"))
	}
	modified, ours := notModified.Get("Last-Modified"), kept.Get("Last-Modified")
	return modified != "" && ours != "" && modified != ours
}

// opaqueTag returns the part of an entity tag that counts in a weak comparison
// (RFC 9110, section 8.8.3.2).
func opaqueTag(etag string) string {
	return strings.TrimPrefix(etag, "W/")
}
