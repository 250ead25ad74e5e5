package schema

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Finding is one cause of a failed validation: the path of the value, and the rule.
type Finding struct {
	Path []string // the tokens of a JSON Pointer
	kind jsonschema.ErrorKind
}

// findingsOf returns why a validation failed: at most [jsonvalue.MaxViolations] findings,
// in the order of their paths. They are the leaves of the library's tree of errors. The
// other nodes only say which allOf, $ref or if led to a leaf.
func findingsOf(err error) []Finding {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return nil
	}
	var found findings
	found.addLeaves(invalid)
	return found.first()
}

// findings collects the first findings in the order of their paths. It drops
// later ones, since a hostile document may have a million.
type findings struct{ list []Finding }

func (l *findings) add(f Finding) {
	l.list = append(l.list, f)
	if len(l.list) > 10*jsonvalue.MaxViolations {
		l.list = l.first()
	}
}

// first sorts the findings, and returns those that are reported.
func (l *findings) first() []Finding {
	slices.SortStableFunc(l.list, Finding.compare)
	return l.list[:min(len(l.list), jsonvalue.MaxViolations)]
}

func (f Finding) compare(g Finding) int {
	return cmp.Or(slices.Compare(f.Path, g.Path), slices.Compare(f.kind.KeywordPath(), g.kind.KeywordPath()))
}

func (l *findings) addLeaves(e *jsonschema.ValidationError) {
	switch k := e.ErrorKind.(type) {
	case nil: // the library gives no reason
		return
	case *kind.Required: // one error, at the object, for all missing members
		for _, name := range k.Missing {
			path := append(slices.Clone(e.InstanceLocation), name)
			l.add(Finding{path, &kind.Required{Missing: []string{name}}})
		}
		return
	case *kind.PropertyNames: // the library may have overwritten the path
		l.add(Finding{nil, k})
		return
	case *kind.Contains, *kind.MinContains: // without the causes, which say why each item does not match
		l.add(Finding{e.InstanceLocation, k})
		return
	case *kind.AnyOf, *kind.OneOf:
		for _, f := range alternatives(e) {
			l.add(f)
		}
		return
	}
	if len(e.Causes) == 0 {
		l.add(Finding{e.InstanceLocation, e.ErrorKind})
	}
	for _, cause := range e.Causes {
		l.addLeaves(cause)
	}
}

// alternatives returns the findings for anyOf or oneOf. If no alternative
// allows the type of the value, the finding is about the type. If one
// alternative allows it, the findings are those of this alternative. Otherwise
// there is one finding without details.
func alternatives(e *jsonschema.ValidationError) []Finding {
	var types kind.Type
	var fitting [][]Finding
	for _, cause := range e.Causes {
		var all findings
		all.addLeaves(cause)
		found := all.list
		if len(found) == 1 && len(found[0].Path) == len(e.InstanceLocation) {
			if t, ok := found[0].kind.(*kind.Type); ok {
				types.Got = t.Got
				types.Want = append(types.Want, t.Want...)
				continue
			}
		}
		fitting = append(fitting, found)
	}
	switch {
	case len(fitting) == 1 && len(fitting[0]) > 0:
		return fitting[0]
	case len(fitting) == 0 && len(types.Want) > 0:
		slices.Sort(types.Want)
		types.Want = slices.Compact(types.Want)
		return []Finding{{e.InstanceLocation, &types}}
	default:
		return []Finding{{e.InstanceLocation, e.ErrorKind}}
	}
}

// ViolationsOf returns violations in English for the validation error of a
// document, or of a part of it at path. For nil, there are none.
func ViolationsOf(err error, document any, path string) jsonvalue.Violations {
	found := findingsOf(err)
	if err != nil && len(found) == 0 { // the library gives no reason, but the document is invalid
		return jsonvalue.Violations{{Path: safetext.Clip(path, jsonvalue.MaxPath), Message: "must match its schema"}}
	}
	list := make(jsonvalue.Violations, len(found))
	for i, f := range found {
		list[i] = f.Violation(document, path)
	}
	return list
}

// Violation describes a finding in English. The path of the finding is relative
// to document, whose own pointer is prefix.
func (f Finding) Violation(document any, prefix string) run.Violation {
	message, expected := explain(f.kind)
	v := run.Violation{Path: safetext.Clip(prefix+jsonvalue.Pointer(f.Path), jsonvalue.MaxPath), Message: safetext.Clip(message, jsonvalue.MaxMessage), Expected: expected}
	switch k := f.kind.(type) {
	case *kind.Required:
		v.Actual = jsonvalue.Quoted("missing")
	case *kind.Type:
		v.Actual = jsonvalue.Quoted(k.Got)
	default:
		v.Actual = jsonvalue.Shown(jsonvalue.Lookup(document, f.Path))
	}
	return v
}

