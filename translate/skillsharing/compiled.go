package skillsharing

import (
	"container/list"
	"crypto/sha256"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// parameterSchema is a valid schema of a parameter. It keeps the text: what that
// is compiled into takes ten times the memory, and is made again when it is needed
// after it was given up for others.
type parameterSchema struct {
	key      schemaKey
	text     jsontext.Value
	effort   int // that it takes to compile it
	compiled atomic.Pointer[compiledSchema]
	used     atomic.Bool // since there was need for room

	mu      sync.Mutex    // held while it is compiled again
	element *list.Element // of the pool's order, which guards it; nil: there is none
}

// compiledSchema is what arguments are checked with. It is immutable.
type compiledSchema struct {
	schema *jsonschema.Schema
	costs  []cost // for each byte or value, by its depth in the argument
	unique bool   // may use uniqueItems
	// unevaluated: may use unevaluatedItems or unevaluatedProperties, for which each
	// subschema keeps a list of what it has not evaluated.
	unevaluated bool
	bytes       int // of memory, about
}

// schemaKey is what decides how a schema is compiled.
type schemaKey struct {
	digest     [sha256.Size]byte // of its text
	complexity int               // the limit that it was held to
}

// get returns what arguments are checked with.
func (p *parameterSchema) get() (*compiledSchema, error) {
	if !p.used.Load() { // not to write to memory that others read
		p.used.Store(true)
	}
	if c := p.compiled.Load(); c != nil {
		return c, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.compiled.Load(); c != nil {
		return c, nil
	}
	schema, flaw := readJSON(p.text, bounds{depth: maxDocumentDepth, values: maxBound})
	if flaw != nil {
		return nil, errors.New(flaw.Message)
	}
	object, _ := schema.(map[string]any)
	c, err := compileSchema(object, p.key.complexity, &effort{2 * p.effort})
	if err != nil {
		return nil, err
	}
	compiledSchemas.keep(p, c)
	return c, nil
}

// compiledSchemas are those that were used last, of all descriptors in the process.
// Providers often make theirs alike, so that one may be that of many.
var compiledSchemas = schemaPool{most: 8 << 20, known: map[schemaKey]weak.Pointer[parameterSchema]{}}

type schemaPool struct {
	most int // bytes of memory

	mu    sync.Mutex
	known map[schemaKey]weak.Pointer[parameterSchema] // those of descriptors in use
	order list.List                                   // of *parameterSchema that are compiled, roughly the one used last first
	bytes int                                         // of these
}

// find returns the schema of a text, or nil.
func (p *schemaPool) find(k schemaKey) *parameterSchema {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[k].Value()
}

// add makes the schema of a text known, and returns it, or the one that is known.
func (p *schemaPool) add(k schemaKey, text jsontext.Value, effort int, c *compiledSchema) *parameterSchema {
	p.mu.Lock()
	s := p.known[k].Value()
	if s == nil {
		s = &parameterSchema{key: k, text: text, effort: effort}
		p.known[k] = weak.Make(s)
		runtime.AddCleanup(s, p.forget, k)
	}
	p.mu.Unlock()
	p.keep(s, c)
	return s
}

// forget is called when a schema is not used any more. There may be a newer one.
func (p *schemaPool) forget(k schemaKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[k].Value() == nil {
		delete(p.known, k)
	}
}

// keep keeps what a schema was compiled into, and gives up others if there is no room.
func (p *schemaPool) keep(s *parameterSchema, c *compiledSchema) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.element != nil {
		return
	}
	s.compiled.Store(c)
	s.element = p.order.PushFront(s)
	for p.bytes += c.bytes; p.bytes > p.most; {
		last := p.order.Back().Value.(*parameterSchema)
		if last.used.Swap(false) {
			p.order.MoveToFront(last.element)
			continue
		}
		p.order.Remove(last.element)
		last.element = nil
		p.bytes -= last.compiled.Swap(nil).bytes
	}
}
