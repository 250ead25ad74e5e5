package schema

import (
	"errors"
	"math/bits"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema/ecma"
)

// patternEngine compiles the regular expressions of a schema, which are of ECMA-262, with package
// regexp, which takes linear time, but does not support lookaround and
// back references.
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
	expression string  // as written in the schema
	steps      float64 // of about 10 ns for each byte of a text, at most
	bytes      int     // of memory, at most
}

func (p pattern) String() string { return p.expression }

var errPatterns = errors.New("it is too complex, or all patterns of the descriptor together are")

// anything replaces an expression that can't be evaluated.
var anything = pattern{Regexp: regexp.MustCompile(""), steps: stepsPerMove, bytes: 512}

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
	stepsPerPattern        = 300
	stepsPerTranslatedByte = 5
	stepsPerPatternByte    = 25
	stepsPerInstruction    = 10
	// A Unicode class has hundreds of ranges. If there are several classes
	// together, their ranges are sorted.
	stepsPerClass          = 4500
	stepsPerClassAndOthers = 150
	mostOthers             = 80
)

// parsing estimates the steps of parsing a translated expression twice.
func parsing(x ecma.Expression) int {
	return stepsPerPattern + len(x.Text)*stepsPerPatternByte +
		x.Properties*(stepsPerClass+stepsPerClassAndOthers*min(x.Properties, mostOthers))
}

func (e *patternEngine) compileNew(expression string) (pattern, error) {
	if e.effort.spend(min(len(expression), ecma.MaxBytes)*stepsPerTranslatedByte) != nil {
		return pattern{}, errPatterns
	}
	x, err := ecma.Translate(expression)
	if err != nil {
		return pattern{}, err
	}
	if e.effort.spend(parsing(x)) != nil {
		return pattern{}, errPatterns
	}
	tree, err := x.Parse()
	if tree == nil {
		e.unsupported = e.unsupported || err == nil
		return anything, err
	}
	size := sizeOf(tree)
	size = size.plus(patternSize{instructions: 2, steps: 2 * stepsPerMove}) // a failure and the match
	if steps, simple := stepsOfSimple(tree); simple {
		size.steps = min(size.steps, steps)
	}
	if size.instructions > maxInstructions {
		e.unsupported = true
		return anything, nil
	}
	if e.effort.spend(size.instructions*stepsPerInstruction) != nil {
		return pattern{}, errPatterns
	}
	p := pattern{expression: expression, steps: size.steps, bytes: patternBytes + len(expression) + size.bytes()}
	// If an expression begins with ^, package regexp copies each character class into the instructions that match it. If the ^ is in a group,
	// it does not.
	p.Regexp, err = regexp.Compile("(" + x.Text + ")")
	return p, err
}

// maxInstructions bounds one expression, since matching takes memory for each
// instruction.
const maxInstructions = 20_000

// patternSize is an upper bound of the size of a compiled expression.
type patternSize struct {
	instructions int
	runes        int     // in classes and literals, which instructions share
	steps        float64 // of matching a byte of a text
}

func (s patternSize) plus(t patternSize) patternSize {
	return patternSize{s.instructions + t.instructions, s.runes + t.runes, s.steps + t.steps}
}

// The work of matching, in steps for each instruction and byte of the text. For each byte, package regexp may take each
// instruction once: it follows it, or holds the character against it and, if that fits, adds the next ones to a list. The
// constants are a third above what was measured with texts of which each byte fits each instruction.
const (
	stepsPerMove = 0.7
	stepsPerAny  = 1.8 // a class or a literal
	stepsPerHalf = 0.2 // more, each time that the ranges of a class are halved to search them
	mostCompared = 4   // ranges of a class that are compared one by one
)

// The memory of a compiled expression, in bytes.
const (
	patternBytes     = 512
	instructionBytes = 40
)

func (s patternSize) bytes() int { return s.instructions*instructionBytes + 4*s.runes }

// sizeOf returns the size of the program for an expression, in which repeated
// parts are copied, before it is made. A result above maxInstructions is not
// exact.
func sizeOf(tree *syntax.Regexp) patternSize {
	size := patternSize{runes: len(tree.Rune)}
	for _, sub := range tree.Sub {
		size = size.plus(sizeOf(sub))
	}
	switch tree.Op {
	case syntax.OpLiteral:
		size = size.plus(instructions(len(tree.Rune), stepsPerAny))
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		size = size.plus(instructions(1, stepsOfClass(len(tree.Rune)/2)))
	case syntax.OpRepeat:
		times := max(tree.Min, tree.Max, 1)
		size.instructions = (size.instructions+1)*times + 1
		size.steps = (size.steps+stepsPerMove)*float64(times) + stepsPerMove
	case syntax.OpConcat, syntax.OpAlternate:
		size = size.plus(instructions(len(tree.Sub), stepsPerMove))
	case syntax.OpCapture:
		size = size.plus(instructions(2, stepsPerMove))
	default:
		size = size.plus(instructions(1, stepsPerMove))
	}
	size.instructions = min(size.instructions, 2*maxInstructions)
	return size
}

// instructions is the size of n instructions that take the same steps.
func instructions(n int, steps float64) patternSize {
	return patternSize{instructions: n, steps: float64(n) * steps}
}

// stepsOfSimple returns an upper bound of the steps of matching a byte, if an expression begins with ^ and is a sequence of characters of which at most
// one is repeated, as in ^[a-z ]{1,80}$. A text so far then matches in one way up to the repeat, however often it can be repeated, and besides only the
// characters after it are tried.
func stepsOfSimple(tree *syntax.Regexp) (steps float64, simple bool) {
	if tree.Op != syntax.OpConcat || tree.Sub[0].Op != syntax.OpBeginText {
		return 0, false
	}
	repeated, tried, dearest := false, 1, 0.0
	for _, sub := range tree.Sub[1:] {
		switch sub.Op {
		case syntax.OpEndText:
			continue
		case syntax.OpRepeat, syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
			if repeated {
				return 0, false
			}
			repeated, sub = true, sub.Sub[0]
		}
		characters := 1
		switch sub.Op {
		case syntax.OpLiteral:
			characters = len(sub.Rune)
			dearest = max(dearest, stepsPerAny)
		case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
			dearest = max(dearest, stepsOfClass(len(sub.Rune)/2))
		default:
			return 0, false
		}
		if repeated {
			tried += characters
		}
	}
	return (dearest + 3*stepsPerMove) * float64(tried), true
}

func stepsOfClass(ranges int) float64 {
	if ranges <= mostCompared {
		return stepsPerAny
	}
	return stepsPerAny + stepsPerHalf*float64(bits.Len(uint(ranges)))
}