// explain returns what a rule demands, as the predicate of a sentence, and the
// value or type that it expects.
func explain(k jsonschema.ErrorKind) (message string, expected jsontext.Value) {
	if message, expected = explainBound(k); message != "" {
		return message, expected
	}
	switch k := k.(type) {
	case *kind.Required:
		return "is required", jsonvalue.Quoted("required")
	case *kind.Type:
		expected = jsonvalue.Marshal(k.Want)
		if len(k.Want) == 1 {
			expected = jsonvalue.Quoted(k.Want[0])
		}
		return "must be " + jsonvalue.WithArticle(k.Want...), expected
	case *kind.Enum:
		return "must be equal to one of the allowed values", listed(k.Want)
	case *kind.Const:
		return "must be equal to the only allowed value", jsonvalue.Shown(k.Want)
	case *kind.Pattern:
		if k.Want == VersionForm {
			return "must be a version of the form MAJOR.MINOR.PATCH (Semantic Versioning 2.0.0)", jsonvalue.Quoted(VersionForm)
		}
		return "must match the pattern " + strconv.Quote(k.Want), jsonvalue.Quoted(safetext.Clip(k.Want, jsonvalue.MaxActual))
	case *kind.Format: // only the metaschemas use format
		return "must be a regular expression: " + k.Err.Error(), jsonvalue.Quoted("regular expression")
	case *kind.UniqueItems:
		return fmt.Sprintf("must not have the same item twice, as at %d and %d", k.Duplicates[0], k.Duplicates[1]), jsonvalue.Quoted("unique items")
	case *kind.AdditionalProperties:
		return "must not have the member " + strconv.Quote(slices.Min(k.Properties)), nil
	case *kind.PropertyNames:
		return fmt.Sprintf("must not have a member named %q", k.Property), nil
	case *kind.DependentRequired:
		return dependency(k.Prop, k.Missing), nil
	case *kind.Dependency:
		return dependency(k.Prop, k.Missing), nil
	case *kind.Contains:
		return "must have an item of the required form", nil
	case *kind.MinContains:
		return fmt.Sprintf("must have at least %d items of the required form", k.Want), nil
	case *kind.MaxContains:
		return fmt.Sprintf("must have at most %d items of the restricted form", k.Want), nil
	case *kind.AnyOf:
		return "must match at least one of the alternatives in its schema", nil
	case *kind.OneOf:
		return "must match exactly one of the alternatives in its schema", nil
	case *kind.Not:
		return "must not match what its schema rules out", nil
	case *kind.FalseSchema:
		return "must be absent", nil
	}
	return "must match the rule " + strconv.Quote(strings.Join(k.KeywordPath(), "/")) + " of its schema", nil
}

// explainBound is explain for the rules that bound a number or a size. The message of others is empty.
func explainBound(k jsonschema.ErrorKind) (message string, expected jsontext.Value) {
	switch k := k.(type) {
	case *kind.MinLength:
		if k.Want == 1 {
			return "must not be empty", jsonvalue.Quoted("at least 1 character")
		}
		return limit("at least", k.Want, "character")
	case *kind.MaxLength:
		return limit("at most", k.Want, "character")
	case *kind.MinItems:
		return limit("at least", k.Want, "item")
	case *kind.MaxItems:
		return limit("at most", k.Want, "item")
	case *kind.MinProperties:
		return limit("at least", k.Want, "member")
	case *kind.MaxProperties:
		return limit("at most", k.Want, "member")
	case *kind.Minimum:
		return comparison("at least", k.Want)
	case *kind.Maximum:
		return comparison("at most", k.Want)
	case *kind.ExclusiveMinimum:
		return comparison("greater than", k.Want)
	case *kind.ExclusiveMaximum:
		return comparison("less than", k.Want)
	case *kind.MultipleOf:
		return comparison("a multiple of", k.Want)
	}
	return "", nil
}

func limit(bound string, n int, unit string) (string, jsontext.Value) {
	if n != 1 {
		unit += "s"
	}
	want := fmt.Sprintf("%s %d %s", bound, n, unit)
	return "must have " + want, jsonvalue.Quoted(want)
}

func comparison(relation string, n *big.Rat) (string, jsontext.Value) {
	text := n.RatString()
	if decimals, exact := n.FloatPrec(); exact && !n.IsInt() {
		text = n.FloatString(decimals)
	}
	want := relation + " " + safetext.Clip(text, jsonvalue.MaxActual)
	return "must be " + want, jsonvalue.Quoted(want)
}

func dependency(name string, missing []string) string {
	return fmt.Sprintf("must have the member %q when it has %q", slices.Min(missing), name)
}

func listed(values []any) jsontext.Value {
	const most = 50 // allowed values; a longer list does not help
	list := make([]jsontext.Value, min(len(values), most))
	for i := range list {
		list[i] = jsonvalue.Shown(values[i])
	}
	return jsonvalue.Marshal(list)
}

// VersionForm replaces, in messages, the regular expression of a version (Semantic Versioning 2.0.0), which is hard to
// read.
const VersionForm = "MAJOR.MINOR.PATCH"

// Sentence returns what a value must be and what it is, as the predicate of a sentence.
func (f Finding) Sentence(document any) string {
	message, expected := explain(f.kind)
	switch k := f.kind.(type) {
	case *kind.Required:
		return message
	case *kind.Type:
		return message + ", not " + jsonvalue.WithArticle(k.Got)
	case *kind.Enum, *kind.Const:
		message += " (" + safetext.Clip(string(expected), jsonvalue.MaxActual) + ")"
	}
	message = safetext.Clip(message, jsonvalue.MaxMessage)
	switch v := jsonvalue.Lookup(document, f.Path).(type) {
	case nil, []any, map[string]any:
		return message
	default:
		if v == "" {
			return message // showing an empty string would not help
		}
		return message + ", not " + safetext.Clip(string(jsonvalue.Shown(v)), 64)
	}
}
