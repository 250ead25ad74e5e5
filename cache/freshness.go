package cache

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// verdict says how the header of an answer allows it to be used.
type verdict struct {
	keep       bool      // it may be kept
	omit       []string  // header fields that may not be kept (RFC 9111, section 5.2.2.7)
	expires    time.Time // until then it may be used without asking; not after its arrival if it never may
	staleUntil time.Time // until then it may be used when the origin is in trouble; zero if it never may
}

// judge applies RFC 9111, sections 3 and 4.2, to the header of a 200 answer to a GET
// request, by the times of the request and the answer.
func (config Config) judge(header http.Header, requested, received time.Time) verdict {
	d := parseDirectives(header["Cache-Control"])
	omit, private := d.limitedTo("private")
	if private || d.has("no-store") && !d.has("must-understand") {
		return verdict{expires: received}
	}
	v := verdict{keep: true, expires: received, omit: omit}
	if _, always := d.limitedTo("no-cache"); always || slices.Contains(listed(strings.Join(header["Vary"], ",")), "*") {
		return v
	}
	// The age is corrected_initial_age of section 4.2.3. Of several Age fields the first counts; an invalid one is zero (section 5.1).
	first, _, _ := strings.Cut(header.Get("Age"), ",")
	age := max(0, received.Sub(dateOf(header, received)), parseSeconds(strings.Trim(first, " \t"))+received.Sub(requested))
	v.expires = received.Add(min(config.lifetime(d, header, received)-age, config.MaxTTL))
	if window := config.staleWindow(d); window > 0 {
		v.staleUntil = v.expires.Add(window)
	}
	return v
}

// lifetime is freshness_lifetime of RFC 9111, section 4.2.1, for a shared cache.
// A lifetime that is stated but invalid is zero.
func (config Config) lifetime(d directives, header http.Header, received time.Time) time.Duration {
	if lifetime, stated := d.seconds("s-maxage"); stated {
		return lifetime
	}
	if lifetime, stated := d.seconds("max-age"); stated {
		return lifetime
	}
	lines := header["Expires"]
	if len(lines) == 0 {
		return config.TTL
	}
	expires, err := http.ParseTime(lines[0])
	if err != nil || len(slices.Compact(slices.Clone(lines))) > 1 {
		return 0 // no date (such as "0"), or different values (section 5.3)
	}
	return max(expires.Sub(dateOf(header, received)), 0)
}

// dateOf returns the Date of an answer or, if it has none, the time of its
// arrival (RFC 9110, section 6.6.1).
func dateOf(header http.Header, received time.Time) time.Time {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return received
	}
	return date
}

// staleWindow returns how long a document may still be served after its
// freshness has ended if the origin fails. s-maxage forbids it like
// proxy-revalidate (RFC 9111, section 5.2.2.10). An invalid stale-if-error
// allows nothing.
func (config Config) staleWindow(d directives) time.Duration {
	if d.has("must-revalidate") || d.has("proxy-revalidate") || d.has("s-maxage") {
		return 0
	}
	if window, stated := d.seconds("stale-if-error"); stated {
		return min(window, config.StaleIfError)
	}
	return config.StaleIfError
}

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
