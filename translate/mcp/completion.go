package mcp

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// maxCompletions bounds the values of an answer.
const maxCompletions = 100

// complete answers completion/complete: names for the template of resources, and values of the arguments of prompts.
func complete(r *request) (jsontext.Value, *jsonrpc.Error) {
	reference, argument := r.params[wire.ParamReference].Value, r.params[wire.ParamArgument].Value
	if reference == nil || argument == nil {
		return nil, invalid("ref and argument are required")
	}
	if reference.Kind() != '{' || argument.Kind() != '{' {
		return nil, invalid("ref and argument must be objects")
	}
	name, value := wire.Member(argument, "name"), wire.Member(argument, "value")
	if name.Kind() != '"' || value.Kind() != '"' {
		return nil, invalid("argument needs the texts name and value")
	}
	switch kind := wire.Text(wire.Member(reference, "type")); kind {
	case "ref/resource":
		if wire.Text(wire.Member(reference, "uri")) != wire.ResourceTemplate {
			return nil, invalid("ref names no template of resources")
		}
		switch wire.Text(name) {
		case "name":
			return r.completion(namesOf(r), wire.Text(value)), nil
		case "file":
			return r.completion(slices.Values([]string{wire.FileSkill, wire.FileDescriptor}), wire.Text(value)), nil
		}
		return r.completion(slices.Values[[]string](nil), ""), nil
	case "ref/prompt":
		values, fault := valuesOf(r, wire.Text(wire.Member(reference, "name")), wire.Text(name))
		if fault != nil {
			return nil, fault
		}
		return r.completion(slices.Values(values), wire.Text(value)), nil
	default:
		return nil, invalid("ref must be of the type ref/resource or ref/prompt")
	}
}

// completion returns the result with the first values that begin with a prefix, and the number of all.
func (r *request) completion(values iter.Seq[string], prefix string) jsontext.Value {
	var found []string
	total := 0
	for value := range values {
		if !strings.HasPrefix(value, prefix) {
			continue
		}
		if total++; total <= maxCompletions {
			found = append(found, value)
		}
	}
	w := r.open(resultComplete)
	w.OpenMember("completion")
	w.Texts("values", found)
	w.Integer("total", int64(total))
	w.Name("hasMore")
	w.Buf = strconv.AppendBool(w.Buf, total > maxCompletions)
	w.Close()
	return w.end()
}

// namesOf returns the names of the skills that the caller may see.
func namesOf(r *request) iter.Seq[string] {
	caller := r.caller
	caller.Front, caller.Method = "", "" // the list is a part of this call
	return func(yield func(string) bool) {
		for _, e := range r.front.Bridge.List(r.ctx, translate.Query{Caller: caller}).Skills {
			if !yield(e.Name) {
				return
			}
		}
	}
}

// valuesOf returns the values of an argument of a prompt, if it has only some.
func valuesOf(r *request, prompt, argument string) ([]string, *jsonrpc.Error) {
	caller := r.caller
	caller.Front, caller.Method = "", "" // reading the descriptor is a part of this call
	d, failure := r.front.Bridge.Describe(r.ctx, translate.Call{Caller: caller, Name: prompt})
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
