package wire

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

// maxToolDescription is how many characters of a tool's description the APIs of all language models take; OpenAI's refuses longer ones.
const maxToolDescription = 1024

// Tools say how tools are defined.
type Tools struct {
	Modern     bool // for a modern client
	Structured bool // with the schemas of outputs
}

// Definition is the definition of a tool.
type Definition struct {
	tool, name                 string // of the tool, and of the skill for the bridge
	descriptor                 *document.Descriptor
	description, input, output jsontext.Value
}

// Define makes the definition of the tool of a skill. tool is its name, name that of the skill for the bridge, and output the JSON Schema of the
// output; nil: none. What is dear is kept with the descriptor. The error is that of a context that has ended.
func (how Tools) Define(ctx context.Context, tool, name string, d *document.Descriptor, output jsontext.Value) (t Definition, err error) {
	t = Definition{tool: tool, name: name, descriptor: d}
	if t.description, err = front.Description(ctx, d, maxToolDescription); err != nil {
		return t, err
	}
	if t.input, err = front.InputSchema(ctx, d, front.HeaderKeyword); err != nil {
		return t, err
	}
	t.output, err = how.outputSchema(ctx, d, output)
	return t, err
}

// Size returns about how many bytes the definition takes.
func (t *Definition) Size() int {
	return 512 + len(t.tool) + len(t.name) + len(t.description) + len(t.input) + len(t.output)
}

// Tool adds the definition of a tool as a value, or to an array.
func (w *Writer) Tool(t *Definition) {
	d := t.descriptor
	w.Open()
	w.Text("name", t.tool)
	w.Text("title", safetext.Line(d.Name, MaxQuoted))
	w.Raw("description", t.description)
	w.Raw("inputSchema", t.input)
	w.Raw("outputSchema", t.output)
	w.annotations(d.Endpoint.Method)
	w.OpenMember("_meta")
	w.OpenMember(MetaSkill)
	w.Text("name", t.name)
	w.Text("version", safetext.Line(d.Version, MaxQuoted))
	w.Text("capabilityType", string(d.CapabilityType))
	w.Close()
	w.Close()
	w.Close()
}

// annotations adds hints about a tool, by the HTTP method of its endpoint (RFC 9110, section 9.2).
func (w *Writer) annotations(method string) {
	w.OpenMember("annotations")
	switch strings.ToUpper(method) {
	case "GET":
		w.hint("readOnlyHint")
	case "PUT":
		w.hint("idempotentHint")
	case "DELETE":
		w.hint("destructiveHint")
	}
	w.hint("openWorldHint")
	w.Close()
}

func (w *Writer) hint(name string) {
	w.Name(name)
	w.Buf = append(w.Buf, "true"...)
}

// wrappedForm is the form of the schema of an output in an object.
type wrappedForm struct{}

// outputSchema returns the schema of structured outputs, made from that of the descriptor; nil: there is none.
func (how Tools) outputSchema(ctx context.Context, d *document.Descriptor, schema jsontext.Value) (jsontext.Value, error) {
	switch {
	case !how.Structured || !IsJSON(d.Output.ContentType) || schema == nil:
		return nil, nil
	case how.Modern || IsOfObjects(schema):
		return front.OutputSchema(ctx, d, front.HeaderKeyword)
	}
	// In the legacy versions, structured content is an object.
	return d.Rendering(ctx, wrappedForm{}, func() jsontext.Value {
		return front.CleanSchema(inputs.InputSchema([]document.Parameter{{Name: "result", Required: true, Schema: schema}}), front.HeaderKeyword)
	})
}

// IsOfObjects reports whether a schema permits only objects, by its type.
func IsOfObjects(schema jsontext.Value) bool { return Text(Member(schema, "type")) == "object" }
