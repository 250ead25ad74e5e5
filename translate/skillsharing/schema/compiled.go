package schema

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema/acceptor"
)

// Compiled checks arguments. It is immutable.
type Compiled struct {
	schema *jsonschema.Schema
	costs  []cost // costs of a value and of its bytes, by the depth in the argument
	Unique bool   // uniqueItems may apply
	// unevaluated says that unevaluatedItems or unevaluatedProperties may apply. For
	// these, each subschema keeps a list of what it has not evaluated.
	unevaluated bool
	bytes       int // approximate memory. The pool's mutex guards it
	// acceptor is made when the schema is first applied: most schemas of a catalog are never applied.
	acceptor atomic.Pointer[acceptor.Acceptor]
}

// Cost estimates what applying the schema to a value takes: visits, and steps of about 10 ns.
func (p *Compiled) Cost(v any) (visits, steps float64) {
	levels := jsonvalue.Levels(v)
	for depth, l := range levels {
		if depth == len(p.costs) {
			break
		}
		c := p.costs[depth]
		if p.unevaluated && depth+1 < len(levels) {
			steps += float64(levels[depth+1].Values) * c.visits * stepsPerUnevaluated
		}
		visits += float64(l.Values) * c.visits
		steps += float64(l.Values)*c.steps + float64(l.Bytes)*c.perByte
	}
	if p.Unique {
		more, _ := p.uniqueness(v, 0)
		steps += more
	}
	return visits, steps
}

// uniqueness estimates the steps for finding equal items in arrays. The library compares
// up to 20 items with each other, and hashes longer arrays. But many arrays, objects or
// long numbers may have the same hash.
func (p *Compiled) uniqueness(v any, depth int) (steps, values float64) {
	values = 1
	switch v := v.(type) {
	case jsonvalue.Number:
		values += float64(len(v) / 16)
	case map[string]any:
		for _, member := range v {
			s, n := p.uniqueness(member, depth+1)
			steps, values = steps+s, values+n
		}
	case []any:
		for _, item := range v {
			s, n := p.uniqueness(item, depth+1)
			steps, values = steps+s, values+n
		}
		if depth < len(p.costs) {
			count := float64(len(v))
			compared := values * stepsPerRational
			if len(v) <= 20 {
				compared *= count / 2
			} else if values > count+1 { // there are items other than strings and short numbers
				compared += count * count / 2 * stepsPerComparison * min(values/count, 100)
			}
			steps += compared * p.costs[depth].visits
		}
	}
	return steps, values
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
