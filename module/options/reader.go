// Package options reads Caddyfile blocks in which each line is an option with its values. All
// modules of the project use it, so that unknown options, repeated options and invalid values
// are errors of the same form, with file and line.
//
//	func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
//		r := options.NewReader(d)
//		if err := r.Block("cache", "cache", r.Of(h, nil)); err != nil {
//			return err
//		}
//		if fault := h.check(); fault != nil {
//			return r.At(fault.Path, fault.Err)
//		}
//		return nil
//	}
//
// The reader checks only the syntax. Values, and combinations of values, are checked in the
// JSON config; for the JSON path in the error of that check, [Reader.At] adds file and line.
package options

import (
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
)

// Reader reads the Caddyfile segment of one module.
type Reader struct {
	*caddyfile.Dispenser
	lines map[string]*caddyfile.Dispenser // the line with the value of each JSON path
	// Places says where options belong that are often written in the block of the module itself. May be nil.
	Places map[string]string
}

// NewReader returns a reader whose current token is the module's name.
func NewReader(d *caddyfile.Dispenser) *Reader {
	d.Next()
	r := &Reader{Dispenser: d, lines: make(map[string]*caddyfile.Dispenser)}
	r.Mark("")
	return r
}

// Targets has the options of a block with the variables for their values. The type of the
// variable says which values an option takes:
//
//	*bool                      no value
//	*string                    one value that is not empty
//	*int                       a number of at least 1
//	*int64                     a size of at least 1B
//	*caddy.Duration            a duration that is longer than 0
//	**caddy.Duration           a duration; 0 is not the default
//	*[]string                  any number of values; the option may be repeated
//	func() error, Repeatable,  the values that the function reads
//	Single
//	func() Targets             no value, and a block with these options
type Targets map[string]any

// Repeatable reads an option that may be given several times.
type Repeatable func() error

// Single reads an option that may be given once. Again says what to write instead of a second one.
type Single struct {
	Read  func() error
	Again string
}

// The types of blocks may say themselves what is written there: the whole option, or the options of the block.
type (
	reads   interface{ Read(r *Reader) error }
	targets interface{ Targets(r *Reader) Targets }
)

// Of returns the options that are the fields of a structure, by their names in JSON. As in [Targets], the type of a field says which values the option takes; a
// pointer to a structure is a block, unless that has a method Read, which reads the option, or Targets. The fields of embedded structures are options, too. Fields of
// other types, and those with the tag option:"-", which are arguments of other options, are none. own are further options, or are instead of these; nil: there is none.
func (r *Reader) Of(block any, own Targets) Targets {
	all := Targets{}
	for field, value := range reflect.ValueOf(block).Elem().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || name == "-" || field.Tag.Get("option") == "-" {
			continue
		}
		if field.Anonymous && name == "" {
			maps.Copy(all, r.in(value.Addr().Interface()))
			continue
		}
		switch to := value.Addr().Interface().(type) {
		case *bool, *int, *int64, *caddy.Duration, **caddy.Duration, *[]string:
			all[name] = to
		default:
			switch t := value.Type(); {
			case t.Kind() == reflect.String:
				all[name] = value.Addr().Convert(reflect.TypeFor[*string]()).Interface()
			case t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct:
				made := func() any {
					value.Set(reflect.New(t.Elem()))
					return value.Interface()
				}
				all[name] = func() Targets { return r.in(made()) }
				if t.Implements(reflect.TypeFor[reads]()) {
					all[name] = func() error { return made().(reads).Read(r) }
				}
			}
		}
	}
	maps.Copy(all, own)
	maps.DeleteFunc(all, func(_ string, target any) bool { return target == nil })
	return all
}

// BlockWith reads the arguments of an option, of which the first least are required, and its block, whose options are those of [Reader.Of]. takes describes the arguments in
// errors, and path is that of the values in JSON.
func (r *Reader) BlockWith(name, path, takes string, least int, block any, own Targets, args ...any) error {
	if err := r.Args(name, takes, least, args...); err != nil {
		return err
	}
	return r.Block(name, path, r.Of(block, own))
}

// in returns the options of a block.
func (r *Reader) in(block any) Targets {
	if own, ok := block.(targets); ok {
		return own.Targets(r)
	}
	return r.Of(block, nil)
}

