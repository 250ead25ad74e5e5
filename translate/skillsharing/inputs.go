package skillsharing

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/skill-bridge/caddy-skill-bridge/translate/rawobject"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Inputs checks arguments against the inputs of a descriptor. It is immutable
// and safe for concurrent use.
type Inputs struct {
	most   int64  // steps that checking the arguments of one request may take
	source string // of the descriptor
	inputs []input
	byName map[string]int // nil for few, which are found sooner without
}

// manyInputs is from how many on a map is worth its memory.
const manyInputs = 9

type input struct {
	name     string
	required bool // and without a default
	types    typeSet
	schema   *parameterSchema // nil: none that could be applied here
}

// CompileInputs prepares the check of arguments. A parameter's schema that is
// invalid, refers to anything outside of itself, or is too large or complex, and
// a name given twice, are a [*run.Failure] of the kind [run.InvalidDocument] with
// the violations. A schema with regular expressions that Go's engine does
// not know, such as lookaround, is left to the provider.
func CompileInputs(params []Parameter) (*Inputs, error) { return standard.compileInputs(params) }

func (l *Limits) compileInputs(params []Parameter) (*Inputs, error) {
	if list := l.documentBounds(DefSkillDescriptor).list; list.most > 0 && len(params) > list.most {
		return nil, documentError(run.PhaseDescriptor, string(DefSkillDescriptor), []run.Violation{list.violation(len(params))})
	}
	in, found := l.inputs(params, func(i int) (any, *run.Violation) {
		return readJSON(params[i].Schema, l.documentBounds(DefParameterDefinition))
	})
	if found != nil {
		return nil, documentError(run.PhaseDescriptor, string(DefSkillDescriptor), found.tidy())
	}
	return in, nil
}

// inputs prepares the check of arguments, given how to read the schema of a parameter.
func (l *Limits) inputs(params []Parameter, schemaOf func(i int) (any, *run.Violation)) (*Inputs, violations) {
	in := &Inputs{most: l.argumentSteps(), source: l.owner, inputs: make([]input, 0, len(params))}
	if len(params) >= manyInputs {
		in.byName = make(map[string]int, len(params))
	}
	compiler := newParameterCompiler(l)
	var found violations
	for i := range params {
		if len(found) > maxViolations {
			break
		}
		p, path := &params[i], "/inputs/"+strconv.Itoa(i)
		if _, taken := in.named([]byte(p.Name)); taken {
			found.add(path+"/name", "must be unique", "a unique name", p.Name)
		}
		if in.byName != nil {
			in.byName[p.Name] = i
		}
		in.inputs = append(in.inputs, input{name: p.Name, required: p.Required && p.Default == nil, types: typesNamed(p.Type)})
		if p.Schema == nil {
			continue
		}
		schema, flaw := schemaOf(i)
		if flaw != nil {
			flaw.Path = clip(path+"/schema"+flaw.Path, maxPath)
			found = append(found, *flaw)
			continue
		}
		object, ok := schema.(map[string]any)
		if !ok {
			found.add(path+"/schema", "must be an object", "object", schema)
			continue
		}
		compiled, flaws := compiler.compile(p.Schema, object, path+"/schema")
		found = append(found, flaws...)
		in.inputs[i].schema = compiled
		if own, stated := object["type"]; stated {
			in.inputs[i].types = typesOf(own)
		}
	}
	return in, found
}

// Check judges the arguments of a call; none at all count as {}. Required inputs
// without a default must be there, values must have the declared JSON type, where
// it is one, and match the parameter's schema, which decides about the type if it
// states one. What the descriptor does not name passes.
//
// The error tells the first argument at fault: of the missing ones in the order
// of the descriptor, else in the order of the arguments; or all of them, if args is no
// object.
func (in *Inputs) Check(args jsontext.Value) *run.Failure {
	return in.check(context.Background(), asker{}, args, new(Checks))
}

