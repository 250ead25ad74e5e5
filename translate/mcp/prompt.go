package mcp

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// listPrompts answers prompts/list: the skills of the type knowledge.
func listPrompts(r *request) (jsontext.Value, *jsonrpc.Error) {
	listing, fault := r.page(cursorPrompts, translate.Query{CapabilityType: document.Knowledge, Descriptors: PageSize})
	if fault != nil {
		return nil, fault
	}
	w := r.open(resultComplete)
	w.OpenArray("prompts")
	for i := range listing.Skills {
		e := &listing.Skills[i]
		if err := w.Prompt(r.ctx, e.Tool, e.Descriptor); err != nil {
			return nil, callerGone(r)
		}
	}
	w.CloseArray()
	return w.endPage(cursorPrompts, listing), nil
}

// promptInputs makes the inputs of a skill of the texts that a client sends for its prompt.
type promptInputs struct{ texts jsontext.Value }

var _ translate.Preparation = promptInputs{}

// Inputs implements [translate.Preparation].
func (p promptInputs) Inputs(_ context.Context, s *translate.Skill) (jsonrpc.Object, *run.Failure) {
	if s.Descriptor.CapabilityType != document.Knowledge {
		return jsonrpc.Object{}, argumentFailure(run.FieldSkill, s.Name, "is no prompt: its tool can be called")
	}
	inputs, argument, problem := wire.PromptInputs(p.texts, s.Descriptor.Inputs)
	if problem != "" {
		return jsonrpc.Object{}, argumentFailure(run.FieldInput, argument, problem)
	}
	return jsonrpc.Object{Text: inputs}, nil
}

// Invoke implements [translate.Preparation].
func (promptInputs) Invoke(context.Context, *translate.Skill) *run.Failure { return nil }

func argumentFailure(field run.Field, name, problem string) *run.Failure {
	name = safetext.Line(name, wire.MaxQuoted)
	return &run.Failure{
		Kind: run.InvalidArguments, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo, Message: name + " " + problem,
		Argument: &run.Argument{Field: field, Name: name, Reason: run.NotFound},
	}
}

// getPrompt answers prompts/get: it runs the skill, and each part of its output is a message.
func getPrompt(r *request) (jsontext.Value, *jsonrpc.Error) {
	name, fault := r.text(wire.ParamName)
	if fault != nil {
		return r.refuse(fault)
	}
	arguments := r.params[wire.ParamArguments].Value
	if arguments != nil && arguments.Kind() != '{' {
		return r.refuse(invalid("arguments must be an object"))
	}
	if _, problem := wire.RepeatedArgument(r.params[wire.ParamArguments]); problem != "" {
		return r.refuse(invalid(problem))
	}
	wait := r.front.Options.Wait
	execution := r.front.Bridge.Start(r.ctx, translate.Call{
		Caller: r.caller, Answer: r.Request, Name: name, Patient: true, Wait: &wait, Checks: &translate.RequestOf(r.ctx).Checks,
		Prepare: promptInputs{arguments},
	})
	outcome := execution.Wait()
	switch f := outcome.Failure; {
	case f != nil && f.Argument != nil && f.Argument.Reason == run.OnlyRead:
		outcome.Output = front.AppendText(nil, string(execution.Skill().Main()))
	case f != nil && isUnknownTool(f):
		return nil, invalid("unknown prompt " + quoted(name))
	case f != nil && f.Kind == run.InvalidArguments && f.By == run.Bridge:
		return nil, invalid(messageOf(f))
	case f != nil:
		return nil, refusal(r, f, r.tokenOf(&outcome))
	case !outcome.State.Ended():
		text, add := runningOn(r.tokenOf(&outcome))
		var w front.Writer
		w.Open()
		add(&w)
		w.Close()
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: text, Data: w.Buf}
	}
	d := execution.Skill().Descriptor
	w := r.open(resultComplete)
	w.Optional("description", safetext.Line(d.Description, wire.MaxDescription))
	w.OpenArray("messages")
	for i, p := range front.Parts(outcome.Output, d.Output.ContentType) {
		w.Open()
		w.Text("role", "user")
		w.Name("content")
		w.Part(&p, outcome.ExecutionID, i)
		w.Close()
	}
	w.CloseArray()
	return w.end(), nil
}