// Block reads a block, if there is one. Owner is the block's name in errors. Path is the
// JSON path of its values; "" is the config itself.
func (r *Reader) Block(owner, path string, targets Targets) error {
	written := make(map[string]int) // the line of each option
	for nesting := r.Nesting(); r.NextBlock(nesting); {
		name := r.Val()
		target, ok := targets[name]
		switch {
		case !ok && (name == "{" || name == "}"):
			return r.Errf("unexpected %q: the option before it takes no block", name)
		case !ok:
			if place := r.Places[name]; path == "" && place != "" {
				return r.Errf("%s is no option of %s: it belongs %s", name, owner, place)
			}
			return r.unknown(owner, name, slices.Sorted(maps.Keys(targets)))
		case written[name] != 0 && !repeatable(target):
			again := ""
			if single, ok := target.(Single); ok {
				again = ": " + single.Again
			}
			return r.Errf("%s is given twice for %s, first at line %d%s", name, owner, written[name], again)
		}
		written[name] = r.Line()
		at := strings.TrimPrefix(path+"."+name, ".")
		if _, repeated := target.(Repeatable); !repeated || r.lines[at] == nil { // a repeatable option marks what it reads
			r.Mark(at)
		}
		if err := r.option(name, at, target); err != nil {
			return err
		}
	}
	return nil
}

// unknown returns the error about an option that a block does not have, and names the most similar one.
func (r *Reader) unknown(owner, name string, known []string) error {
	hint := ""
	if similar := near.Find(name, near.NewIndex(known)); len(similar) > 0 {
		hint = "; did you mean " + similar[0] + "?"
	}
	return r.Errf("unknown option %q of %s: it has %s%s", name, owner, strings.Join(known, ", "), hint)
}

func repeatable(target any) bool {
	switch target.(type) {
	case *[]string, Repeatable:
		return true
	}
	return false
}

func (r *Reader) option(name, path string, target any) error {
	switch to := target.(type) {
	case func() error:
		return to()
	case Repeatable:
		return to()
	case Single:
		return to.Read()
	case func() Targets:
		if err := r.NoArgs(); err != nil {
			return err
		}
		return r.Block(name, path, to())
	case *bool:
		*to = true
		return r.NoArgs()
	case *[]string:
		return r.Each("value", func(value string) error {
			r.Mark(Element(path, len(*to)))
			*to = append(*to, value)
			return nil
		})
	case *int:
		return r.Args(name, "a number", 1, to)
	case *int64:
		return r.Args(name, "a size, such as 10MiB", 1, to)
	case *caddy.Duration, **caddy.Duration:
		return r.Args(name, "a duration, such as 30s", 1, to)
	}
	return r.Args(name, "one value", 1, target)
}

// NoArgs refuses an argument.
func (r *Reader) NoArgs() error {
	name := r.Val()
	if r.NextArg() {
		return r.Errf("%s takes no argument, but has %q", name, r.Val())
	}
	return nil
}

// Args reads arguments into single-valued targets. The first least arguments are required, the
// others optional. Name is the option, and what describes its arguments, both for errors.
func (r *Reader) Args(name, what string, least int, targets ...any) error {
	args := r.RemainingArgs()
	switch {
	case len(args) == 0 && least > 0:
		line := r.line()
		if r.NextBlock(r.Nesting()) {
			what += " before its block"
		}
		return line.Errf("%s takes %s (arguments given: 0%s)", name, what, emptyVariable)
	case len(args) < least || len(args) > len(targets):
		return r.Errf("%s takes %s (arguments given: %d)", name, what, len(args))
	case slices.Contains(args, ""):
		return r.Errf("%s has an empty argument; it takes %s%s", name, what, emptyVariable)
	}
	for i, target := range targets[:len(args)] {
		if err := set(target, name, args[i]); err != nil {
			return r.WrapErr(err)
		}
	}
	return nil
}

// emptyVariable explains an argument that is missing although one is written: Caddy replaces {$NAME} before it reads the line.
const emptyVariable = "; {$NAME} is nothing if the environment variable is not set"