func (in *Inputs) check(ctx context.Context, who asker, args jsontext.Value, checks *Checks) *run.Failure {
	if len(args) == 0 {
		args = jsontext.Value("{}")
	}
	if name := typeName(args); name != "object" {
		return notAnObject("must be an object, not " + withArticle(name))
	}
	dec := borrowDecoder(args, true)
	defer dec.giveBack()

	var few [64]bool // without an allocation
	given := in.each(few[:])
	var first *run.Failure    // of the arguments at fault
	_, err := dec.ReadToken() // the brace
	for err == nil && dec.PeekKind() != '}' {
		var name, value jsontext.Value
		if name, err = dec.ReadValue(); err != nil {
			break
		}
		i, known := in.find(name)
		if value, err = dec.ReadValue(); err != nil || !known {
			continue
		}
		given[i] = true
		if first == nil {
			first = in.inputs[i].check(ctx, value, check{checks: checks, most: in.most, source: in.source, asker: who})
		}
	}
	if err == nil {
		_, err = dec.ReadToken() // the brace
	}
	if err == nil {
		if _, err = dec.ReadToken(); errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		return notAnObject("must be valid JSON: " + clip(strings.TrimPrefix(err.Error(), "jsontext: "), maxActual))
	}
	return cmp.Or(in.missing(given), first)
}

// CheckMembers is [Inputs.Check] for the members of arguments that are known to be
// a JSON object.
func (in *Inputs) CheckMembers(args []rawobject.Member) *run.Failure {
	return in.checkMembers(context.Background(), asker{}, args, new(Checks))
}

func (in *Inputs) checkMembers(ctx context.Context, who asker, args []rawobject.Member, checks *Checks) *run.Failure {
	var few [64]bool // without an allocation
	given := in.each(few[:])
	var first *run.Failure // of the arguments at fault
	for _, m := range args {
		i, known := in.find(m.Name)
		if !known {
			continue
		}
		given[i] = true
		if first == nil {
			first = in.inputs[i].check(ctx, m.Value, check{checks: checks, most: in.most, source: in.source, asker: who})
		}
	}
	return cmp.Or(in.missing(given), first)
}

// each is room for a word on each input: few, if that will do.
func (in *Inputs) each(few []bool) []bool {
	if len(in.inputs) > len(few) {
		return make([]bool, len(in.inputs))
	}
	return few
}

// missing is the error of the first required input that was not given.
func (in *Inputs) missing(given []bool) *run.Failure {
	for i := range in.inputs {
		if in.inputs[i].required && !given[i] {
			return in.inputs[i].fault(run.Required, "", "is required")
		}
	}
	return nil
}

// find returns the input that a raw member name names.
func (in *Inputs) find(raw jsontext.Value) (int, bool) {
	name := raw[1 : len(raw)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		unquoted, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return 0, false
		}
		name = unquoted
	}
	return in.named(name)
}

// named returns the input of a name.
func (in *Inputs) named(name []byte) (int, bool) {
	if in.byName != nil {
		i, ok := in.byName[string(name)]
		return i, ok
	}
	for i := range in.inputs {
		if in.inputs[i].name == string(name) {
			return i, true
		}
	}
	return 0, false
}

func (p *input) check(ctx context.Context, value jsontext.Value, c check) *run.Failure {
	if p.types != 0 && !p.types.include(value) {
		advice := ""
		if value.Kind() == 'n' && !p.required {
			advice = "; leave it out if there is no value"
		}
		given := withArticle(typeName(value))
		if p.types&typeNumber == 0 && value.Kind() == '0' && p.types&typeInteger != 0 {
			given = clip(string(value), 40)
		}
		return p.fault(run.WrongType, "", "must be "+withArticle(p.types.names()...)+", not "+given+advice)
	}
	if p.schema == nil {
		return nil
	}
	defer c.end()
	if !c.checks.spend(stepsPerByte*float64(len(value)), c.most) {
		return p.tooMuch(c.most)
	}
	if !c.takeTurn(ctx, 0) {
		return noTurn(ctx)
	}
	decoded, flaw := readJSON(value, argumentBounds)
	if flaw != nil {
		return p.fault(run.WrongSchema, flaw.Path, flaw.Message)
	}
	var first *finding
	schema, err := p.schema.get(ctx, &c)
	switch {
	case err != nil && ctx.Err() != nil:
		return noTurn(ctx)
	case err == nil:
		visits, steps := schema.cost(decoded)
		if visits > maxVisits || schema.unique && longestArray(decoded) > maxUnique {
			return p.fault(run.WrongSchema, "", fmt.Sprintf("is too large, or too deeply nested, to be checked against its schema: "+
				"%d times may a subschema be applied to a value in it, and %d items be compared with each other", maxVisits, maxUnique))
		}
		if !c.checks.spend(steps, c.most) {
			return p.tooMuch(c.most)
		}
		if !c.takeTurn(ctx, 0) {
			return noTurn(ctx)
		}
		first, err = schema.validate(decoded)
	}
	if err != nil {
		e := p.fault(run.WrongSchema, "", "can't be checked against its schema")
		e.Cause = err
		return e
	}
	if first == nil {
		return nil
	}
	return p.fault(run.WrongSchema, pointer(first.path), first.sentence(decoded))
}

