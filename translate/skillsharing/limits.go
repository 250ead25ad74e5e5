package skillsharing

import "time"

// Limits bounds what is read of documents and answers, whoever wrote them. A
// field that is 0 has no bound of its own; start from [DefaultLimits].
type Limits struct {
	// Depth is how deep objects and arrays may nest in answers, and in documents if that is less than the 100 levels they may have.
	Depth int
	// DocumentSize bounds an index, a registry's answer and a descriptor, in bytes after decompression.
	DocumentSize int64
	// Skills is how many entries an index or a registry's answer may have.
	Skills int
	// Parameters is how many inputs a descriptor may define.
	Parameters int
	// SchemaSize bounds the text of one parameter's schema, in bytes; all of a descriptor have four times as much together.
	// What it takes to compile them is bounded by this.
	SchemaSize int
	// SchemaComplexity is how many subschemas of a parameter may apply to one value.
	SchemaComplexity int
	// OutputSize bounds the output of a run, in bytes of JSON.
	OutputSize int64
	// BodyTimeout is how long the body of an answer may stand still.
	BodyTimeout time.Duration
}

// DefaultLimits is far beyond what providers publish, yet keeps what a hostile
// one can make the bridge do within the reach of a small machine.
func DefaultLimits() Limits {
	return Limits{
		Depth:            512,
		DocumentSize:     4 << 20,
		Skills:           10_000,
		Parameters:       500,
		SchemaSize:       64 << 10,
		SchemaComplexity: 2048,
		OutputSize:       10 << 20,
		BodyTimeout:      30 * time.Second,
	}
}
