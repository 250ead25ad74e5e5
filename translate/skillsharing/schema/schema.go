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

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema/acceptor"
)

// Schema is a valid schema of a parameter. It always keeps the text. The compiled schema takes ten
// times the memory. The pool may drop it to make room for others; then it is compiled again when
// needed.
type Schema struct {
	pool     *Schemas
	key      schemaKey
	text     jsontext.Value
	Effort   int // steps that it takes to compile it
	compiled atomic.Pointer[Compiled]
	used     atomic.Bool // since the pool last tried to drop it

	mu    sync.Mutex // held while the schema is compiled again
	place int        // index in the owner's compiled schemas, from 1; 0: the pool has dropped it. The pool's mutex guards it
}

// schemaKey identifies a compiled schema.
type schemaKey struct {
	owner  string
	digest [sha256.Size]byte // of its text
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
	p.pool.keep(p, compiled)
	return compiled, nil
}

// Schemas keeps compiled schemas in a bounded memory, with an equal share for each source
// of descriptors. Equal texts of one source share a Schema.
type Schemas struct {
	most int // bytes of memory

	mu     sync.Mutex
	known  map[schemaKey]weak.Pointer[Schema] // schemas of descriptors in use
	owners map[string]*schemaOwner            // owners with compiled schemas
	bytes  int                                // memory of all compiled schemas
}

// schemaOwner is a source of descriptors.
type schemaOwner struct {
	compiled []*Schema
	bytes    int
}

// standardMemory is the memory for the compiled schemas of [Limits] that name no pool, in bytes.
const standardMemory = 8 << 20

// NewSchemas returns a pool with a memory of so many bytes.
func NewSchemas(memory int64) *Schemas {
	return &Schemas{
		most:  int(min(memory, MaxBound)),
		known: map[schemaKey]weak.Pointer[Schema]{}, owners: map[string]*schemaOwner{},
	}
}

// compiledSchemas keeps the schemas of descriptors whose [Limits] name no pool.
var compiledSchemas = NewSchemas(standardMemory)

// find returns the schema of a text, or nil.
func (p *Schemas) find(k schemaKey) *Schema {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[k].Value()
}

// add returns the schema of a text: the known one, or a new one.
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

// forget removes a schema that was garbage collected, unless there is a newer one with its key.
func (p *Schemas) forget(k schemaKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[k].Value() == nil {
		delete(p.known, k)
	}
}

// keep keeps a compiled schema, and drops others if there is no room.
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

// giveUp drops a compiled schema of the owner whose schemas take the most memory. The choice is
// random: if slightly more schemas than there is room for are used in rotation, most are still
// found, but none would be if the oldest was dropped. If the first choice was used recently, giveUp
// chooses once more.
func (p *Schemas) giveUp() {
	var name string
	var o *schemaOwner
	for n, other := range p.owners {
		if o == nil || other.bytes > o.bytes {
			name, o = n, other
		}
	}
	i := rand.IntN(len(o.compiled)) //nolint:gosec // random, so that a provider can hardly choose what is dropped; no secret
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
