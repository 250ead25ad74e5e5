// Package tools writes the definitions of tools that the APIs of language models take.
package tools

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// The formats of tool definitions: what the APIs of these providers take as tools, and that of MCP.
const (
	FormatAnthropic = "anthropic"
	FormatOpenAI    = "openai"
	FormatMCP       = "mcp"
)

// Formats are the formats; the first is the default.
var Formats = []string{FormatAnthropic, FormatOpenAI, FormatMCP}

const (
	maxDescription = 1000 // characters; OpenAI's API refuses more than 1024
	maxTitle       = 200
)

// MaxOpenAI is how many tools a request to OpenAI's API may have.
const MaxOpenAI = 128

// Of returns the definition of a skill as a tool with a name, in a format. The error is that of a context that has ended.
func Of(ctx context.Context, name string, d *document.Descriptor, format string) (jsontext.Value, error) {
	w := front.Writer{Buf: make([]byte, 0, Size(d))}
	err := Add(ctx, &w, name, d, format)
	return w.Buf, err
}

// Add adds the definition of a skill as a tool. What is dear is kept with the descriptor.
func Add(ctx context.Context, w *front.Writer, name string, d *document.Descriptor, format string) error {
	description, err := front.Description(ctx, d, maxDescription)
	if err != nil {
		return err
	}
	schema, err := front.InputSchema(ctx, d, front.HeaderKeyword)
	if err != nil {
		return err
	}
	add(w, name, d.Name, description, schema, format)
	return nil
}

// AddGetRun adds the definition of the tool with which a model follows a run.
func AddGetRun(w *front.Writer, format string) {
	add(w, front.GetRun, "Follow a run", jsonvalue.Quoted(front.GetRunDescription), jsontext.Value(front.GetRunSchema), format)
}

func add(w *front.Writer, name, title string, description, schema jsontext.Value, format string) {
	w.Open()
	switch format {
	case FormatOpenAI:
		w.Text("type", "function")
		w.OpenMember("function")
		w.Text("name", name)
		w.Raw("description", description)
		w.Raw("parameters", schema)
		w.Close()
	case FormatMCP:
		w.Text("name", name)
		w.Text("title", safetext.Line(title, maxTitle))
		w.Raw("description", description)
		w.Raw("inputSchema", schema)
	default:
		w.Text("name", name)
		w.Raw("description", description)
		w.Raw("input_schema", schema)
	}
	w.Close()
}

// Size returns about how many bytes the definition of a skill takes.
func Size(d *document.Descriptor) int {
	size := 256 + min(len(d.Description), 4*maxDescription)
	for i := range d.Inputs {
		in := &d.Inputs[i]
		size += 64 + 2*len(in.Name) + len(in.Description) + len(in.Schema) + len(in.Default)
	}
	return size
}
