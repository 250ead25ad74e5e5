package schema

import (
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// ruleError is the violation of a rule for schemas that the library does not check.
type ruleError string

func (r ruleError) Error() string { return string(r) }

const (
	errTooComplex ruleError = "must not apply so many subschemas to one value"
	errEndless    ruleError = "must not refer to itself without end"
	errOutside    ruleError = "must not refer to anything outside of itself"
	errDialect    ruleError = "must be of a draft of JSON Schema that the bridge knows: $schema must name draft 4, 6, 7, 2019-09 or 2020-12, or be absent"
	errDynamic    ruleError = "must not use $dynamicRef"
)

// weight is what it takes to apply a schema to one value, in steps of about 10 ns.
type weight struct {
	visits         int // subschemas that apply to the same value, with the schema itself; 0: not known yet
	steps, perByte float64
	same           []*jsonschema.Schema // subschemas that apply to the same value
}

// weigher weighs a schema and all subschemas that it may apply.
type weigher struct {
	effort  *effort
	weights map[*jsonschema.Schema]*weight
	todo    []*jsonschema.Schema // that apply to members and items
}

// The work of the weigher, in steps.
const (
	stepsPerWeight = 100 // of a schema
	stepsPerSame   = 10  // of a subschema for the same value
)

// weigh returns the weights of a schema and its subschemas. The error is a rule for schemas.
func weigh(schema *jsonschema.Schema, work *effort) (map[*jsonschema.Schema]*weight, error) {
	w := weigher{work, map[*jsonschema.Schema]*weight{}, []*jsonschema.Schema{schema}}
	for len(w.todo) > 0 {
		last := len(w.todo) - 1
		s := w.todo[last]
		w.todo = w.todo[:last]
		if _, err := w.visits(s); err != nil {
			return nil, err
		}
	}
	return w.weights, nil
}

// visits weighs a schema, and returns how many subschemas apply to its value.
func (w *weigher) visits(s *jsonschema.Schema) (int, error) {
	known := w.weights[s]
	switch {
	case known != nil && known.visits == 0:
		return 0, errEndless
	case known != nil:
		return known.visits, nil
	case !strings.HasPrefix(s.Location, parameterSchemaURL+"#"):
		return 0, errOutside
	case s.DynamicRef != nil:
		return 0, errDynamic
	}
	own := weightOf(s)
	w.weights[s] = own
	if err := w.effort.spend(stepsPerWeight + stepsPerSame*len(own.same)); err != nil {
		return 0, err
	}
	visits := 1
	for _, sub := range own.same {
		more, err := w.visits(sub)
		if err != nil {
			return 0, err
		}
		if visits += more; visits > maxSubschemas {
			return 0, errTooComplex
		}
	}
	own.visits = visits
	w.todo = append(w.todo, childrenOf(s)...)
	return visits, nil
}

// The work of the library for applying a schema, in steps.
const (
	stepsPerVisit       = 60
	stepsPerName        = 40  // of a required member, whose absence is reported
	stepsPerNameVisit   = 250 // of the name of a member
	stepsPerUnevaluated = 30  // of a member or item, in each subschema that applies to its parent
	stepsPerComparison  = 3   // of a text
	bytesPerStep        = 100 // of texts that are compared or hashed
	stepsPerRational    = 100 // of a number: each is converted to a rational number
)

// weightOf returns the weight of the keywords of a schema that apply no subschema, and the subschemas that apply to the same value.
func weightOf(s *jsonschema.Schema) *weight {
	w := &weight{steps: stepsPerVisit + stepsPerName*float64(requiredBy(s)), perByte: 1}
	if s.Enum != nil {
		w.steps += comparing(s.Enum.Values)
	}
	if s.Const != nil {
		w.steps += comparing(*s.Const)
	}
	if p, ok := s.Pattern.(pattern); ok {
		w.perByte += p.steps
	}
	for _, bound := range []*big.Rat{s.Minimum, s.Maximum, s.ExclusiveMinimum, s.ExclusiveMaximum, s.MultipleOf} {
		if bound != nil {
			w.steps += stepsPerRational
			w.perByte += stepsPerRational / 20
		}
	}
	if s.Types != nil && strings.Contains(s.Types.String(), "integer") {
		w.steps += stepsPerRational
	}
	w.same = slices.Concat(present(s.Ref, s.Not, s.If, s.Then, s.Else), s.AllOf, s.AnyOf, s.OneOf, slices.Collect(maps.Values(s.DependentSchemas)))
	for _, dependency := range s.Dependencies {
		w.same = append(w.same, schemaIn(dependency)...)
	}
	return w
}

// requiredBy returns how many members a schema may require.
func requiredBy(s *jsonschema.Schema) int {
	n := len(s.Required) + len(s.DependentSchemas)
	for _, names := range s.DependentRequired {
		n += 1 + len(names)
	}
	for _, dependency := range s.Dependencies {
		names, _ := dependency.([]string)
		n += 1 + len(names)
	}
	return n
}

// comparing returns the steps for comparing a value with a value in a schema.
func comparing(v any) (steps float64) {
	for _, in := range jsonvalue.Within(v) {
		steps += stepsPerComparison
		if _, isNumber := in.(jsonvalue.Number); isNumber {
			steps += stepsPerRational
		}
	}
	return steps
}

// childrenOf returns the subschemas that apply to members, their names or items.
func childrenOf(s *jsonschema.Schema) []*jsonschema.Schema {
	all := present(s.Contains, s.UnevaluatedItems, s.UnevaluatedProperties, s.PropertyNames, s.Items2020)
	return slices.Concat(all, s.PrefixItems, slices.Collect(maps.Values(s.Properties)), slices.Collect(maps.Values(s.PatternProperties)), schemaIn(s.AdditionalProperties))
}

// present returns the schemas that are not nil.
func present(all ...*jsonschema.Schema) []*jsonschema.Schema {
	return slices.DeleteFunc(all, func(s *jsonschema.Schema) bool { return s == nil })
}

// schemaIn returns the schema in a keyword whose value may have several types, if it is one.
func schemaIn(keyword any) []*jsonschema.Schema {
	s, _ := keyword.(*jsonschema.Schema)
	return present(s)
}

// counter counts what applying a schema to a value takes at most.
type counter struct {
	weights     map[*jsonschema.Schema]*weight
	unevaluated bool // each subschema keeps a list of what it has not evaluated
	visits      int
	steps       float64
}

// count counts a value to which a schema applies, and all values in it. It ends early if there are too many.
func (c *counter) count(s *jsonschema.Schema, v any) {
	if s == nil || c.visits > MaxVisits || c.steps > MaxSteps {
		return
	}
	c.visits++
	w, bytes, within := c.weights[s], 1, 0
	switch v := v.(type) {
	case string:
		bytes += len(v)
	case jsonvalue.Number:
		bytes += len(v)
	case []any:
		within = len(v)
		c.items(s, v)
	case map[string]any:
		within = len(v)
		for name, member := range v {
			bytes += len(name)
			c.member(s, name, member)
		}
	}
	if c.unevaluated {
		c.steps += stepsPerUnevaluated * float64(within)
	}
	c.steps += w.steps + w.perByte*float64(bytes)
	for _, sub := range w.same {
		c.count(sub, v)
	}
}

func (c *counter) items(s *jsonschema.Schema, items []any) {
	for i, item := range items {
		of := s.Items2020
		if i < len(s.PrefixItems) {
			of = s.PrefixItems[i]
		}
		c.count(of, item)
		c.count(s.Contains, item)
		c.count(s.UnevaluatedItems, item)
	}
	if s.UniqueItems && len(items) > MaxUnique {
		c.visits = MaxVisits + 1
	} else if s.UniqueItems {
		c.steps += uniqueness(items)
	}
}

func (c *counter) member(s *jsonschema.Schema, name string, v any) {
	if c.visits > MaxVisits || c.steps > MaxSteps { // to go through all patterns for each further name would take long
		return
	}
	of := s.Properties[name]
	if of == nil {
		of, _ = s.AdditionalProperties.(*jsonschema.Schema)
	}
	c.count(of, v)
	c.count(s.UnevaluatedProperties, v)
	for re, sub := range s.PatternProperties { // as if each matched
		if p, ok := re.(pattern); ok {
			c.steps += p.steps * float64(len(name))
		}
		c.count(sub, v)
	}
	if s.PropertyNames != nil {
		c.steps += stepsPerNameVisit
		c.count(s.PropertyNames, name)
	}
}

// uniqueness estimates the steps for finding equal items in an array. The library compares up to 20 items with each other, and hashes longer
// arrays. But many arrays, objects or long numbers may have the same hash.
func uniqueness(items []any) (steps float64) {
	count, values := float64(len(items)), 0.0
	for _, item := range items {
		for at, in := range jsonvalue.Within(item) {
			values++
			steps += float64(len(at.Name)) / bytesPerStep
			switch in := in.(type) {
			case string:
				steps += 2*stepsPerComparison + float64(len(in))/bytesPerStep
			case jsonvalue.Number:
				steps += stepsPerRational * float64(1+len(in)/16)
			default:
				steps += stepsPerRational
			}
		}
	}
	switch {
	case count <= 20:
		steps *= count / 2
	case values > count || steps > count*stepsPerRational: // there are items other than strings and short numbers
		steps += count * count / 2 * stepsPerComparison * min(max(values, steps/stepsPerRational)/count, 100)
	}
	return steps
}
