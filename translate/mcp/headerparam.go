package mcp

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// headerParam begins the names of the fields that repeat arguments.
const headerParam = "Mcp-Param-"

// headerParams checks that the header repeats the arguments for which the schema of a tool demands it.
type headerParams struct {
	header    http.Header
	arguments jsonrpc.Object
}

var _ translate.Preparation = headerParams{}

// Inputs implements [translate.Preparation].
func (p headerParams) Inputs(_ context.Context, s *translate.Skill) (jsonrpc.Object, *run.Failure) {
	for i := range s.Descriptor.Inputs {
		in := &s.Descriptor.Inputs[i]
		if value := wire.Member(p.arguments.Text, in.Name); value != nil {
			if name := p.missing(in.Schema, value); name != "" {
				return p.arguments, mismatched("the field " + headerParam + name + " must repeat the argument " + quoted(in.Name))
			}
		}
	}
	return p.arguments, nil
}

// Invoke implements [translate.Preparation].
func (headerParams) Invoke(context.Context, *translate.Skill) *run.Failure { return nil }

// missing returns the name of a field that does not repeat a value, or a part of it, as the schema demands; empty: all do.
func (p headerParams) missing(schema, value jsontext.Value) (name string) {
	if name := wire.Text(wire.Member(schema, wire.HeaderKeyword)); name != "" {
		said, ok := wire.Field(p.header, http.CanonicalHeaderKey(headerParam+name))
		if ok {
			said, ok = wire.DecodeField(said)
		}
		want := string(value)
		if value.Kind() == '"' {
			want = wire.Text(value)
		}
		if !ok || said != want {
			return name
		}
	}
	if value.Kind() == '{' {
		jsonrpc.EachMember(wire.Member(schema, "properties"), func(of, part jsontext.Value) bool {
			if inner := wire.Member(value, string(jsonrpc.Unquote(of))); inner != nil {
				name = p.missing(part, inner)
			}
			return name == ""
		})
	}
	return name
}

// mismatched returns the failure of a call whose header does not repeat what its body says.
func mismatched(why string) *run.Failure {
	return &run.Failure{
		Kind: run.InvalidArguments, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo, Message: why,
		Argument: &run.Argument{Field: run.FieldOther, Reason: run.Unsupported}, Cause: codeError(codeHeaderMismatch),
	}
}
