package mcp

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// completed returns the result of a run that has completed, or the failure of the call if there is no room for it.
func completed(r *request, skill *translate.Skill, o *run.Run) (jsontext.Value, *run.Failure) {
	if o.State == run.Canceled {
		return nil, &run.Failure{Kind: run.CallerCanceled, By: run.Bridge, Executed: run.ExecutedYes, Ref: o.Ref, Message: "The run was canceled: " + abandoned}
	}
	if failure := noRoom(r, o, len(o.Output)); failure != nil {
		return nil, failure
	}
	value := resultOf(r, skill, o)
	if failure := noRoom(r, o, len(value)); failure != nil {
		return nil, failure
	}
	return value, nil
}

// noRoom reserves memory for the result of a run. It returns the failure of a call for whose result there is no room.
func noRoom(r *request, o *run.Run, size int) *run.Failure {
	const envelope, uncounted = 64, 64 << 10 // of each answer
	need := int64(envelope + len(r.ID) + size)
	budget := exchange.AnswerBudget(r.Request)
	if r.room != nil {
		budget = r.room
	}
	if budget.Reserve(need) {
		return nil
	}
	failure := exchange.NoRoom(budget, run.PhaseResult, "", run.ExecutedYes, true)
	failure.Ref = o.Ref
	if name, most := budget.AnswerLimit(); need-uncounted > most {
		failure.Lost, failure.Retry = true, nil
		failure.Message = fmt.Sprintf("The skill has completed, but its output is too large for an answer (limits %s: %d bytes). "+
			"Do not call the tool again: tell the user to ask the operator of this server for a larger limit, or use arguments for a smaller output.", name, most)
	}
	return failure
}

// resultOf returns the result of a run that has completed.
func resultOf(r *request, skill *translate.Skill, o *run.Run) jsontext.Value {
	contentType := ""
	if skill != nil {
		contentType = skill.Descriptor.Output.ContentType
	}
	output := o.Output
	parts := front.Parts(output, contentType)
	if !wire.IsJSON(contentType) {
		w := r.open(resultComplete)
		w.OpenArray("content")
		w.parts(parts, o)
		w.CloseArray()
		return w.end(wire.Warnings(o.Warnings)...)
	}
	if len(output) == 0 {
		output = jsontext.Value("null")
	}
	var schema jsontext.Value
	if skill != nil && r.front.Options.Validate {
		schema = skill.OutputSchema()
		if fault := skill.CheckOutput(r.ctx, output); fault != nil {
			return misfit(r, fault, output, parts, o)
		}
	}
	w := r.open(resultComplete)
	media := slices.ContainsFunc(parts, func(p front.Part) bool { return p.Kind != front.PartData })
	if media && schema == nil { // so that no client pays for the base64 twice
		w.OpenArray("content")
		w.parts(parts, o)
		w.CloseArray()
		return w.end(wire.Warnings(o.Warnings)...)
	}
	wrapped := !r.modern && (schema == nil && output.Kind() != '{' || schema != nil && !wire.IsOfObjects(schema)) // as the tool says
	structured := func() {
		if wrapped {
			w.Buf = append(append(append(w.Buf, `{"result":`...), output...), '}')
			return
		}
		w.Buf = append(w.Buf, output...)
	}
	w.Name("structuredContent")
	start := len(w.Buf)
	structured()
	text := string(w.Buf[start:])
	w.OpenArray("content")
	if media {
		w.parts(parts, o)
	} else {
		w.TextContent(text)
	}
	w.CloseArray()
	return w.end(wire.Warnings(o.Warnings)...)
}

// parts adds the parts of an output to an array of content.
func (w *result) parts(parts []front.Part, o *run.Run) {
	for i := range parts {
		w.Next()
		w.Part(&parts[i], o.ExecutionID, i)
	}
}

// misfit returns the result of a run whose output does not fit its schema. All of the output is there, but not as structured content.
func misfit(r *request, fault *run.Failure, output jsontext.Value, parts []front.Part, o *run.Run) jsontext.Value {
	w := r.open(resultComplete)
	w.OpenArray("content")
	w.TextContent("The skill has completed, but its output does not fit the schema that its provider has published (" + messageOf(fault) +
		"). The output follows as it is.")
	w.parts(parts, o)
	if len(parts) == 0 {
		w.TextContent(string(output))
	}
	w.CloseArray()
	w.isError()
	return w.end(append(wire.Warnings(o.Warnings), func(w *front.Writer) {
		w.OpenMember(wire.MetaError)
		w.Text("code", "INVALID_OUTPUT")
		w.Text("executed", string(run.ExecutedYes))
		w.Text("next", string(run.NextNone))
		w.Text("source", string(run.Provider))
		w.Close()
	})...)
}

func (w *result) isError() {
	w.Name("isError")
	w.Buf = append(w.Buf, "true"...)
}
