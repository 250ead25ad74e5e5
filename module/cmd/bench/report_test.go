package main

import "testing"

func TestNumber(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{0: "0", 999.4: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := number(value); got != want {
			t.Errorf("%v: %s, want %s", value, got, want)
		}
	}
}
