package schema

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

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
