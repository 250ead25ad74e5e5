package document

import (
	"cmp"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// Limits bounds the documents and answers that are read, and the work of checking them. A field that
// is 0 means no limit, except for SchemaSize: it protects the process from hostile schemas, so 0 means the default.
// Start from [DefaultLimits].
type Limits struct {
	// DocumentSize bounds an index, a registry's answer and a descriptor, in bytes after decompression.
	// MaxResponseSize of the client applies, too. A document may have 200,000 values, or 3 times
	// SchemaSize, whichever is more.
	DocumentSize int64
	// SchemaSize bounds the text of the schema of one parameter, in bytes. All schemas of a descriptor together may have
	// four times as many bytes, and the whole descriptor eight times as many.
	SchemaSize int
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
		DocumentSize: 4 << 20,
		SchemaSize:   64 << 10,
		OutputSize:   10 << 20,
		Reads:        64,
		FailedReads:  60,
		BodyTimeout:  30 * time.Second,
	}
}

// Standard are the limits if the operator has set none.
var Standard = DefaultLimits()

// MaxDepth is how deep objects and arrays may nest in an answer.
const MaxDepth = 512

// OfSchemas returns the limits of the schemas of a descriptor.
func (l *Limits) OfSchemas() schema.Limits {
	return schema.Limits{Owner: l.Owner, Size: min(cmp.Or(l.SchemaSize, Standard.SchemaSize), schema.MaxBound), Pool: l.Schemas}
}

// Bounds of every document. They are far larger than real documents, but limit
// the memory for a hostile one to some 100 MB.
const (
	maxDocumentDepth  = 100
	maxDocumentValues = 200_000
	MaxSkills         = 10_000 // entries of an index, or of a registry's answer
	maxParameters     = 500    // inputs of a descriptor
)

// documentBounds returns the bounds of a document.
func (l *Limits) documentBounds() jsonvalue.Bounds {
	return jsonvalue.Bounds{Depth: maxDocumentDepth, Values: max(maxDocumentValues, 3*l.OfSchemas().Size)}
}
