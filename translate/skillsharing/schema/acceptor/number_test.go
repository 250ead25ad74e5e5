package acceptor

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// Numbers with a fraction are the doubles that strconv reads.
func TestNearest(t *testing.T) {
	check := func(text string) {
		t.Helper()
		want, err := strconv.ParseFloat(text, 64)
		n, places, isDecimal := decimal([]byte(text))
		if digits := strings.NewReplacer("-", "", ".", "").Replace(text); isDecimal != (len(digits) <= maxDigits && !strings.Contains(text, "e")) {
			t.Errorf("%s is decimal: %t", text, isDecimal)
		}
		if got, ok := nearest([]byte(text), n, places, isDecimal); ok != (err == nil) || got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"0", "-0", "7", "-12", "123456789012345", "-123456789012345", "1234567890123456", "0.12345678901234", "0.123456789012345", "12345678901234.5", "123456789012345.5", "0.0", "-0.0", "0.1", "-0.3", "35.6897", "139.6922", "-179.999999999999", "9007199.25474099", "0.0000000000001", "1.5e10", "12.5e-3", "123456789.123456789", "9999999999999.9"} {
		check(text)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		check(fmt.Sprintf("%.*f", 1+random.IntN(12), (random.Float64()-0.5)*float64(random.IntN(1_000_000))))
	}
}
