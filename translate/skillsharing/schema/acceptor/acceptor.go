package acceptor

import (
	"math/big"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/strictjson"
)

// Acceptor recognizes values that a schema certainly accepts. It is immutable and safe for concurrent use.
type Acceptor struct {
	// kinds are the types of values that it may accept. A number with a fraction can be an integer, such as 1.0: the library decides.
	kinds  jsonvalue.TypeSet
	only   map[string]struct{} // texts of the scalars that enum or const allow; nil: all
	text   *length
	number *bounds
	array  *items
	object *members
}

// length bounds the characters of a string.
type length struct{ least, most int }

// items is what the schema asks of an array.
type items struct {
	least, most int
	first       []*Acceptor
	rest        *Acceptor
}

// members is what the schema asks of an object.
type members struct {
	least, most int
	named       []member
	byName      map[string]int // index in named; nil: there are few, which a search finds faster
	required    uint64         // a bit for each required member
	others      *Acceptor
}

type member struct {
	name   string
	before string // what stands before the value in most texts; empty: the name needs escape sequences
	value  *Acceptor
}

func newMember(name string, value *Acceptor) member {
	m := member{name: name, before: `"` + name + `":`, value: value}
	if end, _, isPlain := strictjson.String([]byte(m.before), 0); end != len(m.before)-1 || !isPlain {
		m.before = ""
	}
	return m
}

// manyNamed is the smallest number of named members for which there is a map.
const manyNamed = 9

// index returns the index of a member among the named; -1: it is not one of them.
func (m *members) index(name []byte) int {
	if m.byName != nil {
		if i, named := m.byName[string(name)]; named {
			return i
		}
		return -1
	}
	for i := range m.named {
		if m.named[i].name == string(name) {
			return i
		}
	}
	return -1
}

// maxNamed is the largest number of named members: each has a bit.
const maxNamed = 64

// unbounded stands for a missing upper bound.
const unbounded = int(^uint(0) >> 1)

var (
	anything = &Acceptor{kinds: jsonvalue.EveryType}
	nothing  = &Acceptor{}
)

// New returns the acceptor of a schema. The work is proportional to the text of the schema.
func New(s *jsonschema.Schema) *Acceptor {
	switch {
	case s.Bool != nil && *s.Bool:
		return anything
	case s.Bool != nil || !onlyUsual(s):
		return nothing
	}
	a := &Acceptor{kinds: jsonvalue.EveryType}
	if s.Types != nil && !s.Types.IsEmpty() {
		a.kinds = 0
		for _, name := range s.Types.ToStrings() {
			a.kinds |= jsonvalue.TypesNamed(name)
		}
		a.kinds = a.kinds.Common(jsonvalue.EveryType)
	}
	a.values(s)
	a.length(s)
	a.bounds(s)
	a.items(s)
	a.members(s)
	return a
}

// onlyUsual reports whether a schema has none of the keywords for all kinds of values that only the library applies.
func onlyUsual(s *jsonschema.Schema) bool {
	return s.Ref == nil && s.RecursiveRef == nil && s.DynamicRef == nil && s.Not == nil && s.If == nil && s.Then == nil && s.Else == nil && s.Format == nil &&
		len(s.AllOf) == 0 && len(s.AnyOf) == 0 && len(s.OneOf) == 0 && len(s.Extensions) == 0 && (s.Enum == nil || s.Const == nil)
}

// values notes the scalars that enum or const allow. Arrays and objects among them are left to the library, and so are other texts of the same scalars.
func (a *Acceptor) values(s *jsonschema.Schema) {
	var list []any
	switch {
	case s.Enum != nil:
		list = s.Enum.Values
	case s.Const != nil:
		list = []any{*s.Const}
	default:
		return
	}
	a.only = make(map[string]struct{}, len(list))
	allowed := jsonvalue.TypeSet(0)
	for _, v := range list {
		switch v.(type) {
		case nil:
			allowed |= jsonvalue.TypeNull
		case bool:
			allowed |= jsonvalue.TypeBoolean
		case string:
			allowed |= jsonvalue.TypeString
		case jsonvalue.Number:
			allowed |= jsonvalue.Numbers
		default:
			continue
		}
		a.only[string(jsonvalue.Marshal(v))] = struct{}{}
	}
	a.kinds &= allowed
}

