package schema

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema/acceptor"
)

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
