package strictjson_test

import (
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/strictjson"
)

// edges are numbers at the edge of what a double can be.
var edges = []string{
	"0", "-0", "0e99999", "0.000", "1", "-1", "150", "0.5", "0.05e1", "10e-1", "1e308", "1.7976931348623157e308", "1.7976931348623158e308", "1.7976931348623159e308", "17.976931348623159E307",
	"0.00017976931348623158e312", "1e309", "9.99e307", "1e-320", "5e-324", "1e-400", "1e999999999999999999999", "-1e-999999999999999999999", "1e+308",
	least.String(), new(big.Int).Sub(least, big.NewInt(1)).String(), least.String() + ".0", least.String() + "0e-1", least.String()[:200] + "." + least.String()[200:] + "e109",
	new(big.Int).Sub(least, big.NewInt(1)).String() + ".999", "0." + strings.Repeat("0", 400) + "18e709", "1" + strings.Repeat("0", 308), "1" + strings.Repeat("0", 309),
}

var least = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 1024), new(big.Int).Lsh(big.NewInt(1), 970))

// FuzzIsFinite: what is said about a number without parsing it is what strconv finds out.
func FuzzIsFinite(f *testing.F) {
	for _, n := range edges {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, number string) {
		if len(number) > 2000 || jsontext.Value(number).Kind() != '0' || !jsontext.Value(number).IsValid() || strings.TrimSpace(number) != number {
			return
		}
		double, err := strconv.ParseFloat(number, 64)
		if got := strictjson.IsFinite(number); got != (err == nil) {
			t.Errorf("%s: finite: %t; strconv says %g, %v", number, got, double, err)
		}
		exponent, isZero := strictjson.Magnitude(number)
		if double != 0 && isZero {
			t.Errorf("%s is not 0", number)
		}
		if double == 0 || err != nil || exponent < -307 {
			return
		}
		// The shortest text of the double differs from the number by rounding only.
		text := strconv.FormatFloat(double, 'e', -1, 64)
		if written, _ := strconv.Atoi(text[strings.IndexByte(text, 'e')+1:]); written != exponent && written != exponent+1 {
			t.Errorf("%s has the exponent %d, not %d", number, written, exponent)
		}
	})
}

func TestMagnitude(t *testing.T) {
	for number, want := range map[string]int{"150": 2, "0.5": -1, "-0.05": -2, "1e300": 300, "12.5e-3": -2, "0.00e5": 2, "1e-99999999999999999999": -1e8, "0.01E+2": 0} {
		if got, isZero := strictjson.Magnitude(number); got != want && !isZero || isZero != strings.HasPrefix(number, "0.00e") {
			t.Errorf("%s: %d, %t", number, got, isZero)
		}
	}
}
