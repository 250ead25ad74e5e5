package inputs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema/modern"
	"github.com/skill-bridge/caddy-skill-bridge/translate/strictjson"
)

// Inputs checks arguments against the inputs of a descriptor. It is immutable
// and safe for concurrent use.
type Inputs struct {
	source string // of the descriptor
	inputs []input
	byName map[string]int
	// byModelName has the inputs that have other names in [InputSchema]; nil: none.
	byModelName map[string]int
}

type input struct {
	name     string // of its own; in failures the one that the caller knows it by
	model    string // in [InputSchema], if it is another one
	required bool   // and without a default
	types    jsonvalue.TypeSet
	schema   *schema.Schema // nil: there is none that the bridge can check
}

// New compiles the schemas of the parameters, as [jsonvalue.Read] returned them. A schema that is
// invalid, too large, too complex, or refers to anything outside of itself is a violation. Schemas of older drafts are replaced with such of Draft 2020-12, also in params. A schema with regular expressions that can't be evaluated
// in linear time, such as lookaround, is not applied: the provider has to.
func New(l *document.Limits, params []document.Parameter, schemas []any) (*Inputs, jsonvalue.Violations) {
	in := &Inputs{source: l.Owner, inputs: make([]input, len(params)), byName: make(map[string]int, len(params))}
	names := ModelNames(params)
	if names != nil {
		in.byModelName = make(map[string]int, len(names))
	}
	compiler := schema.NewCompiler(l.OfSchemas())
	var found jsonvalue.Violations
	for i := range params {
		if len(found) > jsonvalue.MaxViolations {
			break
		}
		p, own, path := &params[i], &in.inputs[i], "/inputs/"+strconv.Itoa(i)
		in.byName[p.Name] = i
		*own = input{name: p.Name, model: names[i], required: p.Required && p.Default == nil, types: jsonvalue.TypesNamed(p.Type)}
		if own.model != "" {
			in.byModelName[own.model] = i
		}
		if p.Schema == nil {
			continue
		}
		object, ok := schemas[i].(map[string]any)
		if !ok {
			found.Add(path+"/schema", "must be an object", "object", schemas[i])
			continue
		}
		compiled, flaws := modern.Compile(compiler, &p.Schema, &object, p.Type, path+"/schema")
		found = append(found, flaws...)
		own.schema = compiled
		if kind, stated := object["type"]; stated {
			own.types = jsonvalue.TypesOf(kind)
		}
	}
	return in, found
}

// Check checks the arguments of a call; no arguments count as {}. Required inputs
// without a default must be present. Values must have the declared type, if it is a
// JSON type, and match the parameter's schema; a type in the schema replaces the declared
// type. Arguments that the descriptor does not define are valid.
//
// A failure names an input as the caller did, by its own name or that in [InputSchema], and one that is missing as the caller names others.
// The failure is about the first required input that is missing, in the order of the descriptor; if none
// is missing, about the first invalid argument; or about all arguments, if they are not an object. It is
// also nil if the context ends before the arguments were checked. checks counts the work; nil: this is the only check of the request. Long checks wait
// for turns, which the skills and principals of a source get in rotation.
func (in *Inputs) Check(ctx context.Context, who share.Line, arguments jsonrpc.Object, checks *Checks) *run.Failure {
	given, first, broken := in.check(ctx, who, arguments, checks)
	if broken != nil {
		return broken
	}
	for i := range in.inputs {
		if in.inputs[i].required && given[i] == notGiven {
			return about(in.as(i, in.usual(given)).fault(run.Required, "", "is required"), jsonvalue.Quoted("required"), jsonvalue.Quoted("missing"))
		}
	}
	return first
}

// CheckGiven is [Inputs.Check] without the failure of a required input that is missing. The names of those are missing, in
// the order of the descriptor; they are only complete if the arguments are an object.
func (in *Inputs) CheckGiven(ctx context.Context, who share.Line, arguments jsonrpc.Object, checks *Checks) (missing []string, invalid *run.Failure) {
	given, first, broken := in.check(ctx, who, arguments, checks)
	for i := range in.inputs {
		if in.inputs[i].required && given[i] == notGiven {
			missing = append(missing, in.as(i, in.usual(given)).name)
		}
	}
	return missing, cmp.Or(broken, first)
}