// tooMuch is the error of an argument that takes more to check than is left to the request.
func (p *input) tooMuch(most int64) *run.Failure {
	e := p.fault(run.OverLimit, "", fmt.Sprintf("would take too much work to be checked against its schema, together with what else the request has to be checked: "+
		"send smaller arguments, or the calls of a batch by themselves (limits argument_complexity: %d)", most))
	e.Limit = limitOf("argument_complexity", most)
	return e
}

// fault makes the error of an argument. The path is relative to its value.
func (p *input) fault(reason run.Reason, path, problem string) *run.Failure {
	subject := fmt.Sprintf("argument %q", clip(p.name, maxActual))
	path = clip(pointer([]string{p.name})+path, maxPath)
	if path != pointer([]string{p.name}) {
		subject += ": " + path
	}
	return argumentError(run.Argument{Field: run.FieldInput, Name: clip(p.name, maxActual), Pointer: path, Reason: reason}, subject+" "+problem)
}

func notAnObject(problem string) *run.Failure {
	return argumentError(run.Argument{Reason: run.WrongType}, "the arguments "+problem)
}

func argumentError(a run.Argument, message string) *run.Failure {
	return &run.Failure{
		Kind: run.InvalidArguments, Message: message, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo, Argument: &a,
	}
}

// sentence says what a value must be, and what it is, as the end of a sentence.
func (f finding) sentence(document any) string {
	message, expected := explain(f.kind)
	switch k := f.kind.(type) {
	case *kind.Required:
		return message
	case *kind.Type:
		return message + ", not " + withArticle(k.Got)
	case *kind.Enum, *kind.Const:
		message += " (" + clip(string(expected), maxActual) + ")"
	}
	switch v := lookup(document, f.path).(type) {
	case nil, []any, map[string]any:
		return clip(message, maxMessage)
	default:
		return clip(message, maxMessage) + ", not " + clip(string(actual(v)), 64)
	}
}

// typeSet is a set of JSON Schema's types. The empty set means that any will do.
type typeSet uint8

const (
	typeNull typeSet = 1 << iota
	typeBoolean
	typeInteger
	typeNumber
	typeString
	typeArray
	typeObject
)

// typeNames are the names of the types, in the order of their bits.
var typeNames = []string{"null", "boolean", "integer", "number", "string", "array", "object"}

// typesNamed returns the type with a name; none for names that JSON Schema does not have.
func typesNamed(name string) typeSet {
	for i, n := range typeNames {
		if n == name {
			return 1 << i
		}
	}
	return 0
}

// typesOf reads the keyword "type" of a schema that readJSON returned.
func typesOf(keyword any) typeSet {
	switch keyword := keyword.(type) {
	case string:
		return typesNamed(keyword)
	case []any:
		var set typeSet
		for _, name := range keyword {
			if name, ok := name.(string); ok {
				set |= typesNamed(name)
			}
		}
		return set
	default:
		return 0
	}
}

func (t typeSet) names() []string {
	var names []string
	for i, n := range typeNames {
		if t&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}

func (t typeSet) include(value jsontext.Value) bool {
	if t&typesNamed(typeName(value)) != 0 {
		return true
	}
	return t&typeInteger != 0 && value.Kind() == '0' && isInteger(string(value))
}

// typeName returns the JSON type of a raw value.
func typeName(value jsontext.Value) string {
	switch value.Kind() {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '0':
		return "number"
	case '"':
		return "string"
	case '[':
		return "array"
	default:
		return "object"
	}
}
