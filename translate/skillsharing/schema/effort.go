package schema

import (
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// effort is how many steps of about 10 ns compiling the schemas of one descriptor may still take. The library
// can't be interrupted while it compiles a schema, so its work is estimated before. The constants were
// measured.
type effort struct{ left int }

// maxEffort bounds the work of compiling all schemas of a descriptor: about 20 ms. An ordinary property takes some 12 us, and a property in a
// schema with unusual keywords 50 us.
const maxEffort = 2_000_000

const errTooMuchWork ruleError = "must not take so much work to compile, together with the schemas of the inputs before it"

// spend takes steps from those that are left.
func (e *effort) spend(steps int) error {
	if steps > e.left {
		e.left = 0
		return errTooMuchWork
	}
	e.left -= steps
	return nil
}

// The work of the library for a schema, in steps. Every object or boolean may
// be a schema, since a reference may lead to it.
const (
	stepsPerCompilation = 4000
	stepsPerObject      = 1000
	stepsPerBoolean     = 700
	stepsPerArray       = 300
	stepsPerText        = 200
	stepsPerNumber      = 400
	stepsPerDatum       = 60 // a value of dataKeywords, or one in it
	stepsPerReference   = 500
	// A reference that does not begin with "#" may lead to a metaschema, which is
	// compiled once for each schema that refers to one.
	stepsForMetaschemas = 400_000
)

// compilation estimates the work of the library for a schema.
type compilation struct {
	effort     *effort
	root       map[string]any
	references map[string]struct{} // as they are written
	schemas    int                 // values that may be schemas
	pointers   int                 // bytes of the pointers to these values
	resources  int                 // values with an id
	anchors    int
	outside    bool // a reference does not begin with "#"
	steps      int  // steps for walking the values
}

// estimate spends the steps that the library will take for a schema, and returns how many bytes the pointers to
// its subschemas have. It returns an error for a schema that takes too many steps, or refers to other
// documents.
func (e *effort) estimate(schema map[string]any) (pointers int, err error) {
	c := &compilation{effort: e, root: schema, references: map[string]struct{}{}}
	if err := c.walk(schema, 0, 0); err != nil {
		return 0, err
	}
	if c.outside {
		if c.resources == 0 { // so the reference is to another document
			return 0, errOutside
		}
		if err := e.spend(stepsForMetaschemas); err != nil {
			return 0, err
		}
	}
	// The library searches each schema in a list of the earlier ones, by
	// comparing pointers, and each schema with an id in a map of all such
	// schemas.
	quadratic := c.schemas*(c.schemas+len(c.references))/3 + c.schemas*c.pointers/500 + c.resources*(c.schemas+c.resources)*4 + c.anchors*c.anchors
	if err := e.spend(stepsPerCompilation + 4*c.pointers + quadratic); err != nil {
		return 0, err
	}
	return c.pointers, c.elsewhere()
}

// walk counts a value and all values in it. The value has a depth, and a pointer
// of so many bytes.
func (c *compilation) walk(v any, depth, pointer int) error {
	var steps int
	switch v := v.(type) {
	case map[string]any:
		c.schemas++
		c.pointers += pointer
		steps = stepsPerObject + 20*depth
		for name, member := range v {
			steps += c.member(name, member)
			if slices.Contains(dataKeywords, name) {
				steps += jsonvalue.SizeOf(member).Values * stepsPerDatum // they are no schemas, unless a reference leads to them
				continue
			}
			if err := c.walk(member, depth+1, pointer+1+len(name)); err != nil {
				return err
			}
		}
	case []any:
		steps = stepsPerArray
		for _, item := range v {
			if err := c.walk(item, depth+1, pointer+4); err != nil {
				return err
			}
		}
	case bool:
		c.schemas++
		c.pointers += pointer
		steps = stepsPerBoolean + 20*depth
	case string:
		steps = stepsPerText + len(v)/2
	case jsonvalue.Number:
		steps = stepsPerNumber + 10*len(v)
	default:
		steps = stepsPerNumber
	}
	c.steps += steps
	return c.effort.spend(steps)
}

// dataKeywords are the keywords whose values the library stores unchanged.
var dataKeywords = []string{"const", "default", "enum", "examples"}

// member counts a member as the keyword that it may be, and returns the steps for it.
func (c *compilation) member(name string, v any) int {
	text, isText := v.(string)
	switch name {
	case "$ref", "$dynamicRef":
		if !isText {
			break
		}
		c.references[text] = struct{}{}
		c.outside = c.outside || text != "" && text[0] != '#'
		return stepsPerReference + 10*len(text)
	case "$id", "id":
		if isText {
			c.resources++
			return stepsPerReference + 2*len(text)
		}
	case "$anchor", "$dynamicAnchor":
		c.anchors++
	case "enum", "required", "type": // of which some must have unique items
		list, _ := v.([]any)
		return int(uniqueness(list))
	}
	return len(name)
}

// elsewhere spends the steps for references to places that are not the value of a
// schema keyword. For each, the library copies all its data about the schema, and
// validates the place.
func (c *compilation) elsewhere() error {
	for reference := range c.references {
		pointer := fragment(reference)
		if !strings.HasPrefix(pointer, "/") || schemaPlace.MatchString(pointer) {
			continue
		}
		// Pointers in a value with an id begin at that value, so the target is not known: all values are
		// counted.
		if c.resources > 0 {
			if err := c.effort.spend(c.steps); err != nil {
				return err
			}
		} else {
			target := &compilation{effort: c.effort, references: map[string]struct{}{}}
			if err := target.walk(jsonvalue.Lookup(c.root, slices.Collect(jsontext.Pointer(pointer).Tokens())), 0, len(pointer)); err != nil {
				return err
			}
		}
		if err := c.effort.spend(2000 + 40*(c.schemas+c.anchors) + 200*c.resources + 2*c.pointers); err != nil {
			return err
		}
	}
	return nil
}

// schemaPlace matches the pointers that lead, by keywords, to a place where a schema must be.
var schemaPlace = regexp.MustCompile(`^(/(` + anyOf(SchemaMapKeywords) + `)/[^/]*|/(` + anyOf(SchemaKeywords) + `)(/[0-9]+)?)*$`)

// anyOf returns an expression that matches each of the words.
func anyOf(words []string) string {
	return strings.ReplaceAll(regexp.QuoteMeta(strings.Join(words, " ")), " ", "|")
}