func (a *Acceptor) length(s *jsonschema.Schema) {
	switch {
	case s.Pattern != nil || s.ContentEncoding != nil || s.ContentMediaType != nil || s.ContentSchema != nil:
		a.kinds &^= jsonvalue.TypeString
	case s.MinLength != nil || s.MaxLength != nil:
		a.text = &length{least: valueOr(s.MinLength, 0), most: valueOr(s.MaxLength, unbounded)}
	}
}

func (a *Acceptor) bounds(s *jsonschema.Schema) {
	if a.kinds&jsonvalue.Numbers == 0 || s.Minimum == nil && s.Maximum == nil && s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil && s.MultipleOf == nil {
		return
	}
	a.number = new(bounds)
	for i, limit := range []*big.Rat{s.Minimum, s.ExclusiveMinimum, s.Maximum, s.ExclusiveMaximum} {
		if limit != nil {
			a.number.limits[i] = newLimit(limit)
		}
	}
	if s.MultipleOf != nil {
		a.kinds &^= jsonvalue.TypeNumber
		if m := s.MultipleOf; m.IsInt() && m.Num().IsInt64() && m.Sign() > 0 {
			a.number.divisor = m.Num().Int64()
		} else {
			a.kinds &^= jsonvalue.Numbers
		}
	}
}

func (a *Acceptor) items(s *jsonschema.Schema) {
	if s.UniqueItems || s.Contains != nil || s.UnevaluatedItems != nil || s.Items != nil || s.AdditionalItems != nil { // the last two are of older drafts
		a.kinds &^= jsonvalue.TypeArray
	}
	if a.kinds&jsonvalue.TypeArray == 0 || s.PrefixItems == nil && s.Items2020 == nil && s.MinItems == nil && s.MaxItems == nil {
		return
	}
	a.array = &items{least: valueOr(s.MinItems, 0), most: valueOr(s.MaxItems, unbounded), rest: anything}
	if s.Items2020 != nil {
		a.array.rest = New(s.Items2020)
	}
	for _, of := range s.PrefixItems {
		a.array.first = append(a.array.first, New(of))
	}
}

func (a *Acceptor) members(s *jsonschema.Schema) {
	if s.PropertyNames != nil || len(s.PatternProperties) > 0 || len(s.Dependencies) > 0 || len(s.DependentRequired) > 0 ||
		len(s.DependentSchemas) > 0 || s.UnevaluatedProperties != nil || len(s.Properties)+len(s.Required) > maxNamed {
		a.kinds &^= jsonvalue.TypeObject
	}
	if a.kinds&jsonvalue.TypeObject == 0 || len(s.Properties) == 0 && len(s.Required) == 0 && s.AdditionalProperties == nil && s.MinProperties == nil && s.MaxProperties == nil {
		return
	}
	m := &members{least: valueOr(s.MinProperties, 0), most: valueOr(s.MaxProperties, unbounded), others: anything}
	switch of := s.AdditionalProperties.(type) {
	case bool:
		if !of {
			m.others = nothing
		}
	case *jsonschema.Schema:
		m.others = New(of)
	}
	a.object = m
	for name, of := range s.Properties {
		m.named = append(m.named, newMember(name, New(of)))
	}
	for _, name := range s.Required {
		i := m.index([]byte(name))
		if i < 0 {
			i = len(m.named)
			m.named = append(m.named, newMember(name, m.others))
		}
		m.required |= 1 << i
	}
	if len(m.named) >= manyNamed {
		m.byName = make(map[string]int, len(m.named))
		for i, member := range m.named {
			m.byName[member.name] = i
		}
	}
}

func valueOr(n *int, missing int) int {
	if n == nil {
		return missing
	}
	return *n
}
