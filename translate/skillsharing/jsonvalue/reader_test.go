package jsonvalue_test

import (
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/cost"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Numbers that are nearly 0 take strconv.ParseFloat 20 µs, and may be many.
func TestSmallNumbersAreCheap(t *testing.T) {
	for _, number := range []string{"1e-320", "2.2250738585072011e-308", "123456789012345678e-340"} {
		text := []byte("[" + strings.Repeat(number+",", 1_000_000/(len(number)+1)) + "0]")
		cost.Cheap(t, number, func() {
			if _, flaw := jsonvalue.Read(text, jsonvalue.Bounds{Depth: 1, Values: 1_000_000}); flaw != nil {
				t.Fatal(flaw)
			}
		})
	}
}
