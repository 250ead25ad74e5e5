package schema

import (
	"regexp"
	"slices"
	"strings"

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
	stepsPerText        = 200
	stepsPerValue       = 400 // of another kind
	stepsPerReference   = 500
	// A reference that does not begin with "#" may lead to a metaschema, which is
	// compiled once for each schema that refers to one.
	stepsForMetaschemas = 400_000
)

// estimate spends the steps that the library will take for a schema, and returns how many bytes the pointers to
// its subschemas have. It returns an error for a schema that takes too many steps, or refers to other
// documents.
func (e *effort) estimate(schema map[string]any) (pointers int, err error) {
	var around [maxSchemaDepth + 1]int // bytes of the pointers of the values around one, by depth
	schemas, resources, anchors, steps := 0, 0, 0, stepsPerCompilation
	references := map[string]bool{}
	for at, v := range jsonvalue.Within(schema) {
		pointer := 0
		if at.Depth > 0 {
			pointer = around[at.Depth-1] + max(1+len(at.Name), 4)
		}
		steps += len(at.Name)
		switch v := v.(type) {
		case map[string]any:
			schemas, pointers, steps = schemas+1, pointers+pointer, steps+stepsPerObject+20*at.Depth
			around[at.Depth] = pointer
		case bool:
			schemas, pointers, steps = schemas+1, pointers+pointer, steps+stepsPerBoolean+20*at.Depth
		case []any:
			around[at.Depth] = pointer
			steps += stepsPerValue
			if slices.Contains(uniqueKeywords, at.Name) {
				steps += int(uniqueness(v))
			}
		case string:
			steps += stepsPerText + len(v)/2
			switch at.Name {
			case "$ref", "$dynamicRef":
				references[v] = true
				steps += stepsPerReference + 10*len(v)
			case "$id", "id":
				resources++
				steps += stepsPerReference + 2*len(v)
			case "$anchor", "$dynamicAnchor":
				anchors++
			}
		case jsonvalue.Number:
			steps += stepsPerValue + 10*len(v)
		default:
			steps += stepsPerValue
		}
		if steps > e.left {
			return 0, e.spend(steps)
		}
	}
	whole := steps + 2000 + 40*(schemas+anchors) + 200*resources + 2*pointers
	outside := 0
	for reference := range references {
		if reference != "" && reference[0] != '#' {
			outside = stepsForMetaschemas
		}
		// For a reference to a place that is not the value of a schema keyword, the library copies all its data about the schema, and validates the place.
		if pointer := fragment(reference); strings.HasPrefix(pointer, "/") && !schemaPlace.MatchString(pointer) {
			steps += whole
		}
	}
	if outside > 0 && resources == 0 { // so the reference is to another document
		return 0, errOutside
	}
	// The library searches each schema in a list of the earlier ones, by
	// comparing pointers, and each schema with an id in a map of all such
	// schemas.
	quadratic := schemas*(schemas+len(references))/3 + schemas*pointers/500 + resources*(schemas+resources)*4 + anchors*anchors
	return pointers, e.spend(steps + outside + 4*pointers + quadratic)
}

// uniqueKeywords are those whose values must be lists of unique items.
var uniqueKeywords = []string{"enum", "required", "type"}

// schemaPlace matches the pointers that lead, by keywords, to a place where a schema must be.
var schemaPlace = regexp.MustCompile(`^(/(` + anyOf(SchemaMapKeywords) + `)/[^/]*|/(` + anyOf(SchemaKeywords) + `)(/[0-9]+)?)*$`)

// anyOf returns an expression that matches each of the words.
func anyOf(words []string) string {
	return strings.ReplaceAll(regexp.QuoteMeta(strings.Join(words, " ")), " ", "|")
}
