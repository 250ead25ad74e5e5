package schema

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxPattern is the longest regular expression, in bytes.
const maxPattern = 4096

// patternEngine compiles the regular expressions of a schema with package
// regexp, which takes linear time, but does not support lookaround and
// backreferences.
type patternEngine struct {
	effort      *effort
	known       map[string]compiledPattern
	unsupported bool // there was an expression that only other engines support
}

// bytes returns the memory of the expressions.
func (e *patternEngine) bytes() (n int) {
	for _, p := range e.known {
		n += p.bytes
	}
	return n
}

type compiledPattern struct {
	pattern
	err error
}

// pattern is a compiled regular expression.
type pattern struct {
	*regexp.Regexp
	expression   string // as written in the schema
	instructions int
	bytes        int // of memory, at most
}

func (p pattern) String() string { return p.expression }

var errPatterns = errors.New("it is too complex, or all patterns of the descriptor together are (limits schema_complexity)")

// anything replaces an expression that can't be evaluated.
var anything = pattern{Regexp: regexp.MustCompile(""), instructions: 1, bytes: 512}

// Compile is a jsonschema.RegexpEngine.
func (e *patternEngine) Compile(expression string) (jsonschema.Regexp, error) {
	known, ok := e.known[expression]
	if !ok {
		known.pattern, known.err = e.compileNew(expression)
		e.known[expression] = known
	}
	if known.err != nil {
		return nil, known.err
	}
	return known.pattern, nil
}

// The work of compiling expressions, in steps.
const (
	stepsPerPattern     = 300
	stepsPerPatternByte = 25
	stepsPerInstruction = 10
	stepsPerOnePass     = 20 // of an instruction, in addition
	// A Unicode class has hundreds of ranges. If there are several classes
	// together, their ranges are sorted.
	stepsPerClass          = 4500
	stepsPerClassAndOthers = 150
	mostOthers             = 80
	// If case is ignored, a short text can stand for a class with many ranges. Each
	// character of a range is folded, which takes a step.
	stepsPerFoldedByte = 120
)

// parsing estimates the steps of parsing an expression twice.
func parsing(expression string) int {
	steps := stepsPerPattern + len(expression)*stepsPerPatternByte
	classes := strings.Count(expression, `\p`) + strings.Count(expression, `\P`)
	steps += classes * (stepsPerClass + stepsPerClassAndOthers*min(classes, mostOthers))
	if !folds(expression) {
		return steps
	}
	steps += len(expression) * stepsPerFoldedByte
	for rest := expression; ; {
		before, after, found := strings.Cut(rest, "-")
		if !found {
			break
		}
		rest = after
		first, _ := utf8.DecodeLastRuneInString(before)
		last, _ := utf8.DecodeRuneInString(after)
		if strings.HasPrefix(after, `\x{`) {
			last = utf8.MaxRune
		}
		steps += max(0, int(last-first))
	}
	return steps
}

// folds reports whether a part of an expression may ignore case.
func folds(expression string) bool {
	for rest := expression; ; {
		_, after, found := strings.Cut(rest, "(?")
		if !found {
			return false
		}
		rest = after
		if end := strings.IndexAny(rest, ":)"); strings.Contains(rest[:max(end, 0)], "i") {
			return true
		}
	}
}

func (e *patternEngine) compileNew(expression string) (pattern, error) {
	if len(expression) > maxPattern {
		return pattern{}, fmt.Errorf("it has more than %d bytes", maxPattern)
	}
	if e.effort.spend(parsing(expression)) != nil {
		return pattern{}, errPatterns
	}
	tree, err := syntax.Parse(expression, syntax.Perl)
	if bad, ok := errors.AsType[*syntax.Error](err); ok && onlyElsewhere[bad.Code] {
		e.unsupported = true
		return anything, nil
	}
	if err != nil {
		return pattern{}, err
	}
	size := sizeOf(tree)
	size.instructions += 2 // a failure and the match
	if size.instructions > maxInstructions || e.effort.spend(size.instructions*stepsPerInstruction) != nil {
		return pattern{}, errPatterns
	}
	p := pattern{expression: expression, instructions: size.instructions, bytes: patternBytes + len(expression) + size.bytes()}
	switch onePass := size.onePassBytes(); {
	case !strings.Contains(expression, "^") && !strings.Contains(expression, `\A`):
	case onePass <= maxOnePass:
		p.bytes += onePass
		if e.effort.spend(size.instructions*stepsPerOnePass) != nil {
			return pattern{}, errPatterns
		}
	default:
		// If an expression begins with ^, package regexp copies each character class into the
		// instructions that match it. If the ^ is in a group, it does not.
		expression = "(" + expression + ")"
	}
	p.Regexp, err = regexp.Compile(expression)
	return p, err
}

const (
	// maxInstructions bounds one expression, since matching takes memory for each
	// instruction.
	maxInstructions = 20_000
	// maxOnePass is the memory that an expression may take to be matched in one pass.
	maxOnePass = 32 << 10
)

// patternSize is an upper bound of the size of a compiled expression.
type patternSize struct {
	instructions int
	runes        int // in classes and literals, which instructions share
}

// The memory of a compiled expression, in bytes.
const (
	patternBytes     = 512
	instructionBytes = 40
	onePassBytes     = instructionBytes + 24
)

func (s patternSize) bytes() int { return s.instructions*instructionBytes + 4*s.runes }

// onePassBytes is the memory of a program in which each instruction has its own
// ranges and, for each of these, the next instruction.
func (s patternSize) onePassBytes() int { return s.instructions * (onePassBytes + 6*s.runes) }

// sizeOf returns the size of the program for an expression, in which repeated
// parts are copied, before it is made. A result above maxInstructions is not
// exact.
func sizeOf(tree *syntax.Regexp) patternSize {
	size := patternSize{0, len(tree.Rune)}
	for _, sub := range tree.Sub {
		s := sizeOf(sub)
		size.instructions += s.instructions
		size.runes += s.runes
	}
	switch tree.Op {
	case syntax.OpLiteral:
		size.instructions += len(tree.Rune)
	case syntax.OpRepeat:
		size.instructions = (size.instructions+1)*max(tree.Min, tree.Max, 1) + 1
	case syntax.OpConcat, syntax.OpAlternate:
		size.instructions += len(tree.Sub)
	case syntax.OpCapture:
		size.instructions += 2
	default:
		size.instructions++
	}
	size.instructions = min(size.instructions, 2*maxInstructions)
	return size
}

// onlyElsewhere are the errors of package regexp/syntax for expressions that
// ECMA-262 may allow: lookaround, backreferences, \u escapes, script classes, long
// repeats.
var onlyElsewhere = map[syntax.ErrorCode]bool{
	syntax.ErrInvalidPerlOp:     true,
	syntax.ErrInvalidEscape:     true,
	syntax.ErrInvalidCharRange:  true,
	syntax.ErrInvalidRepeatSize: true,
}
