package schema

import (
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// cost is the cost of applying a schema to one value: how many subschemas apply to the value
// (visits), how many steps of about 10 ns these take, and how many more for each byte of the
// value. The numbers may be very large.
type cost struct{ visits, steps, perByte float64 }

func (c cost) plus(d cost) cost {
	return cost{c.visits + d.visits, c.steps + d.steps, c.perByte + d.perByte}
}

func (c cost) minus(d cost) cost {
	return cost{max(0, c.visits-d.visits), max(0, c.steps-d.steps), max(0, c.perByte-d.perByte)}
}

func (c cost) or(d cost) cost {
	return cost{max(c.visits, d.visits), max(c.steps, d.steps), max(c.perByte, d.perByte)}
}

// ruleError is the violation of a rule for schemas that the library does not check.
type ruleError string

func (r ruleError) Error() string { return string(r) }

const (
	errTooComplex ruleError = "must not apply so many subschemas to one value (limits schema_complexity)"
	errEndless    ruleError = "must not refer to itself without end"
	errOutside    ruleError = "must not refer to anything outside of itself"
	errDialect    ruleError = "must be of a draft of JSON Schema that the bridge knows: $schema must name draft 4, 6, 7, 2019-09 or 2020-12, or be absent"
	errDynamic    ruleError = "must not use $dynamicRef or $recursiveRef"
)

// weigh computes the cost of a schema: for each depth below the value that it is applied to,
// the most that one value at that depth can cost. So if a schema refers twice to a
// subschema, which refers twice to another one, and so on, the cost is exponential, as the
// work is. But for a recursive schema that describes a tree, the cost of one value does not
// depend on the size of the tree. The argument subschemas limits how many of them may apply
// to one value. weigh takes its own steps from work.
func weigh(schema *jsonschema.Schema, depth, subschemas int, work *effort) ([]cost, error) {
	w := weigher{
		most: float64(subschemas), effort: work,
		facts: map[*jsonschema.Schema]*facts{},
	}
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
	most   float64 // limit of the visits of one value
	effort *effort
	facts  map[*jsonschema.Schema]*facts
}

// The work of the weigher, in steps.
const (
	stepsPerFacts = 75 // of a schema
	stepsPerScope = 75
	stepsPerEntry = 25 // of a scope
	stepsPerSum   = 10 // of a scope, each time
	stepsPerCost  = 30 // of a schema at a depth
)

// facts holds what is computed once for a schema.
type facts struct {
	own  cost                 // cost of one value, including all subschemas that apply to the same value; set when open is false
	open bool                 // own is being computed: a further look means an endless reference
	same []*jsonschema.Schema // subschemas that apply to the same value
	// children says that the schema has keywords that apply schemas to members, to their
	// names or to items.
	children      bool
	array, object *scope // once known
	costs         []cost // by depth, from 1; unknownVisits: not known
}

const unknownVisits = -1

// look returns the facts of a schema, with its own cost.
func (w *weigher) look(s *jsonschema.Schema) (*facts, error) {
	if known, ok := w.facts[s]; ok {
		if known.open {
			return nil, errEndless
		}
		return known, nil
	}
	switch {
	case !strings.HasPrefix(s.Location, parameterSchemaURL+"#"):
		return nil, errOutside
	case s.DynamicRef != nil || s.RecursiveRef != nil:
		return nil, errDynamic
	}
	f := &facts{own: ownCost(s), open: true, same: sameValue(s), children: hasChildren(s)}
	if err := w.effort.spend(stepsPerFacts + stepsPerSum*len(f.same)); err != nil {
		return nil, err
	}
	w.facts[s] = f
	for _, sub := range f.same {
		g, err := w.look(sub)
		if err != nil {
			return nil, err
		}
		if f.own = f.own.plus(g.own); f.own.visits > w.most {
			return nil, errTooComplex
		}
	}
	f.open = false
	return f, nil
}

// cost returns the most that one value at a depth below the value of s can
// cost.
func (w *weigher) cost(s *jsonschema.Schema, depth int) (cost, error) {
	f, err := w.look(s)
	if err != nil || depth == 0 {
		return f.ownCost(), err
	}
	for !f.children && len(f.same) == 1 { // it only applies another schema
		s = f.same[0]
		if f, err = w.look(s); err != nil {
			return cost{}, err
		}
	}
	if !f.children && len(f.same) == 0 {
		return cost{}, nil
	}
	for len(f.costs) < depth {
		f.costs = append(f.costs, cost{visits: unknownVisits})
	}
	if c := f.costs[depth-1]; c.visits != unknownVisits {
		return c, nil
	}
	if err := w.effort.spend(stepsPerCost); err != nil {
		return cost{}, err
	}
	var most cost
	for _, object := range []bool{false, true} {
		scope, err := w.scope(s, object)
		if err != nil {
			return cost{}, err
		}
		c, err := w.childCost(scope, depth-1)
		if err != nil {
			return cost{}, err
		}
		most = most.or(c)
	}
	f.costs[depth-1] = most
	return most, nil
}

func (f *facts) ownCost() cost {
	if f == nil {
		return cost{}
	}
	return f.own
}

// childCost returns the most that one member or item of a value can cost.
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
	if err := w.effort.spend(stepsPerSum * (1 + len(schemas))); err != nil {
		return cost{}, err
	}
	for _, s := range schemas {
		c, err := w.cost(s, depth)
		if err != nil {
			return cost{}, err
		}
		total = total.plus(c)
	}
	return total, nil
}