// Unknown returns the names of arguments that the descriptor does not define, at most most, each at most 64 bytes and an ellipsis.
func (in *Inputs) Unknown(arguments []jsonrpc.Member, most int) (names []string) {
	for _, m := range arguments {
		if len(names) == most {
			break
		}
		if _, named := in.find(m.Name); named == notGiven {
			names = append(names, safetext.Clip(string(jsonrpc.Unquote(m.Name)), maxUnknownName))
		}
	}
	return names
}

const maxUnknownName = 64 // bytes

// check checks the arguments that are given, and returns which are. first is the failure of the first invalid one, and broken that of arguments that
// are not an object.
func (in *Inputs) check(ctx context.Context, who share.Line, arguments jsonrpc.Object, checks *Checks) (given []naming, first, broken *run.Failure) {
	if checks == nil {
		checks = new(Checks)
	}
	given = make([]naming, len(in.inputs))
	one := func(name, value jsontext.Value) {
		i, named := in.find(name)
		if named == notGiven {
			return
		}
		given[i] = named
		if first == nil {
			first = in.as(i, named).check(ctx, value, check{checks: checks, source: in.source, asker: who})
		}
	}
	if arguments.Members == nil {
		return given, first, eachArgument(arguments.Text, one)
	}
	for _, m := range arguments.Members {
		one(m.Name, m.Value)
	}
	return given, first, nil
}

// eachArgument calls a function for each member of a text, and returns the failure if it is not an object.
func eachArgument(arguments jsontext.Value, each func(name, value jsontext.Value)) *run.Failure {
	if len(arguments) == 0 {
		return nil
	}
	if name := jsonvalue.TypeName(arguments); name != "object" {
		return notAnObject("must be an object, not " + jsonvalue.WithArticle(name))
	}
	if err := strictjson.Fault(arguments, true); err != nil {
		return notAnObject("must be valid JSON: " + safetext.Clip(strings.TrimPrefix(err.Error(), "jsontext: "), jsonvalue.MaxActual))
	}
	for name, value := range jsonrpc.Members(arguments) {
		each(name, value)
	}
	return nil
}

// find returns the input with a name, which is a JSON string: one of its own or, if there is none, in [InputSchema].
func (in *Inputs) find(raw jsontext.Value) (int, naming) {
	name := jsonrpc.Unquote(raw)
	if i, ok := in.byName[string(name)]; ok {
		return i, byOwnName
	}
	if i, ok := in.byModelName[string(name)]; ok {
		return i, byModelName
	}
	return 0, notGiven
}

func (p *input) check(ctx context.Context, value jsontext.Value, c check) *run.Failure {
	if p.types != 0 && !p.types.Include(value) {
		advice := ""
		if value.Kind() == 'n' && !p.required {
			advice = "; leave it out if there is no value"
		}
		given := jsonvalue.WithArticle(jsonvalue.TypeName(value))
		if p.types&jsonvalue.TypeNumber == 0 && value.Kind() == '0' && p.types&jsonvalue.TypeInteger != 0 {
			given = safetext.Clip(string(value), 40)
		}
		return about(p.fault(run.WrongType, "", "must be "+jsonvalue.WithArticle(p.types.Names()...)+", not "+given+advice), jsonvalue.Marshal(p.types.Names()), jsonvalue.Quoted(jsonvalue.TypeName(value)))
	}
	if p.schema == nil {
		return nil
	}
	defer c.end()
	if !c.checks.spend(stepsPerByte * float64(len(value))) {
		return p.tooMuch()
	}
	if !c.takeTurn(ctx, 0) {
		return noTurn(ctx)
	}
	if p.schema.Accepts(value) {
		return nil
	}
	decoded, flaw := jsonvalue.Read(value, schema.ArgumentBounds)
	if flaw != nil {
		return p.fault(run.WrongSchema, flaw.Path, flaw.Message)
	}
	var first *schema.Finding
	var err error
	compiled := p.schema.Ready()
	if compiled == nil {
		if !c.takeTurn(ctx, p.schema.Effort) { // before the lock: checks that have a turn may be waiting for it
			return noTurn(ctx)
		}
		compiled, err = p.schema.CompileAgain()
	}
	if err == nil {
		visits, steps := compiled.Cost(decoded)
		if visits > schema.MaxVisits {
			return p.fault(run.WrongSchema, "", fmt.Sprintf("is too large or too deeply nested to check against its schema: "+
				"at most %d applications of subschemas to its values and %d comparisons of items are allowed", schema.MaxVisits, schema.MaxUnique))
		}
		if !c.checks.spend(steps) {
			return p.tooMuch()
		}
		if !c.takeTurn(ctx, 0) {
			return noTurn(ctx)
		}
		first, err = compiled.Validate(decoded)
	}
	if err != nil {
		e := p.fault(run.WrongSchema, "", "can't be checked against its schema")
		e.Cause = err
		return e
	}
	if first == nil {
		return nil
	}
	v := first.Violation(decoded, "")
	return about(p.fault(run.WrongSchema, v.Path, first.Sentence(decoded)), v.Expected, v.Actual)
}

