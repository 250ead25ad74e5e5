package inputs

import (
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// CompileInputs is [New] for schemas that are still to be read.
func CompileInputs(l *document.Limits, params []document.Parameter) (*Inputs, error) {
	in, found := New(l, params, func(i int) (any, *run.Violation) {
		return jsonvalue.Read(params[i].Schema, jsonvalue.Bounds{Depth: 100, Values: 200_000})
	})
	if list := found.Tidy(); list != nil {
		return nil, &run.Failure{
			Kind: run.InvalidDocument, Phase: run.PhaseDescriptor, By: run.Bridge, Executed: run.ExecutedNo,
			Message: list[0].Path + " " + list[0].Message, Violations: list,
		}
	}
	return in, nil
}
