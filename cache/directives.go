package cache

import (
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxSeconds is the value of larger numbers of seconds (RFC 9111, section 1.2.2).
const maxSeconds = 1 << 31

// directives are the arguments of a Cache-Control field's directives, by their names.
// A directive without an argument, or with a malformed one, has an empty one.
type directives map[string][]string

// understood are the directives that concern this cache (RFC 9111, section 5.2.2;
// RFC 5861, section 4).
var understood = []string{
	"max-age", "must-revalidate", "must-understand", "no-cache", "no-store", "private", "proxy-revalidate", "s-maxage", "stale-if-error",
}

// parseDirectives reads the lines of a Cache-Control field. They are not joined before,
// so that a quotation mark without a second one can't hide directives of later lines;
// within its line it hides nothing either.
func parseDirectives(lines []string) directives {
	d := make(directives)
	for _, line := range lines {
		for _, m := range directive.FindAllStringSubmatch(line, -1) {
			name, quoted, token, junk := strings.ToLower(m[1]), m[2], m[3], m[4]
			argument := escaped.ReplaceAllString(quoted, "$1") + token
			if strings.Trim(junk, " \t") != "" || strings.HasPrefix(token, `"`) { // a quotation mark without a second one
				argument = ""
			}
			if slices.Contains(understood, name) {
				d[name] = append(d[name], argument)
			}
		}
	}
	return d
}

var (
	// directive matches a directive: its name, its argument, which is a quoted-string or a token, and what else is before the next comma.
	directive = regexp.MustCompile(`(?s)[ \t]*([^=, \t]*)(?:="((?:[^"\\]|\\.)*)"|=([^, \t]*))?([^,]*),?`)
	escaped   = regexp.MustCompile(`(?s)\\(.)`)
)

func (d directives) has(name string) bool { return len(d[name]) > 0 }

// limitedTo returns the header fields that a directive is limited to, canonical, and
// whether it applies to the whole answer, as one without arguments does.
func (d directives) limitedTo(name string) (fields []string, whole bool) {
	for _, argument := range d[name] {
		names := listed(argument)
		fields = append(fields, names...)
		whole = whole || len(names) == 0
	}
	return fields, whole
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

// seconds returns the number of seconds that a directive states. It is zero if the number
// is malformed, or if several differ (RFC 9111, section 4.2.1).
func (d directives) seconds(name string) (value time.Duration, stated bool) {
	for i, argument := range d[name] {
		n := parseSeconds(argument)
		if i > 0 && n != value {
			return 0, true
		}
		value = n
	}
	return value, d.has(name)
}

// parseSeconds reads delta-seconds (RFC 9111, section 1.2.2). Malformed ones are zero.
func parseSeconds(digits string) time.Duration {
	if strings.Trim(digits, "0123456789") != "" {
		return 0
	}
	n, _ := strconv.ParseInt(digits, 10, 64) // if there are too many digits, the largest number
	return time.Duration(min(n, maxSeconds)) * time.Second
}