// tooMuch returns the failure of an argument whose check exceeds the remaining work of the request.
func (p *input) tooMuch() *run.Failure {
	e := p.fault(run.OverLimit, "", "would take too much work to check against its schema, together with the other arguments of the request: send smaller arguments")
	e.Limit = &run.Limit{Name: "argument_complexity", Max: schema.MaxSteps}
	return e
}

// fault returns the failure of an argument. The path is relative to its value.
func (p *input) fault(reason run.Reason, path, problem string) *run.Failure {
	subject := fmt.Sprintf("argument %q", safetext.Clip(p.name, jsonvalue.MaxActual))
	path = safetext.Clip(jsonvalue.Pointer([]string{p.name})+path, jsonvalue.MaxPath)
	if path != jsonvalue.Pointer([]string{p.name}) {
		subject += ": " + path
	}
	return run.WrongArgument(run.Argument{Field: run.FieldInput, Name: safetext.Clip(p.name, jsonvalue.MaxActual), Pointer: path, Reason: reason}, subject+" "+problem)
}

// about adds to the failure of an argument what was expected and what is there.
func about(f *run.Failure, expected, actual jsontext.Value) *run.Failure {
	f.Argument.Expected, f.Argument.Actual = expected, actual
	return f
}

func notAnObject(problem string) *run.Failure {
	return run.WrongArgument(run.Argument{Reason: run.WrongType}, "the arguments "+problem)
}

// Checks counts the work of checking arguments for one request so far, in steps of about
// 10 ns. Several calls may share the request. The zero value is ready for use.
type Checks struct{ steps atomic.Int64 }

// spend adds steps to the work of the request. If the sum exceeds [schema.MaxSteps], it adds nothing and
// reports false.
func (c *Checks) spend(steps float64) bool {
	if steps > schema.MaxSteps {
		return false
	}
	if c.steps.Add(int64(steps)) > schema.MaxSteps {
		c.steps.Add(-int64(steps))
		return false
	}
	return true
}

const (
	// stepsPerByte is how many steps it takes to read one byte of an argument.
	stepsPerByte = 5
	// costly is how many steps a request may take without waiting for a turn.
	// Checking 64 KiB against an ordinary schema takes about a tenth of it.
	costly = 10_000_000
)

// check is the check of one argument.
type check struct {
	checks  *Checks
	source  string // of the descriptor
	asker   share.Line
	hasTurn bool
}

// takeTurn waits for a turn if the spent steps and more steps exceed costly. It reports
// false if the call has ended before.
func (c *check) takeTurn(ctx context.Context, more int) bool {
	if !c.hasTurn && c.checks.steps.Load()+int64(more) > costly {
		// Copies, so that check does not escape to the heap if it needs no turn.
		c.hasTurn = checkTurns.Take(ctx, strings.Clone(c.source), share.Line{Principal: strings.Clone(c.asker.Principal), SkillID: strings.Clone(c.asker.SkillID)})
		return c.hasTurn
	}
	return true
}

func (c *check) end() {
	if c.hasTurn {
		checkTurns.End(c.source)
	}
}

// noTurn returns the failure of a call whose deadline passed before its arguments were
// checked; nil: the call has ended for another reason, which the caller of Check reports.
func noTurn(ctx context.Context) *run.Failure {
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return nil
	}
	return run.Busy(run.PhaseInvoke, "The deadline passed before the arguments could be checked: their check takes long, and the bridge was busy with others; try again later, or with smaller arguments.")
}

// checkTurns limits how many long checks run at a time. They take up to a second each and can't be interrupted.
var checkTurns = share.NewQueue(max(2, runtime.GOMAXPROCS(0)/2))
