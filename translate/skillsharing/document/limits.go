package document

import (
	"fmt"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// Limits bounds the documents and answers that are read, and the work of checking them. A field that
// is 0 means no limit, except for Depth, SchemaSize, SchemaComplexity and ArgumentComplexity: these
// protect the process from deep nesting and from hostile schemas, so 0 means the default. Start from
// [DefaultLimits].
type Limits struct {
	// Depth is how deep objects and arrays may nest in answers, and in documents. In documents, the limit is at most 100.
	Depth int
	// DocumentSize bounds an index, a registry's answer and a descriptor, in bytes after decompression.
	// MaxResponseSize of the client applies, too. A document may have 200,000 values, 20 times Skills, or 3 times
	// SchemaSize, whichever is the most.
	DocumentSize int64
	// Skills is how many entries an index or a registry's answer may have.
	Skills int
	// Parameters is how many inputs a descriptor may define.
	Parameters int
	// SchemaSize bounds the text of the schema of one parameter, in bytes. All schemas of a descriptor together may have
	// four times as many bytes, and the whole descriptor eight times as many. A schema may have SchemaSize/16 values. In
	// addition to its schemas, a descriptor may have as many values, and 8 for each input.
	SchemaSize int
	// SchemaComplexity is how many subschemas of a parameter may apply to one value. It also bounds the time for validating
	// and compiling all schemas of a descriptor with their regular expressions: about 2.5 ms, and 8.5 us for each subschema
	// that is allowed. An ordinary property takes some 12 us, and a property in a schema with unusual keywords 50 us.
	SchemaComplexity int
	// ArgumentComplexity bounds the work of checking the arguments of one HTTP request against schemas, in steps of
	// about 10 ns. All calls of a batch share it.
	ArgumentComplexity int
	// OutputSize bounds the output of a run, in bytes of JSON. MaxResponseSize of the client applies, too.
	OutputSize int64
	// Reads is how many descriptors of the source are read at a time. At most a quarter of them may be of one host,
	// or of one publisher, and fewer if others are being read (see [cache.Request]). Further reads wait, at most
	// until their calls end.
	Reads int
	// FailedReads limits the requests to each host that is not the source's own. For URLs that have failed, each
	// publisher's documents may cause FailedReads requests at once, and FailedReads a minute. For other URLs, four
	// times the larger of FailedReads and Reads may fail at once. All publishers of a host together have twice
	// these limits.
	FailedReads int
	// BodyTimeout is how long to wait for the next byte of a body. A body that arrives slowly is read until the
	// deadline of the call.
	BodyTimeout time.Duration

	// Schemas is the pool of compiled schemas; nil: a pool that all Limits without one share.
	Schemas *schema.Schemas

	Owner string // key of the source of the descriptors
}

// DefaultLimits returns limits that are far larger than real documents, but low
// enough that a hostile provider can't overload a small machine.
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

// Standard are the limits if the operator has set none.
var Standard = DefaultLimits()

// MaxDepth is how deep objects and arrays may nest in an answer.
func (l *Limits) MaxDepth() int { return bound(l.Depth, Standard.Depth) }

// OfSchemas returns the limits of the schemas of a descriptor.
func (l *Limits) OfSchemas() schema.Limits {
	return schema.Limits{
		Owner: l.Owner, Size: bound(l.SchemaSize, Standard.SchemaSize),
		Complexity: bound(l.SchemaComplexity, Standard.SchemaComplexity), Pool: l.Schemas,
	}
}

// ArgumentSteps returns how many steps, of about 10 ns each, checking the arguments of one request may take.
func (l *Limits) ArgumentSteps() int64 {
	return int64(bound(l.ArgumentComplexity, Standard.ArgumentComplexity))
}

// descriptorBytes, descriptorValues and besides limit a descriptor: its bytes,
// its values, and the values outside of the schemas of its inputs.
func (l *Limits) descriptorBytes() int { return 2 * l.OfSchemas().BytesOfAll() }

func (l *Limits) descriptorValues() int { return l.OfSchemas().ValuesOfAll() + l.besides(l.Parameters) }

func (l *Limits) besides(inputs int) int {
	return l.OfSchemas().Values() + 8*min(inputs, schema.MaxBound)
}

// bound returns a limit, or its default if it is not set.
func bound(limit, otherwise int) int {
	if limit <= 0 {
		return otherwise
	}
	return min(limit, schema.MaxBound)
}

// Bounds of every document. They are far larger than real documents, but limit
// the memory for a hostile one to some 100 MB.
const (
	maxDocumentDepth  = 100
	maxDocumentValues = 200_000
)

// documentBounds returns the bounds of a document of the kind def.
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

// tooLarge returns the violation of a document that is too long; nil: it is not.
func (l *Limits) tooLarge(def definition, doc []byte) *run.Violation {
	if most := l.descriptorBytes(); def == defSkillDescriptor && l.Parameters > 0 && len(doc) > most {
		return &run.Violation{Message: fmt.Sprintf("must have at most %d bytes (limits schema_size)", most), Actual: jsonvalue.Marshal(len(doc))}
	}
	return nil
}

// tooMuchBesides returns the violation of a descriptor that has too many values
// outside of the schemas of its inputs; nil: it has not.
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
