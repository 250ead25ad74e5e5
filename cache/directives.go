package cache

import (
	"net/textproto"
	"strings"
	"time"
)

// maxSeconds is what larger numbers of seconds count as (RFC 9111, section
// 1.2.2).
const maxSeconds = 1 << 31

// directives are those of a response's Cache-Control field that concern this
// cache (RFC 9111, section 5.2.2; RFC 5861, section 4).
type directives struct {
	noStore         bool
	noCache         bool // without field names
	private         bool // without field names
	mustRevalidate  bool
	proxyRevalidate bool
	mustUnderstand  bool
	maxAge          delta
	sMaxAge         delta
	staleIfError    delta
	privateFields   []string // the field names of private="…", canonical
}

// delta is a directive whose argument is a number of seconds.
type delta struct {
	present bool
	valid   bool // false if malformed, or given twice with different values
	value   time.Duration
}

// parseDirectives reads the lines of a Cache-Control field. It is strict where
// leniency could make a document look more reusable than it is, and otherwise
// passes over what it does not understand.
func parseDirectives(lines []string) directives {
	var d directives
	for _, line := range lines {
		for line != "" {
			var one directive
			one, line = nextDirective(line)
			d.apply(one)
		}
	}
	return d
}

// directive is one element of the list.
type directive struct {
	name      string // lower case
	argument  string // unquoted
	malformed bool   // something other than name, name=token or name="string"
}

// nextDirective cuts the first element off a line. Lines are not joined before,
// so that a quotation mark left open cannot hide what later lines forbid; within
// its line it does not hide anything either.
func nextDirective(line string) (directive, string) {
	line = strings.TrimLeft(line, " \t")
	end := strings.IndexAny(line, "=, \t")
	if end < 0 {
		return directive{name: strings.ToLower(line)}, ""
	}
	d := directive{name: strings.ToLower(line[:end])}
	rest := line[end:]
	if rest[0] == '=' {
		d.argument, rest = cutArgument(rest[1:])
	}
	junk, rest, _ := strings.Cut(rest, ",")
	d.malformed = strings.Trim(junk, " \t") != ""
	return d, rest
}

// cutArgument reads the token or quoted-string that s begins with, and returns
// what follows it. A quoted-string without an end is left in what follows.
func cutArgument(s string) (argument, rest string) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, ", \t")
		if end < 0 {
			return s, ""
		}
		return s[:end], s[end:]
	}
	var unquoted strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return unquoted.String(), s[i+1:]
		case '\\':
			i++
			if i == len(s) {
				return "", s
			}
		}
		unquoted.WriteByte(s[i])
	}
	return "", s
}

func (d *directives) apply(one directive) {
	switch one.name {
	case "no-store":
		d.noStore = true
	case "must-revalidate":
		d.mustRevalidate = true
	case "proxy-revalidate":
		d.proxyRevalidate = true
	case "must-understand":
		d.mustUnderstand = true
	case "no-cache":
		d.noCache = d.noCache || len(one.fieldNames()) == 0
	case "private":
		names := one.fieldNames()
		d.private = d.private || len(names) == 0
		d.privateFields = append(d.privateFields, names...)
	case "max-age":
		d.maxAge.apply(one)
	case "s-maxage":
		d.sMaxAge.apply(one)
	case "stale-if-error":
		d.staleIfError.apply(one)
	}
}

// fieldNames returns the header fields a qualified directive is limited to,
// canonical. None means that it is not limited, which is also the careful
// reading of a malformed one.
func (one directive) fieldNames() []string {
	if one.malformed {
		return nil
	}
	return listed(one.argument)
}

// listed splits a comma-separated list of header field names, canonical.
func listed(list string) []string {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.Trim(name, " \t"); name != "" {
			names = append(names, textproto.CanonicalMIMEHeaderKey(name))
		}
	}
	return names
}

// apply adds an occurrence. Repetitions that contradict each other make the
// value invalid (RFC 9111, section 4.2.1).
func (d *delta) apply(one directive) {
	value, ok := parseSeconds(one.argument)
	ok = ok && !one.malformed
	if d.present {
		ok = ok && d.valid && value == d.value
	}
	*d = delta{present: true, valid: ok}
	if ok {
		d.value = value
	}
}

// parseSeconds reads delta-seconds (RFC 9111, section 1.2.2): digits only, and
// too many seconds are the most that count.
func parseSeconds(s string) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	var total int64
	for _, b := range []byte(s) {
		if b < '0' || b > '9' {
			return 0, false
		}
		total = min(total*10+int64(b-'0'), maxSeconds)
	}
	return time.Duration(total) * time.Second, true
}
