package search

import "strings"

// Natural compares names in the order in which people look for them: digits by the number that they make, so that skill-2 comes before
// skill-10. Different names are never equal.
func Natural(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	from := i // of the digits around the first difference
	for from > 0 && isDigit(a[from-1]) {
		from--
	}
	x, y := digits(a[from:]), digits(b[from:])
	if x != "" && y != "" {
		m, n := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if len(m) != len(n) {
			return len(m) - len(n)
		}
		if m != n {
			return strings.Compare(m, n)
		}
		if x != y { // the same number with other zeros: what follows decides
			if c := Natural(a[from+len(x):], b[from+len(y):]); c != 0 {
				return c
			}
			return len(x) - len(y)
		}
	}
	return strings.Compare(a, b)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// digits returns the digits at the start of a text.
func digits(s string) string {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return s[:n]
}
