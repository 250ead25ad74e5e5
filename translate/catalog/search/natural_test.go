package search

import (
	"math/rand/v2"
	"testing"
)

func TestNatural(t *testing.T) {
	sorted := []string{"", "-", "1", "01", "1a", "2", "a", "a1", "a01", "a1b", "a2", "a10", "a10b2", "a10b10", "ab", "b-2", "b-10", "b.1", "skill-2", "skill-10", "skill-18446744073709551617"}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := Natural(a, b); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("%q and %q: %d", a, b, got)
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		b := make([]byte, r.IntN(7))
		for i := range b {
			b[i] = "0019a-"[r.IntN(6)]
		}
		return string(b)
	}
	for range 200_000 { // it is a total order
		a, b, c := word(), word(), word()
		if Natural(a, b) < 0 && Natural(b, c) < 0 && Natural(a, c) >= 0 || Natural(a, b) < 0 != (Natural(b, a) > 0) || Natural(a, b) == 0 != (a == b) {
			t.Fatalf("%q, %q, %q", a, b, c)
		}
	}
}
