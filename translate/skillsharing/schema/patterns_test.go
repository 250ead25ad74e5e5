package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// BenchmarkCostOfManyPatterns estimates what an object with very many names costs, by a schema with very many patterns.
func BenchmarkCostOfManyPatterns(b *testing.B) {
	var patterns, names []string
	for i := range 3000 {
		patterns = append(patterns, fmt.Sprintf(`"a%d":true`, i))
	}
	for i := range 100_000 {
		names = append(names, fmt.Sprintf(`"%d":0`, i))
	}
	s, valid := compiledBy(b, NewCompiler(someLimits(NewSchemas(64<<20), "")), `{"patternProperties":{`+strings.Join(patterns, ",")+`}}`)
	if !valid {
		b.Fatal("the schema is invalid")
	}
	value, flaw := jsonvalue.Read([]byte("{"+strings.Join(names, ",")+"}"), jsonvalue.Bounds{Depth: 10, Values: 1 << 20})
	if flaw != nil {
		b.Fatal(flaw)
	}
	p := s.compiled.Load()
	for b.Loop() {
		if visits, steps := p.Cost(value); visits <= MaxVisits && steps <= MaxSteps {
			b.Fatalf("%d visits, %.0f steps", visits, steps)
		}
	}
}
