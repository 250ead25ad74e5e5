package inputs

import (
	"strconv"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// CompileInputs is [New] for schemas that are still to be read.
func CompileInputs(l *document.Limits, params []document.Parameter) (*Inputs, error) {
	schemas := make([]any, len(params))
	var found jsonvalue.Violations
	for i, p := range params {
		value, flaw := jsonvalue.Read(p.Schema, jsonvalue.Bounds{Depth: 100, Values: 200_000})
		if flaw != nil && p.Schema != nil {
			flaw.Path = "/inputs/" + strconv.Itoa(i) + "/schema" + flaw.Path
			found = append(found, *flaw)
		}
		schemas[i] = value
	}
	var in *Inputs
	if found == nil {
		in, found = New(l, params, schemas)
	}
	if list := found.Tidy(); list != nil {
		return nil, &run.Failure{
			Kind: run.InvalidDocument, Phase: run.PhaseDescriptor, By: run.Bridge, Executed: run.ExecutedNo,
			Message: list[0].Path + " " + list[0].Message, Violations: list,
		}
	}
	return in, nil
}
