package translate

import (
	"bytes"
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
)

// Preparation is what a front does during [Bridge.Start], if it has to know the skill before it has the inputs, or has to
// keep a record of the run before the provider knows it. The goroutine of Start calls both methods, at most once each. Their
// contexts have the deadline of the call.
type Preparation interface {
	// Inputs returns the inputs of the call, once the skill is found. A failure ends the call.
	Inputs(ctx context.Context, s *Skill) (jsonrpc.Object, *run.Failure)
	// Invoke is called once the inputs are valid and the call is within all limits, directly before the inputs are sent. A
	// failure ends the call; nothing was executed then.
	Invoke(ctx context.Context, s *Skill) *run.Failure
}

// Skill is the skill that a call has found.
type Skill struct {
	// Name is the skill's name as the bridge lists it.
	Name string
	// Ref has the source, the skill's id and its version, but no execution.
	Ref run.Ref
	// Descriptor must not be changed.
	Descriptor *document.Descriptor
	// Deadline is the end of the timeout that is sent to the provider; zero: none is sent.
	Deadline time.Time

	execution *execution
	valid     jsontext.Value // inputs that Check has found complete and valid
}

// Main returns the SKILL.md of a skill that can only be read; nil: the skill can be executed.
func (s *Skill) Main() []byte {
	files := s.execution.found.Skill.Files
	if files == nil {
		return nil
	}
	text, _ := files.Get(skillsite.Main)
	return text
}

// Check checks the inputs that are given. It returns the failure of the first invalid one, and the names of the required
// inputs without a default that are missing, in the descriptor's order. A check counts like that of the bridge itself, which
// does not repeat it for the same text.
func (s *Skill) Check(given jsonrpc.Object) (missing []string, invalid *run.Failure) {
	x := s.execution
	missing, invalid = x.found.Skill.CheckGiven(x.ctx, x.call.Principal, given, x.call.Checks)
	if missing == nil && invalid == nil && x.ctx.Err() == nil {
		s.valid = given.Text
	}
	return missing, invalid
}

// hasChecked reports whether Check has found a text complete and valid.
func (s *Skill) hasChecked(text jsontext.Value) bool {
	return s.valid != nil && bytes.Equal(s.valid, text) // at once for the same text in the same place
}

// OutputSchema returns the JSON Schema of the output; nil: the descriptor has none that the bridge can apply.
func (s *Skill) OutputSchema() jsontext.Value { return s.execution.found.Skill.OutputSchema() }

// CheckOutput checks an output by the schema of the descriptor. It returns nil if the output is valid, or if there is no schema. The work
// counts like that of checking the inputs.
func (s *Skill) CheckOutput(ctx context.Context, output jsontext.Value) *run.Failure {
	x := s.execution
	return x.found.Skill.CheckOutput(ctx, x.call.Principal, output, x.call.Checks)
}

// prepare lets the front set the inputs of the call, if it has a [Preparation]. It returns nil if it has none.
func prepare(x *execution) (*Skill, *run.Failure) {
	if x.call.Prepare == nil {
		return nil, nil
	}
	if x.call.Checks == nil {
		x.call.Checks = new(inputs.Checks) // for all checks of the call together
	}
	s := skillOf(x)
	var failure *run.Failure
	x.call.Inputs, failure = x.call.Prepare.Inputs(x.ctx, s)
	return s, failure
}
