package cache

import (
	"net/http"
	"strings"
	"time"
)

// verdict is what the header of an answer allows to be done with it.
type verdict struct {
	keep       bool      // it may be kept at all
	expires    time.Time // until then it may be handed out without asking; not after its arrival if it never may
	staleUntil time.Time // until then it may be handed out when the origin is in trouble; zero if it never may
}

// judge applies RFC 9111, sections 3 and 4.2, to the header of a 200 answer to
// a GET that was asked for and received at the given times.
func (config Config) judge(header http.Header, requested, received time.Time) verdict {
	d := parseDirectives(header["Cache-Control"])
	if d.private || d.noStore && !d.mustUnderstand {
		return verdict{expires: received}
	}
	if d.noCache || variesOnEverything(header) {
		return verdict{keep: true, expires: received}
	}
	fresh := config.lifetime(d, header, received) - initialAge(header, requested, received)
	v := verdict{keep: true, expires: received.Add(min(fresh, config.MaxTTL))}
	if window := config.staleWindow(d); window > 0 {
		v.staleUntil = v.expires.Add(window)
	}
	return v
}

// lifetime is freshness_lifetime of RFC 9111, section 4.2.1, for a shared
// cache. What is stated but invalid is a lifetime of zero.
func (config Config) lifetime(d directives, header http.Header, received time.Time) time.Duration {
	switch expires := header["Expires"]; {
	case d.sMaxAge.present:
		return d.sMaxAge.value
	case d.maxAge.present:
		return d.maxAge.value
	case len(expires) > 0:
		return expiresIn(expires, dateOf(header, received))
	}
	return config.TTL
}

// expiresIn is the distance from date to the Expires field (RFC 9111, section
// 5.3). Lines that differ, what is no date (such as "0") and what is past are no
// distance at all.
func expiresIn(lines []string, date time.Time) time.Duration {
	for _, line := range lines[1:] {
		if line != lines[0] {
			return 0
		}
	}
	expires, err := http.ParseTime(lines[0])
	if err != nil {
		return 0
	}
	return max(expires.Sub(date), 0)
}

// initialAge is corrected_initial_age of RFC 9111, section 4.2.3.
func initialAge(header http.Header, requested, received time.Time) time.Duration {
	apparent := received.Sub(dateOf(header, received))
	corrected := ageOf(header) + received.Sub(requested)
	return max(apparent, corrected, 0)
}

// dateOf is the answer's Date; an answer without one is as old as its arrival
// (RFC 9110, section 6.6.1).
func dateOf(header http.Header, received time.Time) time.Time {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return received
	}
	return date
}

// ageOf is the Age field: the first member if there are several, ignored if
// invalid (RFC 9111, section 5.1).
func ageOf(header http.Header) time.Duration {
	first, _, _ := strings.Cut(header.Get("Age"), ",")
	age, _ := parseSeconds(strings.Trim(first, " \t")) // zero if invalid
	return age
}

// staleWindow is how long past its freshness a document may be served while
// the origin is in trouble. s-maxage forbids it like proxy-revalidate (RFC
// 9111, section 5.2.2.10). An invalid stale-if-error allows nothing.
func (config Config) staleWindow(d directives) time.Duration {
	if d.mustRevalidate || d.proxyRevalidate || d.sMaxAge.present {
		return 0
	}
	if d.staleIfError.present {
		return min(d.staleIfError.value, config.StaleIfError)
	}
	return config.StaleIfError
}
