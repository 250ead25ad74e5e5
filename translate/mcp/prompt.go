package mcp

import (
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// listPrompts answers prompts/list: the skills of the type knowledge.
func listPrompts(r *request) (jsontext.Value, *jsonrpc.Error) {
	of := translate.Query{CapabilityType: document.Knowledge, Descriptors: PageSize}
	return r.listed("prompts", cursorPrompts, of, func(w *result, e *catalog.Entry) error {
		return w.Prompt(r.ctx, e.Tool, e.Descriptor, e.Connects)
	})
}

// promptInputs makes the inputs of a skill of the texts that a client sends for its prompt.
type promptInputs struct{ texts jsontext.Value }

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
	return run.WrongArgument(run.Argument{Field: field, Name: name, Reason: run.NotFound}, name+" "+problem)
}

// getPrompt answers prompts/get: it runs the skill, and each part of its output is a message.
func getPrompt(r *request) (jsontext.Value, *jsonrpc.Error) {
	name, fault := r.text("name")
	if fault != nil {
		return r.refuse(fault)
	}
	arguments := r.Param("arguments").Value
	if arguments != nil && arguments.Kind() != '{' {
		return r.refuse(invalid("arguments must be an object"))
	}
	if _, problem := wire.RepeatedArgument(arguments); problem != "" {
		return r.refuse(invalid(problem))
	}
	wait := r.front.Options.Wait
	execution := r.front.Bridge.Start(r.ctx, translate.Call{
		Caller: r.caller, Answer: r.Request, Name: name, Patient: true, Wait: &wait, Checks: &translate.RequestOf(r.ctx).Checks,
		Priority: r.meta.Priority, Prepare: promptInputs{arguments},
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
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: text, Data: front.Object(add)}
	}
	d := execution.Skill().Descriptor
	w := r.open(resultComplete)
	w.Optional("description", safetext.Line(d.Description, wire.MaxDescription))
	w.OpenArray("messages")
	for i, p := range front.Parts(outcome.Output, d.Output.ContentType) {
		w.Open()
		w.Text("role", "user")
		w.Name("content")
		w.part(&p, &outcome, i)
		w.Close()
	}
	w.CloseArray()
	return w.end(), nil
}

// maxCompletions bounds the values of an answer.
const maxCompletions = 100

// complete answers completion/complete: names for the template of resources, and values of the arguments of prompts.
func complete(r *request) (jsontext.Value, *jsonrpc.Error) {
	reference, argument := r.Param("ref").Value, r.Param("argument").Value
	if reference == nil || argument == nil {
		return nil, invalid("ref and argument are required")
	}
	if reference.Kind() != '{' || argument.Kind() != '{' {
		return nil, invalid("ref and argument must be objects")
	}
	name, value := jsonrpc.ValueOf(argument, "name"), jsonrpc.ValueOf(argument, "value")
	if name.Kind() != '"' || value.Kind() != '"' {
		return nil, invalid("argument needs the texts name and value")
	}
	switch kind := jsonrpc.Text(jsonrpc.ValueOf(reference, "type")); kind {
	case "ref/resource":
		if jsonrpc.Text(jsonrpc.ValueOf(reference, "uri")) != wire.ResourceTemplate {
			return nil, invalid("ref names no template of resources")
		}
		switch jsonrpc.Text(name) {
		case "name":
			return r.completion(namesOf(r), jsonrpc.Text(value)), nil
		case "file":
			return r.completion([]string{wire.FileSkill, wire.FileDescriptor}, jsonrpc.Text(value)), nil
		}
		return r.completion(nil, ""), nil
	case "ref/prompt":
		values, fault := valuesOf(r, jsonrpc.Text(jsonrpc.ValueOf(reference, "name")), jsonrpc.Text(name))
		if fault != nil {
			return nil, fault
		}
		return r.completion(values, jsonrpc.Text(value)), nil
	default:
		return nil, invalid("ref must be of the type ref/resource or ref/prompt")
	}
}

// completion returns the result with the first values that begin with a prefix, and the number of all.
func (r *request) completion(values []string, prefix string) jsontext.Value {
	values = slices.DeleteFunc(values, func(value string) bool { return !strings.HasPrefix(value, prefix) })
	w := r.open(resultComplete)
	w.OpenMember("completion")
	w.Texts("values", values[:min(len(values), maxCompletions)])
	w.Integer("total", int64(len(values)))
	w.Bool("hasMore", len(values) > maxCompletions)
	w.Close()
	return w.end()
}

// namesOf returns the names of the skills that the caller may see.
func namesOf(r *request) (names []string) {
	for _, e := range r.front.Bridge.List(r.ctx, translate.Query{Caller: front.Quiet(r.caller)}).Skills {
		names = append(names, e.Name)
	}
	return names
}

// valuesOf returns the values of an argument of a prompt, if it has only some.
func valuesOf(r *request, prompt, argument string) ([]string, *jsonrpc.Error) {
	d, failure := r.front.Bridge.Describe(r.ctx, translate.Call{Caller: front.Quiet(r.caller), Name: prompt})
	switch {
	case failure != nil && (isUnknownTool(failure) || failure.Kind == run.InvalidArguments), failure == nil && d.Descriptor.CapabilityType != document.Knowledge:
		return nil, invalid("ref names no prompt")
	case failure != nil:
		return nil, refusal(r, failure, "")
	}
	at := slices.IndexFunc(d.Descriptor.Inputs, func(in document.Parameter) bool { return in.Name == argument })
	if at < 0 {
		return nil, nil
	}
	return wire.ValuesOf(&d.Descriptor.Inputs[at]), nil
}
