package wire

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

// Tools say how tools are defined.
type Tools struct {
	Modern     bool // for a modern client
	Structured bool // with the schemas of outputs
	Headers    bool // skills may choose arguments that clients repeat in header fields
}

// Definition is what a tool is made from: a skill.
type Definition struct {
	Tool, Name string // of the tool, and of the skill for the bridge
	Descriptor *document.Descriptor
	Output     jsontext.Value // the JSON Schema of the output; nil: none
}

// Tool adds the definition of a tool as a value, or to an array.
func (w *Writer) Tool(t *Definition, how Tools) {
	d := t.Descriptor
	w.Open()
	w.Text("name", t.Tool)
	w.Text("title", safetext.Line(d.Name, MaxQuoted))
	w.Text("description", safetext.Line(d.Description, MaxDescription))
	w.Raw("inputSchema", how.inputSchema(d))
	w.Raw("outputSchema", how.OutputSchema(d, t.Output))
	w.annotations(d.Endpoint.Method)
	w.OpenMember("_meta")
	w.OpenMember(MetaSkill)
	w.Text("name", t.Name)
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

// inputSchema returns the schema of the arguments.
func (how Tools) inputSchema(d *document.Descriptor) jsontext.Value {
	schema := inputs.InputSchema(d.Inputs)
	return how.clean(schema)
}

// OutputSchema returns the schema of structured outputs, made from that of the descriptor; nil: there is none.
func (how Tools) OutputSchema(d *document.Descriptor, schema jsontext.Value) jsontext.Value {
	switch {
	case !how.Structured || !IsJSON(d.Output.ContentType):
		return nil
	case schema == nil:
		return nil
	case how.Modern || IsOfObjects(schema):
		return how.clean(schema)
	}
	// In the legacy versions, structured content is an object.
	return how.clean(inputs.InputSchema([]document.Parameter{{Name: "result", Required: true, Schema: schema}}))
}

// IsOfObjects reports whether a schema permits only objects, by its type.
func IsOfObjects(schema jsontext.Value) bool { return Text(Member(schema, "type")) == "object" }

// clean returns a schema whose texts for models are visible, and without the keyword for header fields unless those are allowed.
func (how Tools) clean(schema jsontext.Value) jsontext.Value {
	if how.Headers {
		return front.CleanSchema(schema, "")
	}
	return front.CleanSchema(schema, front.HeaderKeyword)
}