// scope is all subschemas that a schema applies to the members or items of a
// value, directly or by its references, allOf, anyOf and so on.
type scope struct {
	names cost // cost of the name of a member
	// The subschemas for members or items: always are for all of them; slots are
	// for one name or index each; others are for those without a slot in the same
	// subschema.
	always []*jsonschema.Schema
	slots  map[any]*slot
	others []*jsonschema.Schema
}

type slot struct {
	applied []*jsonschema.Schema
	spared  []*jsonschema.Schema // those of scope.others that do not apply to it
}

// scope returns the scope of s for objects or for arrays.
func (w *weigher) scope(s *jsonschema.Schema, object bool) (*scope, error) {
	f, err := w.look(s)
	if err != nil {
		return nil, err
	}
	place := &f.array
	if object {
		place = &f.object
	}
	if *place != nil {
		return *place, nil
	}
	c := &scope{slots: map[any]*slot{}}
	if err := w.collect(c, s, object); err != nil {
		return nil, err
	}
	*place = c
	return c, nil
}

// collect adds the subschemas that s applies to a scope. Before, look has checked
// that s does not refer to itself without end, and limited how many schemas it
// refers to.
func (w *weigher) collect(c *scope, s *jsonschema.Schema, object bool) error {
	f, err := w.look(s)
	if err != nil {
		return err
	}
	if err := w.effort.spend(stepsPerScope); err != nil {
		return err
	}
	if f.children && object {
		err = w.members(c, s)
	} else if f.children {
		err = w.items(c, s)
	}
	for _, sub := range f.same {
		if err == nil {
			err = w.collect(c, sub, object)
		}
	}
	return err
}

func (w *weigher) items(c *scope, s *jsonschema.Schema) error {
	c.always = append(c.always, present(s.Contains, s.UnevaluatedItems)...)
	others := schemasIn(s.Items2020)
	slots := s.PrefixItems
	switch items := s.Items.(type) { // before Draft 2020-12
	case *jsonschema.Schema:
		others = schemasIn(items)
	case []*jsonschema.Schema:
		slots = items
		others = schemasIn(s.AdditionalItems)
	}
	c.others = append(c.others, others...)
	for i, item := range slots {
		c.slot(i, item, others)
	}
	return w.effort.spend(stepsPerEntry * len(slots))
}

