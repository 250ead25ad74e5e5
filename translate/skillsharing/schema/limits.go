package schema

import (
	"math"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

const (
	maxSchemaDepth = 32   // objects and arrays within each other, in one schema
	maxSubschemas  = 2048 // of a schema that may apply to one value

	// MaxVisits limits the sum of the subschemas that apply to each value of an
	// argument. The library stores each failure, which takes some 250 bytes.
	MaxVisits = 250_000
	// MaxUnique is the longest array that is compared item by item.
	MaxUnique = 10_000
	// MaxSteps bounds the work of checking the arguments of one HTTP request, in steps of about 10 ns. All calls of a batch share it.
	MaxSteps = 100_000_000
)

// ArgumentBounds limits the arguments that are checked against a schema.
var ArgumentBounds = jsonvalue.Bounds{Depth: 32, Values: MaxVisits}

// Limits bounds the schemas of one descriptor.
type Limits struct {
	Owner string   // key of the source of the descriptor
	Size  int      // bytes of the text of one schema
	Pool  *Schemas // keeps the compiled schemas; nil: a pool that all Limits without one share
}

// BytesOfAll bounds the text of all schemas of a descriptor together.
func (l Limits) BytesOfAll() int { return 4 * l.Size }

// MaxBound replaces larger bounds, so that multiples of them do not overflow.
const MaxBound = math.MaxInt / 32