// Each reads at least one argument and passes each to a function.
func (r *Reader) Each(what string, read func(arg string) error) error {
	name := r.Val()
	args := r.RemainingArgs()
	if len(args) == 0 {
		return r.Errf("%s takes at least one %s (arguments given: 0%s)", name, what, emptyVariable)
	}
	for _, arg := range args {
		if arg == "" {
			return r.Errf("%s has an empty %s", name, what)
		}
		if err := read(arg); err != nil {
			return r.WrapErr(err)
		}
	}
	return nil
}

// Mark records that this line has the value of a JSON path.
func (r *Reader) Mark(path string) { r.lines[path] = r.line() }

// line returns a dispenser that stays at this line, for errors about it.
func (r *Reader) line() *caddyfile.Dispenser {
	line := caddyfile.NewDispenser([]caddyfile.Token{r.Token()})
	line.Next()
	return line
}

// At adds file and line to an error that is not nil: the line of the value with a JSON path,
// or else the line of the object that contains the value.
func (r *Reader) At(path string, err error) error {
	for err != nil {
		if line, ok := r.lines[path]; ok {
			return line.WrapErr(err)
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return nil
}

// Module returns a function that reads an option with a guest module of a namespace. Its configuration is JSON, with the name of the module as the
// member key. which says what the option takes.
func (r *Reader) Module(namespace, key, which string, to *json.RawMessage) func() error {
	return func() error {
		option := r.Val()
		if !r.NextArg() {
			return r.Errf("%s takes %s", option, which)
		}
		name := r.Val()
		if _, err := caddy.GetModule(namespace + "." + name); err != nil {
			var names []string
			for _, m := range caddy.GetModules(namespace) {
				names = append(names, m.ID.Name())
			}
			return r.Errf("%s %q: no such module; there are %s", option, name, strings.Join(names, ", "))
		}
		module, err := caddyfile.UnmarshalModule(r.Dispenser, namespace+"."+name)
		if err != nil {
			return err
		}
		var warnings []caddyconfig.Warning
		*to = caddyconfig.JSONModuleObject(module, key, name, &warnings)
		if len(warnings) > 0 {
			return r.Errf("%s: %s", name, warnings[0].Message)
		}
		return nil
	}
}

// set parses one value. Its errors contain the value, unless it is a text, which may be a secret.
func set(target any, name, text string) error {
	switch to := target.(type) {
	case *string:
		*to = text
		return nil
	case *int:
		return setNumber(to, name, text)
	case *int64:
		return setSize(to, name, text)
	case *caddy.Duration:
		d, err := parseDuration(name, text)
		if err == nil && d <= 0 {
			err = fmt.Errorf("%s %q has to be longer than 0", name, text)
		}
		*to = d
		return err
	case **caddy.Duration:
		d, err := parseDuration(name, text)
		*to = &d
		return err
	}
	return fmt.Errorf("%s: values of type %T are not supported", name, target)
}

func setNumber(to *int, name, text string) (err error) {
	*to, err = strconv.Atoi(text)
	switch {
	case errors.Is(err, strconv.ErrRange) && *to > 0:
		return fmt.Errorf("%s %q is too large", name, text)
	case err != nil || *to < 1:
		return fmt.Errorf("%s %q is not a number of at least 1", name, text)
	}
	return nil
}

func setSize(to *int64, name, text string) error {
	size, err := humanize.ParseBytes(text)
	switch {
	case err != nil || size > math.MaxInt64:
		return fmt.Errorf("%s %q is not a size of less than 8EiB, such as 10MiB", name, text)
	case size == 0:
		return fmt.Errorf("%s %q is too small: the minimum is 1B", name, text)
	}
	*to = int64(size)
	return nil
}

// Shown is a duration in errors, as an operator writes it: in days if it has several, and no part of one.
type Shown time.Duration

func (d Shown) String() string {
	const day = 24 * time.Hour
	if whole := time.Duration(d); whole > day && whole%day == 0 {
		return strconv.Itoa(int(whole/day)) + "d"
	}
	return time.Duration(d).String()
}

func parseDuration(name, text string) (caddy.Duration, error) {
	d, err := caddy.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s %q is not a duration, such as 500ms, 30s, 10m or 7d: the units are ns, us, ms, s, m, h and d", name, text)
	}
	return caddy.Duration(d), nil
}
