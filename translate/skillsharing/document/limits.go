package document

import (
	"fmt"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// Limits bounds what is read of documents and answers, of any provider. A
// field that is 0 has no bound of its own, except for Depth, SchemaSize,
// SchemaComplexity and ArgumentComplexity: what protects the process from endless nesting and from the
// schemas of strangers is never absent, and 0 means the default there. Start from
// [DefaultLimits].
type Limits struct {
	// Depth is how deep objects and arrays may nest in answers, and in documents if that is less than the 100 levels they may have.
	Depth int
	// DocumentSize bounds an index, a registry's answer and a descriptor, in bytes after decompression. It never
	// exceeds the client's MaxResponseSize. Whatever it is, a document may have no more than 200,000 values, or 20 for
	// each entry of Skills and 3 for each byte of SchemaSize if that is more.
	DocumentSize int64
	// Skills is how many entries an index or a registry's answer may have.
	Skills int
	// Parameters is how many inputs a descriptor may define.
	Parameters int
	// SchemaSize bounds the text of one parameter's schema, in bytes; all of a descriptor have four times as much together,
	// and the descriptor twice that. A schema may have one value for each 16 bytes, and a descriptor as many beside
	// its schemas, and 8 for each input.
	SchemaSize int
	// SchemaComplexity is how many subschemas of a parameter may apply to one value. It also bounds what it takes to judge
	// and compile all schemas of a descriptor, regular expressions included: about 2.5 ms, and 8.5 us for each of these, where
	// an ordinary property counts as some 12 us, and one in a schema with unusual keywords as 50 us.
	SchemaComplexity int
	// ArgumentComplexity bounds what checking the arguments of one request, a batch or not, against schemas may take, in
	// steps of about 10 ns.
	ArgumentComplexity int
	// OutputSize bounds the output of a run, in bytes of JSON. It never exceeds the client's MaxResponseSize.
	OutputSize int64
	// Reads is how many descriptors of the source are read at a time: of one host and of one publisher, a quarter or
	// fewer (see [cache.Request]). Further ones wait for as long as their calls do.
	Reads int
	// FailedReads is how many requests, at once and a minute, may be made for URLs that have failed, at a host that is
	// not the source's own; four times the larger of FailedReads and Reads may fail at once of those that have not. That
	// is for each publisher; all together have twice as much.
	FailedReads int
	// BodyTimeout is how long the body of an answer may stand still. A body that goes on, however slowly, is read until
	// the deadline.
	BodyTimeout time.Duration

	// Schemas keeps what the schemas of descriptors are compiled into; nil: with all others for which that is so.
	Schemas *schema.Schemas

	Owner string // of the descriptors
}

// DefaultLimits is far beyond what providers publish, yet keeps what a hostile
// one can make the bridge do within the reach of a small machine.
func DefaultLimits() Limits {
	return Limits{
		Depth:              512,
		DocumentSize:       4 << 20,
		Skills:             10_000,
		Parameters:         500,
		SchemaSize:         64 << 10,
		SchemaComplexity:   2048,
		ArgumentComplexity: 100_000_000,
		OutputSize:         10 << 20,
		Reads:              64,
		FailedReads:        60,
		BodyTimeout:        30 * time.Second,
	}
}

// Standard are the limits where the operator has set none.
var Standard = DefaultLimits()

// MaxDepth is how deep objects and arrays may nest in an answer.
func (l *Limits) MaxDepth() int { return bound(l.Depth, Standard.Depth) }

// OfSchemas are the limits of the schemas of a descriptor.
func (l *Limits) OfSchemas() schema.Limits {
	return schema.Limits{
		Owner: l.Owner, Size: bound(l.SchemaSize, Standard.SchemaSize),
		Complexity: bound(l.SchemaComplexity, Standard.SchemaComplexity), Pool: l.Schemas,
	}
}

// ArgumentSteps is how many steps of about 10 ns checking the arguments of one request may take.
func (l *Limits) ArgumentSteps() int64 {
	return int64(bound(l.ArgumentComplexity, Standard.ArgumentComplexity))
}

// descriptorBytes and descriptorValues bound a descriptor, most of which its
// schemas are, and besides what is not.
func (l *Limits) descriptorBytes() int { return 2 * l.OfSchemas().BytesOfAll() }

func (l *Limits) descriptorValues() int { return l.OfSchemas().ValuesOfAll() + l.besides(l.Parameters) }

func (l *Limits) besides(inputs int) int {
	return l.OfSchemas().Values() + 8*min(inputs, schema.MaxBound)
}

// bound is a limit that is never absent.
func bound(limit, otherwise int) int {
	if limit <= 0 {
		return otherwise
	}
	return min(limit, schema.MaxBound)
}

// Bounds of every document. They are far beyond any index of a provider, yet keep
// what a hostile one costs in memory to some 100 MB.
const (
	maxDocumentDepth  = 100
	maxDocumentValues = 200_000
)

// documentBounds are those of a document that is read as def.
func (l *Limits) documentBounds(def definition) jsonvalue.Bounds {
	b := jsonvalue.Bounds{
		Depth:  min(maxDocumentDepth, l.MaxDepth()),
		Values: max(maxDocumentValues, 20*min(l.Skills, schema.MaxBound), 3*l.OfSchemas().Size),
	}
	switch def {
	case defSkillIndex:
		b.List = jsonvalue.ListBound{Path: "/skills", Most: l.Skills, Limit: "skills"}
	case defSkillDescriptor:
		b.List = jsonvalue.ListBound{Path: "/inputs", Most: l.Parameters, Limit: "parameters"}
		if l.Parameters > 0 {
			b.Values, b.Limit = l.descriptorValues(), " (limits schema_size)"
		}
	}
	return b
}

// tooLarge is what is wrong with a document that is longer than it may be.
func (l *Limits) tooLarge(def definition, doc []byte) *run.Violation {
	if most := l.descriptorBytes(); def == defSkillDescriptor && l.Parameters > 0 && len(doc) > most {
		return &run.Violation{Message: fmt.Sprintf("must have at most %d bytes (limits schema_size)", most), Actual: jsonvalue.Marshal(len(doc))}
	}
	return nil
}

// tooMuchBesides is what is wrong with a descriptor that has more values than it may
// besides the schemas of its inputs.
func (l *Limits) tooMuchBesides(def definition, value any) *run.Violation {
	if def != defSkillDescriptor || l.Parameters <= 0 {
		return nil
	}
	schemas := schemasOf(value)
	most, values := l.besides(len(schemas)), jsonvalue.ValuesIn(value)
	for _, own := range schemas {
		values -= jsonvalue.ValuesIn(own)
	}
	if values <= most {
		return nil
	}
	return &run.Violation{Message: fmt.Sprintf("must have at most %d values in addition to the schemas of its inputs (limits schema_size)", most), Actual: jsonvalue.Marshal(values)}
}
