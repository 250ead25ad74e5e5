package acceptor

import (
	"math/big"
	"strconv"

	"github.com/skill-bridge/caddy-skill-bridge/translate/strictjson"
)

// bounds is what the schema asks of a number.
type bounds struct {
	limits  [4]limit // minimum, exclusiveMinimum, maximum, exclusiveMaximum
	divisor int64    // multipleOf; 0: it is not asked for
}

// limit is a bound, as the nearest double.
type limit struct {
	stated bool
	exact  bool // the double is the bound
	double float64
}

func newLimit(r *big.Rat) limit {
	double, _ := r.Float64()
	n, isExact := r.Num(), r.IsInt() && r.Num().IsInt64()
	const exactUpTo = 1 << 53
	return limit{stated: true, exact: isExact && -exactUpTo <= n.Int64() && n.Int64() <= exactUpTo, double: double}
}

// maxNumber is the longest number in bytes that is not left to the library.
const maxNumber = 32

// accept reports whether a number is certainly within the bounds. Rounding to the nearest double keeps the order of numbers. So where
// the doubles differ, the numbers differ in the same way; where they are equal, both must be exact.
func (b *bounds) accept(raw []byte) bool {
	n, places, ok := decimal(raw)
	exact := ok && places == 0
	double, ok := nearest(raw, n, places, ok)
	if !ok {
		return false
	}
	for i := range b.limits {
		l := &b.limits[i]
		if !l.stated {
			continue
		}
		isEqual := exact && l.exact && double == l.double
		isBeyond := double > l.double
		if i >= 2 {
			isBeyond = double < l.double
		}
		if !isBeyond && (i%2 == 1 || !isEqual) {
			return false
		}
	}
	return b.divisor == 0 || exact && n%b.divisor == 0
}

// powers are the powers of ten up to that of the digits that decimal reads. Doubles have them exactly.
var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// nearest returns the double nearest to a number, of which decimal has returned the others.
func nearest(raw []byte, n int64, places int, isDecimal bool) (double float64, ok bool) {
	if isDecimal {
		return float64(n) / powers[places], true // the quotient of two exact doubles is rounded once
	}
	const fast = 290 // strconv.ParseFloat takes 20 µs for numbers that are nearly 0
	if exponent, isZero := strictjson.Magnitude(string(raw)); !isZero && (exponent < -fast || exponent > fast) {
		return 0, false
	}
	double, err := strconv.ParseFloat(string(raw), 64)
	return double, err == nil
}

// maxDigits is the largest number of digits of an integer that a double certainly has exactly.
const maxDigits = 15

// decimal reads a number of at most maxDigits digits without an exponent, which is n / 10^places.
func decimal(raw []byte) (n int64, places int, ok bool) {
	isNegative := len(raw) > 0 && raw[0] == '-'
	if isNegative {
		raw = raw[1:]
	}
	point := len(raw) - 1
	for i, c := range raw {
		switch {
		case c-'0' <= 9 && i <= maxDigits:
			n = 10*n + int64(c-'0')
		case c == '.':
			point = i
		default:
			return 0, 0, false
		}
	}
	if isNegative {
		n = -n
	}
	places = len(raw) - 1 - point
	return n, places, len(raw) > 0 && (len(raw) <= maxDigits || places > 0)
}
