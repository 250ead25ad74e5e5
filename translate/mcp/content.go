package mcp

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// completed returns the result of a run that has completed.
func completed(r *request, skill *translate.Skill, o *run.Run) jsontext.Value {
	contentType := ""
	if skill != nil {
		contentType = skill.Descriptor.Output.ContentType
	}
	output := o.Output
	if !wire.IsJSON(contentType) {
		w := r.open(resultComplete)
		w.OpenArray("content")
		for i, p := range front.Parts(output, contentType) {
			w.Next()
			w.Part(&p, o.ExecutionID, i)
		}
		w.CloseArray()
		return w.end()
	}
	if len(output) == 0 {
		output = jsontext.Value("null")
	}
	var schema jsontext.Value
	if skill != nil && r.front.Options.Validate {
		schema = skill.OutputSchema()
		if fault := skill.CheckOutput(r.ctx, output); fault != nil {
			return misfit(r, fault, output)
		}
	}
	w := r.open(resultComplete)
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
	w.TextContent(text)
	w.CloseArray()
	return w.end()
}

// misfit returns the result of a run whose output does not fit its schema. All of the output is there, as a text.
func misfit(r *request, fault *run.Failure, output jsontext.Value) jsontext.Value {
	w := r.open(resultComplete)
	w.OpenArray("content")
	w.TextContent("The skill has completed, but its output does not fit the schema that its provider has published (" + messageOf(fault) +
		"). The output follows as it is.")
	w.TextContent(string(output))
	w.CloseArray()
	w.isError()
	return w.end(func(w *front.Writer) {
		w.OpenMember(metaError)
		w.Text("code", "INVALID_OUTPUT")
		w.Text("executed", string(run.ExecutedYes))
		w.Text("next", string(run.NextNone))
		w.Text("source", string(run.Provider))
		w.Close()
	})
}

func (w *result) isError() {
	w.Name("isError")
	w.Buf = append(w.Buf, "true"...)
}
