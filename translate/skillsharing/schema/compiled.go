package schema

import (
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Schema is a valid schema of a parameter. It keeps the text: what that
// is compiled into takes ten times the memory, and is made again when it is needed
// after it was given up for others.
type Schema struct {
	pool     *Schemas
	key      schemaKey
	text     jsontext.Value
	Effort   int // that it takes to compile it
	compiled atomic.Pointer[Compiled]
	used     atomic.Bool // since there was need for room

	mu    sync.Mutex // held while it is compiled again
	place int        // among those of its owner that are compiled, from 1, which the pool guards; 0: there is none
}

// Compiled is what arguments are checked with. It is immutable.
type Compiled struct {
	schema *jsonschema.Schema
	costs  []cost // for each byte or value, by its depth in the argument
	Unique bool   // may use uniqueItems
	// unevaluated: may use unevaluatedItems or unevaluatedProperties, for which each
	// subschema keeps a list of what it has not evaluated.
	unevaluated bool
	bytes       int // of memory, about
}

// schemaKey is what decides how a schema is compiled, and for whom.
type schemaKey struct {
	owner      string
	digest     [sha256.Size]byte // of its text
	complexity int               // the limit that it was held to
}

// Ready returns what arguments are checked with; nil: there was no room for it, so that it has to be compiled again.
func (p *Schema) Ready() *Compiled {
	if !p.used.Load() { // not to write to memory that others read
		p.used.Store(true)
	}
	return p.compiled.Load()
}

// CompileAgain returns what arguments are checked with, once more. That there was no room for it is not for the request to
// pay: it takes what reading the descriptor does, at most.
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
	compiled, err := compileSchema(object, p.key.complexity, &effort{2 * p.Effort})
	if err != nil {
		return nil, err
	}
	p.pool.keep(p, compiled)
	return compiled, nil
}

// Schemas are the compiled schemas of descriptors, as many as there is room for, with
// an equal share for each source of descriptors. Providers often make theirs alike, so
// that one may be that of many.
type Schemas struct {
	most int // bytes of memory

	mu     sync.Mutex
	known  map[schemaKey]weak.Pointer[Schema] // those of descriptors in use
	owners map[string]*schemaOwner            // that have compiled ones
	bytes  int                                // of all that are compiled
}

// schemaOwner is a source of descriptors.
type schemaOwner struct {
	compiled []*Schema
	bytes    int
}

// leastSchemas is the memory of compiled schemas that there is at least, in bytes.
const leastSchemas = 8 << 20

// NewSchemas makes room for compiled schemas beside a cache of documents of some bytes:
// a sixth of it, or 8 MiB if that is more.
func NewSchemas(documents int64) *Schemas {
	return &Schemas{
		most:  int(max(leastSchemas, min(documents/6, MaxBound))),
		known: map[schemaKey]weak.Pointer[Schema]{}, owners: map[string]*schemaOwner{},
	}
}

// compiledSchemas are those of who has none of his own.
var compiledSchemas = NewSchemas(0)

// find returns the schema of a text, or nil.
func (p *Schemas) find(k schemaKey) *Schema {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[k].Value()
}

// add makes the schema of a text known, and returns it, or the one that is known.
func (p *Schemas) add(k schemaKey, text jsontext.Value, effort int, c *Compiled) *Schema {
	p.mu.Lock()
	s := p.known[k].Value()
	if s == nil {
		s = &Schema{pool: p, key: k, text: text, Effort: effort}
		p.known[k] = weak.Make(s)
		runtime.AddCleanup(s, p.forget, k)
	}
	p.mu.Unlock()
	p.keep(s, c)
	return s
}

// forget is called when a schema is not used any more. There may be a newer one.
func (p *Schemas) forget(k schemaKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[k].Value() == nil {
		delete(p.known, k)
	}
}

// keep keeps what a schema was compiled into, and gives up others if there is no room.
func (p *Schemas) keep(s *Schema, c *Compiled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.place > 0 {
		return
	}
	o := p.owners[s.key.owner]
	if o == nil {
		o = new(schemaOwner)
		p.owners[s.key.owner] = o
	}
	s.compiled.Store(c)
	o.compiled = append(o.compiled, s)
	s.place = len(o.compiled)
	o.bytes += c.bytes
	for p.bytes += c.bytes; p.bytes > p.most; {
		p.giveUp()
	}
}

// giveUp gives up one of the owner who has most. Which one is left to chance, so that
// of a few more than there is room for, used in turn, nearly all are found; one that
// was used since the last need for room is spared once.
func (p *Schemas) giveUp() {
	var name string
	var o *schemaOwner
	for n, other := range p.owners {
		if o == nil || other.bytes > o.bytes {
			name, o = n, other
		}
	}
	i := rand.IntN(len(o.compiled)) //nolint:gosec // so that a provider can hardly choose what is given up; no secret
	if o.compiled[i].used.Swap(false) {
		i = rand.IntN(len(o.compiled)) //nolint:gosec // as above
	}
	s, last := o.compiled[i], len(o.compiled)-1
	o.compiled[i] = o.compiled[last]
	o.compiled[i].place = i + 1
	o.compiled[last] = nil
	o.compiled = o.compiled[:last]
	s.place = 0
	bytes := s.compiled.Swap(nil).bytes
	o.bytes -= bytes
	p.bytes -= bytes
	if last == 0 {
		delete(p.owners, name)
	}
}
