// Package longtest skips tests that take long, unless they are asked for.
//
// The environment variable SKILL_BRIDGE_TESTS names the level up to which tests run: "long" as continuous integration, "minutes" or "hours". Without it,
// `go test ./...` takes some four minutes on two cores.
package longtest

import (
	"fmt"
	"os"
	"slices"
	"testing"
)

// Variable is the environment variable that names a [Level].
const Variable = "SKILL_BRIDGE_TESTS"

// Level is how long a test may take.
type Level int

// The levels: a test of more than two seconds is Long. One that takes minutes, or restricts the resources of the machine, is not run by continuous integration.
const (
	Short Level = iota
	Long
	Minutes
	Hours
)

var names = []string{"", "long", "minutes", "hours"}

func (l Level) String() string { return names[l] }

// Runs reports whether tests of a level run. It panics if the variable names none, so that no test is skipped because of a typing mistake.
func Runs(l Level) bool {
	text := os.Getenv(Variable)
	level := slices.Index(names, text)
	if level < 0 {
		panic(fmt.Sprintf("%s is %q, instead of %q", Variable, text, names[1:]))
	}
	return Level(level) >= l
}

// Need skips the test if tests of its level don't run.
func Need(tb testing.TB, l Level) {
	tb.Helper()
	if !Runs(l) {
		tb.Skipf("takes long: runs with %s=%s", Variable, l)
	}
}
