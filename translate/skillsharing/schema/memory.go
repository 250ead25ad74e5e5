package schema

import (
	"math/bits"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// The memory of compiled schemas, in bytes.
const (
	schemaBytes      = 768
	rationalBytes    = 112
	patternHeadBytes = 64
)

func textBytes(s string) int { return (len(s) + 15) &^ 15 }

// mapBytes returns the memory of a map that is made for so many
// entries.
func mapBytes(entries, each int) int {
	slots := 8
	if entries > 8 {
		slots = 1 << bits.Len(uint(entries*8/7))
	}
	return 128 + slots*(each+8)
}

// valueBytes returns the memory of a value that [jsonvalue.Read]
// returned.
func valueBytes(v any) int {
	const interfaceBytes = 16
	n := 0
	switch v := v.(type) {
	case string:
		n = 16 + textBytes(v)
	case jsonvalue.Number:
		n = 16 + textBytes(string(v))
	case []any:
		n = 24 + 2*interfaceBytes*len(v) // as it grew
		for _, item := range v {
			n += valueBytes(item)
		}
	case map[string]any:
		n = 2 * mapBytes(len(v), 32) // as it grew
		for name, member := range v {
			n += textBytes(name) + valueBytes(member)
		}
	}
	return n
}
