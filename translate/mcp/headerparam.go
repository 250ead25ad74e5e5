package mcp

import (
	"cmp"
	"context"
	"net/http"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

// headerParams checks that the header repeats the arguments for which the schema of a tool demands it.
type headerParams struct {
	header    http.Header
	arguments jsonrpc.Object
}

var _ translate.Preparation = headerParams{}

// Inputs implements [translate.Preparation].
func (p headerParams) Inputs(_ context.Context, s *translate.Skill) (jsonrpc.Object, *run.Failure) {
	names := inputs.ModelNames(s.Descriptor.Inputs)
	for i, in := range s.Descriptor.Inputs {
		if argument, value := wire.Given(p.arguments.Text, in.Name, cmp.Or(names[i], in.Name)); value != nil {
			if name := wire.MissingParam(p.header, in.Schema, value); name != "" {
				return p.arguments, mismatched("the field " + wire.HeaderParam + name + " must repeat the argument " + quoted(argument))
			}
		}
	}
	return p.arguments, nil
}

// Invoke implements [translate.Preparation].
func (headerParams) Invoke(context.Context, *translate.Skill) *run.Failure { return nil }

// mismatched returns the failure of a call whose header does not repeat what its body says.
func mismatched(why string) *run.Failure {
	return &run.Failure{
		Kind: run.InvalidArguments, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo, Message: why,
		Argument: &run.Argument{Field: run.FieldOther, Reason: run.Unsupported}, Cause: codeError(codeHeaderMismatch),
	}
}