func (w *weigher) members(c *scope, s *jsonschema.Schema) error {
	if err := w.effort.spend(stepsPerEntry * (len(s.Properties) + len(s.PatternProperties))); err != nil {
		return err
	}
	c.always = append(c.always, present(s.UnevaluatedProperties)...)
	for re, sub := range s.PatternProperties {
		c.always = append(c.always, sub)
		if p, ok := re.(pattern); ok {
			c.names.perByte += p.steps
		}
	}
	if s.PropertyNames != nil { // names are strings: subschemas for members do not apply to them
		f, err := w.look(s.PropertyNames)
		if err != nil {
			return err
		}
		c.names = c.names.plus(f.own).plus(cost{0, stepsPerNameVisit, 0})
	}
	others := schemasIn(s.AdditionalProperties)
	c.others = append(c.others, others...)
	for name, sub := range s.Properties {
		c.slot(name, sub, others)
	}
	return nil
}

func (c *scope) slot(key any, applied *jsonschema.Schema, spared []*jsonschema.Schema) {
	if c.slots[key] == nil {
		c.slots[key] = &slot{}
	}
	own := c.slots[key]
	own.applied = append(own.applied, applied)
	own.spared = append(own.spared, spared...)
}

// hasChildren reports whether a schema applies others to members, their names or items.
func hasChildren(s *jsonschema.Schema) bool {
	return s.Contains != nil || s.UnevaluatedItems != nil || s.Items2020 != nil || s.Items != nil || s.AdditionalItems != nil || s.PrefixItems != nil ||
		s.Properties != nil || s.PatternProperties != nil || s.AdditionalProperties != nil || s.UnevaluatedProperties != nil || s.PropertyNames != nil
}

// The work of the library for applying a schema, in steps.
const (
	stepsPerVisit       = 60
	stepsPerName        = 40  // of a required member, whose absence is reported
	stepsPerNameVisit   = 250 // of the name of a member
	stepsPerUnevaluated = 30  // of a member or item, in each subschema that applies to its parent
	stepsPerComparison  = 3   // of a text
	stepsPerRational    = 100 // of a number: each is converted to a rational number
)

// ownCost returns the cost of the keywords of s that apply no subschema.
func ownCost(s *jsonschema.Schema) cost {
	c := cost{1, stepsPerVisit + stepsPerName*float64(requiredBy(s)), 1}
	if s.Enum != nil {
		for _, v := range s.Enum.Values {
			c.steps += comparing(v)
		}
	}
	if s.Const != nil {
		c.steps += comparing(*s.Const)
	}
	if p, ok := s.Pattern.(pattern); ok {
		c.perByte += p.steps
	}
	for _, bound := range []*big.Rat{s.Minimum, s.Maximum, s.ExclusiveMinimum, s.ExclusiveMaximum, s.MultipleOf} {
		if bound != nil {
			c.steps += stepsPerRational
			c.perByte += stepsPerRational / 20
		}
	}
	if s.Types != nil && strings.Contains(s.Types.String(), "integer") {
		c.steps += stepsPerRational
	}
	return c
}

// requiredBy returns how many members a schema may require.
func requiredBy(s *jsonschema.Schema) int {
	n := len(s.Required)
	for _, names := range s.DependentRequired {
		n += 1 + len(names)
	}
	for _, dependency := range s.Dependencies {
		names, _ := dependency.([]string)
		n += 1 + len(names)
	}
	return n + len(s.DependentSchemas)
}

// comparing returns the steps for comparing a value with a value in a schema.
func comparing(v any) (steps float64) {
	for _, l := range jsonvalue.Levels(v) {
		steps += stepsPerComparison * float64(l.Values)
	}
	return steps + stepsPerRational*float64(numbersIn(v))
}

func numbersIn(v any) (n int) {
	switch v := v.(type) {
	case jsonvalue.Number:
		return 1
	case []any:
		for _, item := range v {
			n += numbersIn(item)
		}
	case map[string]any:
		for _, member := range v {
			n += numbersIn(member)
		}
	}
	return n
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

// present returns the schemas that are not nil.
func present(all ...*jsonschema.Schema) []*jsonschema.Schema {
	return slices.DeleteFunc(all, func(s *jsonschema.Schema) bool { return s == nil })
}

// schemasIn returns the schema in a keyword whose value may have several types, if it is
// one.
func schemasIn(keyword any) []*jsonschema.Schema {
	s, _ := keyword.(*jsonschema.Schema)
	return present(s)
}
