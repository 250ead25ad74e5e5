package discovery

import (
	"context"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// outputName is the name under which an output is checked.
const outputName = "output"

// newOutput returns the compiled schema of an output when it is needed first; nil: there is none, or none that the bridge can apply. An invalid one does
// not make the descriptor invalid (section 5.6), since outputs are the provider's own.
func newOutput(l *document.Limits, text jsontext.Value) func() *inputs.Inputs {
	if text.Kind() != '{' {
		return func() *inputs.Inputs { return nil }
	}
	return sync.OnceValue(func() *inputs.Inputs {
		value, flaw := jsonvalue.Read(text, schema.ArgumentBounds)
		if flaw != nil {
			return nil
		}
		checked, flaws := inputs.New(l, []document.Parameter{{Name: outputName, Schema: text}}, []any{value})
		if len(flaws) > 0 {
			return nil
		}
		return checked
	})
}

// OutputSchema returns the JSON Schema of the output; nil: the descriptor has none that the bridge can apply. s may be nil.
func (s *Skill) OutputSchema() jsontext.Value {
	if s == nil || s.output() == nil {
		return nil
	}
	return s.Output.Schema
}

// CheckOutput checks an output by the schema of the descriptor. It returns nil if the output is valid, or if there is no schema. checks
// counts the work, as in [Skill.CheckInputs].
func (s *Skill) CheckOutput(ctx context.Context, principal string, output jsontext.Value, checks *inputs.Checks) *run.Failure {
	of := s.output()
	if of == nil {
		return nil
	}
	only := jsonrpc.Object{Members: []jsonrpc.Member{{Name: jsontext.Value(`"` + outputName + `"`), Value: output}}}
	fault := of.Check(ctx, share.Line{Principal: principal, SkillID: s.ID}, only, checks)
	if fault != nil { // it calls the output an argument
		problem := strings.TrimPrefix(fault.Message, `argument "`+outputName+`"`)
		fault.Message = "the output" + strings.Replace(problem, ": /"+outputName+"/", ": /", 1)
	}
	return fault
}
