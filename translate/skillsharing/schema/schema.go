package schema

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema/acceptor"
)

// Schema is a valid schema of a parameter. It always keeps the text. The compiled schema takes ten
// times the memory. The pool may drop it to make room for others; then it is compiled again when
// needed.
type Schema struct {
	pool   *Schemas
	text   jsontext.Value
	Effort int // steps that it takes to compile it
	*slot

	mu sync.Mutex // held while the schema is compiled again
}

// slot is what a pool knows of a schema. It does not refer to the schema, so that the pool forgets one that is no longer in use.
type slot struct {
	owner    string
	compiled atomic.Pointer[Compiled]
	used     atomic.Bool // since the pool last tried to drop it
	place    int         // index in the owner's compiled schemas, from 1; 0: the pool has dropped it. The pool's mutex guards it
}

// Ready returns the compiled schema; nil: the pool has dropped it.
func (p *Schema) Ready() *Compiled {
	if !p.used.Load() { // a write would slow down concurrent readers
		p.used.Store(true)
	}
	return p.compiled.Load()
}

// Accepts reports whether the schema certainly accepts the value with a text. If not, the value has to be read and the compiled schema
// applied. It takes less than reading the text.
func (p *Schema) Accepts(text jsontext.Value) bool {
	compiled := p.Ready()
	if compiled == nil {
		return false
	}
	accepting := compiled.acceptor.Load()
	if accepting == nil {
		accepting = acceptor.New(compiled.schema)
		compiled.acceptor.Store(accepting)
	}
	return accepting.Accepts(text, ArgumentBounds.Values, ArgumentBounds.Depth)
}

// CompileAgain compiles a schema that the pool has dropped. The work does not count for the request: it takes no
// longer than reading the descriptor took.
func (p *Schema) CompileAgain() (*Compiled, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if compiled := p.compiled.Load(); compiled != nil {
		return compiled, nil
	}
	schema, flaw := jsonvalue.Read(p.text, jsonvalue.Bounds{Depth: 2 * maxSchemaDepth, Values: MaxBound})
	if flaw != nil {
		return nil, errors.New(flaw.Message)
	}
	object, _ := schema.(map[string]any)
	compiled, err := compileSchema(object, &effort{2 * p.Effort})
	if err != nil {
		return nil, err
	}
	p.pool.keep(p.slot, compiled)
	return compiled, nil
}

// Schemas keeps compiled schemas in a bounded memory, with an equal share for each source
// of descriptors.
type Schemas struct {
	most int // bytes of memory

	mu     sync.Mutex
	owners map[string]*schemaOwner // owners with compiled schemas
	bytes  int                     // memory of all compiled schemas
}

// schemaOwner is a source of descriptors.
type schemaOwner struct {
	compiled []*slot
	bytes    int
}

// standardMemory is the memory for the compiled schemas of [Limits] that name no pool, in bytes.
const standardMemory = 8 << 20

// NewSchemas returns a pool with a memory of so many bytes.
func NewSchemas(memory int64) *Schemas {
	return &Schemas{most: int(min(memory, MaxBound)), owners: map[string]*schemaOwner{}}
}

// compiledSchemas keeps the schemas of descriptors whose [Limits] name no pool.
var compiledSchemas = NewSchemas(standardMemory)

// add returns a schema of an owner that was compiled.
func (p *Schemas) add(owner string, text jsontext.Value, effort int, c *Compiled) *Schema {
	s := &Schema{pool: p, text: text, Effort: effort, slot: &slot{owner: owner}}
	p.keep(s.slot, c)
	runtime.AddCleanup(s, p.forget, s.slot)
	return s
}

// forget drops a schema that was garbage collected.
func (p *Schemas) forget(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.place > 0 {
		p.drop(s)
	}
}

// keep keeps a compiled schema, and drops others if there is no room.
func (p *Schemas) keep(s *slot, c *Compiled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.place > 0 {
		return
	}
	o := p.owners[s.owner]
	if o == nil {
		o = new(schemaOwner)
		p.owners[s.owner] = o
	}
	s.compiled.Store(c)
	o.compiled = append(o.compiled, s)
	s.place = len(o.compiled)
	o.bytes += c.bytes
	for p.bytes += c.bytes; p.bytes > p.most; {
		p.giveUp()
	}
}

// giveUp drops a compiled schema of the owner whose schemas take the most memory. The choice is
// random: if slightly more schemas than there is room for are used in rotation, most are still
// found, but none would be if the oldest was dropped. If the first choice was used recently, giveUp
// chooses once more.
func (p *Schemas) giveUp() {
	var o *schemaOwner
	for _, other := range p.owners {
		if o == nil || other.bytes > o.bytes {
			o = other
		}
	}
	i := rand.IntN(len(o.compiled)) //nolint:gosec // random, so that a provider can hardly choose what is dropped; no secret
	if o.compiled[i].used.Swap(false) {
		i = rand.IntN(len(o.compiled)) //nolint:gosec // as above
	}
	p.drop(o.compiled[i])
}

// drop drops a compiled schema. The caller holds the mutex.
func (p *Schemas) drop(s *slot) {
	o := p.owners[s.owner]
	last := len(o.compiled) - 1
	o.compiled[s.place-1] = o.compiled[last]
	o.compiled[last].place = s.place
	o.compiled[last] = nil
	o.compiled = o.compiled[:last]
	s.place = 0
	bytes := s.compiled.Swap(nil).bytes
	o.bytes -= bytes
	p.bytes -= bytes
	if last == 0 {
		delete(p.owners, s.owner)
	}
}

// Compiled checks arguments. It is immutable.
type Compiled struct {
	schema  *jsonschema.Schema
	weights map[*jsonschema.Schema]*weight
	// unevaluated says that unevaluatedItems or unevaluatedProperties may apply. For
	// these, each subschema keeps a list of what it has not evaluated.
	unevaluated bool
	bytes       int // approximate memory, with the acceptor
	// acceptor is made when the schema is first applied: most schemas of a catalog are never applied.
	acceptor atomic.Pointer[acceptor.Acceptor]
}

// Cost estimates what applying the schema to a value takes: visits, and steps of about 10 ns. Beyond [MaxVisits] and [MaxSteps], it stops counting.
func (p *Compiled) Cost(v any) (visits int, steps float64) {
	c := counter{weights: p.weights, unevaluated: p.unevaluated}
	c.count(p.schema, v)
	return c.visits, c.steps
}

// Validate applies the schema to a value and returns the first finding, if any.
func (p *Compiled) Validate(v any) (first *Finding, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the schema makes the validator fail: %v", cause)
		}
	}()
	invalid := p.schema.Validate(v)
	if invalid == nil {
		return nil, nil
	}
	found := findingsOf(invalid)
	if len(found) == 0 {
		return nil, errors.New("the schema rejects the value without a reason")
	}
	return &found[0], nil
}

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

// The keywords whose values are a schema or an array of schemas, and those whose
// values are objects with schemas in them (Draft 2020-12 and its predecessors).
var (
	SchemaKeywords = []string{
		"additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "contentSchema", "else", "if", "items",
		"not", "oneOf", "prefixItems", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
	}
	SchemaMapKeywords = []string{"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
