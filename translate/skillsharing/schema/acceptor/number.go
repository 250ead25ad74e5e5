package acceptor

import (
	"math"
	"math/big"
	"strconv"
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
	return limit{stated: true, exact: r.IsInt() && isExact(double), double: double}
}

// isExact reports whether the nearest double of an integer is the integer: all integers up to this size are doubles, and no larger one is nearest to it.
func isExact(double float64) bool { return math.Abs(double) < 1<<53 }

// maxNumber is the longest number in bytes that is not left to the library.
const maxNumber = 32

// accept reports whether a number is certainly within the bounds. Rounding to the nearest double keeps the order of numbers. So where
// the doubles differ, the numbers differ in the same way; where they are equal, both must be exact.
func (b *bounds) accept(raw string, isInteger bool) bool {
	double, err := strconv.ParseFloat(raw, 64)
	exact, n := isInteger && isExact(double), int64(double)
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
	return err == nil && (b.divisor == 0 || exact && n%b.divisor == 0)
}
