package skillsharing

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// cost is what it takes to apply a schema to one value: how many subschemas look
// at it, and how many steps these take for each byte of it. It may be enormous.
type cost struct{ visits, steps float64 }

func (c cost) plus(d cost) cost  { return cost{c.visits + d.visits, c.steps + d.steps} }
func (c cost) minus(d cost) cost { return cost{max(0, c.visits-d.visits), max(0, c.steps-d.steps)} }
func (c cost) or(d cost) cost    { return cost{max(c.visits, d.visits), max(c.steps, d.steps)} }

var (
	errTooComplex = errors.New("must not apply so many subschemas to one value (limits schema_complexity)")
	errEndless    = errors.New("must not refer to itself without end")
	errOutside    = errors.New("must not refer to anything outside of itself")
	errDynamic    = errors.New("must not use $dynamicRef or $recursiveRef")
)

// weigh works out what a schema costs: for each depth, the most that any value at
// that depth below the value that it is applied to can cost. So a schema which
// refers to one subschema twice, which does so with another, and so on, costs
// what it does, and one that describes a tree costs no more for large trees.
// No more than so many subschemas may apply to one value.
func weigh(schema *jsonschema.Schema, depth, subschemas int) ([]cost, error) {
	w := weigher{most: float64(subschemas), scopes: map[scopeKey]*scope{}, costs: map[costKey]cost{}}
	var costs []cost
	for d := range depth + 1 {
		c, err := w.cost(schema, d)
		if err != nil {
			return nil, err
		}
		if c.visits == 0 {
			break
		}
		costs = append(costs, c)
	}
	return costs, nil
}

type weigher struct {
	most   float64 // visits of one value
	scopes map[scopeKey]*scope
	costs  map[costKey]cost
}

type scopeKey struct {
	schema *jsonschema.Schema
	kind   string
}

type costKey struct {
	schema *jsonschema.Schema
	depth  int
}

// cost returns the most that it costs to apply s, counting only what any one
// value depth levels below costs.
func (w *weigher) cost(s *jsonschema.Schema, depth int) (cost, error) {
	key := costKey{s, depth}
	if c, ok := w.costs[key]; ok {
		return c, nil
	}
	var most cost
	for _, kind := range []string{"", "array", "object"} {
		scope, err := w.scope(s, kind)
		if err != nil {
			return cost{}, err
		}
		c := scope.own
		if depth > 0 {
			c, err = w.childCost(scope, depth-1)
		}
		if err != nil {
			return cost{}, err
		}
		most = most.or(c)
	}
	w.costs[key] = most
	return most, nil
}

// childCost returns the most that any one member or item of a value costs.
func (w *weigher) childCost(s *scope, depth int) (cost, error) {
	always, err := w.sum(s.always, depth)
	if err != nil {
		return cost{}, err
	}
	if depth == 0 {
		always = always.plus(s.names)
	}
	others, err := w.sum(s.others, depth)
	if err != nil {
		return cost{}, err
	}
	most := others
	for _, slot := range s.slots {
		applied, err := w.sum(slot.applied, depth)
		if err != nil {
			return cost{}, err
		}
		spared, err := w.sum(slot.spared, depth)
		if err != nil {
			return cost{}, err
		}
		most = most.or(others.minus(spared).plus(applied))
	}
	return always.plus(most), nil
}

func (w *weigher) sum(schemas []*jsonschema.Schema, depth int) (total cost, err error) {
	for _, s := range schemas {
		c, err := w.cost(s, depth)
		if err != nil {
			return cost{}, err
		}
		total = total.plus(c)
	}
	return total, nil
}

// scope is all that applies when a schema is applied to a value of some kind, with
// what its references, allOf, anyOf and so on apply to the same value.
type scope struct {
	own   cost // of looking at the value
	names cost // of looking at the name of a member
	// What applies to members or items: always; to those that have a slot, a name
	// or an index of their own; to those that have none in the same subschema.
	always []*jsonschema.Schema
	slots  map[any]*slot
	others []*jsonschema.Schema
}

type slot struct {
	applied []*jsonschema.Schema
	spared  []*jsonschema.Schema // of scope.others: do not apply to it
}

// scope returns the scope of s for values of a kind, "array" or "object", or
// for any value as far as it has neither members nor items.
func (w *weigher) scope(s *jsonschema.Schema, kind string) (*scope, error) {
	key := scopeKey{s, kind}
	if known, ok := w.scopes[key]; ok {
		return known, nil
	}
	c := scopeCollector{kind: kind, most: w.most, scope: scope{slots: map[any]*slot{}}, open: map[*jsonschema.Schema]bool{}}
	if err := c.collect(s); err != nil {
		return nil, err
	}
	for _, names := range c.names { // which are strings: what they contain does not apply to their names
		of, err := w.scope(names, "")
		if err != nil {
			return nil, err
		}
		c.scope.names = c.scope.names.plus(of.own)
	}
	w.scopes[key] = &c.scope
	return &c.scope, nil
}

type scopeCollector struct {
	kind  string
	most  float64 // visits of one value
	scope scope
	names []*jsonschema.Schema        // propertyNames
	open  map[*jsonschema.Schema]bool // being collected
}

func (c *scopeCollector) collect(s *jsonschema.Schema) error {
	switch {
	case c.open[s]:
		return errEndless
	case !strings.HasPrefix(s.Location, parameterSchemaURL+"#"):
		return errOutside
	case s.DynamicRef != nil || s.RecursiveRef != nil:
		return errDynamic
	}
	c.scope.own = c.scope.own.plus(ownCost(s))
	if c.scope.own.visits > c.most {
		return errTooComplex
	}
	c.open[s] = true
	defer delete(c.open, s)
	for _, sub := range sameValue(s) {
		if err := c.collect(sub); err != nil {
			return err
		}
	}
	switch c.kind {
	case "array":
		c.items(s)
	case "object":
		c.members(s)
	}
	return nil
}

func (c *scopeCollector) items(s *jsonschema.Schema) {
	c.scope.always = append(c.scope.always, present(s.Contains, s.UnevaluatedItems)...)
	others := schemasIn(s.Items2020)
	slots := s.PrefixItems
	switch items := s.Items.(type) { // before Draft 2020-12
	case *jsonschema.Schema:
		others = schemasIn(items)
	case []*jsonschema.Schema:
		slots = items
		others = schemasIn(s.AdditionalItems)
	}
	c.scope.others = append(c.scope.others, others...)
	for i, item := range slots {
		c.slot(i, item, others)
	}
}

func (c *scopeCollector) members(s *jsonschema.Schema) {
	c.scope.always = append(c.scope.always, present(s.UnevaluatedProperties)...)
	for re, sub := range s.PatternProperties {
		c.scope.always = append(c.scope.always, sub)
		if p, ok := re.(pattern); ok {
			c.scope.names.steps += float64(p.instructions)
		}
	}
	c.names = append(c.names, present(s.PropertyNames)...)
	others := schemasIn(s.AdditionalProperties)
	c.scope.others = append(c.scope.others, others...)
	for name, sub := range s.Properties {
		c.slot(name, sub, others)
	}
}

func (c *scopeCollector) slot(key any, applied *jsonschema.Schema, spared []*jsonschema.Schema) {
	if c.scope.slots[key] == nil {
		c.scope.slots[key] = &slot{}
	}
	own := c.scope.slots[key]
	own.applied = append(own.applied, applied)
	own.spared = append(own.spared, spared...)
}

// ownCost is the cost of the keywords of s that apply no further schema.
func ownCost(s *jsonschema.Schema) cost {
	steps := 1 + len(s.Required) + len(s.DependentRequired)
	if s.Enum != nil {
		steps += len(s.Enum.Values)
	}
	if p, ok := s.Pattern.(pattern); ok {
		steps += p.instructions
	}
	return cost{1, float64(steps)}
}

// sameValue returns the subschemas that apply to the value that s applies to.
func sameValue(s *jsonschema.Schema) []*jsonschema.Schema {
	all := present(s.Ref, s.Not, s.If, s.Then, s.Else)
	all = slices.Concat(all, s.AllOf, s.AnyOf, s.OneOf, slices.Collect(maps.Values(s.DependentSchemas)))
	for _, dependency := range s.Dependencies {
		all = append(all, schemasIn(dependency)...)
	}
	return all
}

// present leaves out what is nil.
func present(all ...*jsonschema.Schema) []*jsonschema.Schema {
	return slices.DeleteFunc(all, func(s *jsonschema.Schema) bool { return s == nil })
}

// schemasIn returns the schema that a keyword of several types holds, if it does.
func schemasIn(keyword any) []*jsonschema.Schema {
	s, _ := keyword.(*jsonschema.Schema)
	return present(s)
}
