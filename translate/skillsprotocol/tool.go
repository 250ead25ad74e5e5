package skillsprotocol

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

// toolFormats are the formats; the first is the default.
var toolFormats = []string{FormatAnthropic, FormatOpenAI, FormatMCP}

const (
	maxToolDescription = 1000 // characters; OpenAI's API refuses more than 1024
	maxToolTitle       = 200
)

// maxOpenAITools is how many tools a request to OpenAI's API may have.
const maxOpenAITools = 128

// Tool returns the definition of a skill as a tool with a name, in a format. The error is that of a context that has ended.
func Tool(ctx context.Context, name string, d *document.Descriptor, format string) (jsontext.Value, error) {
	w := front.Writer{Buf: make([]byte, 0, toolSize(d))}
	err := addTool(ctx, &w, name, d, false, format)
	return w.Buf, err
}

// addTool adds the definition of a skill as a tool. connects says that calls ask the user to connect an account first. What is dear is kept with the
// descriptor.
func addTool(ctx context.Context, w *front.Writer, name string, d *document.Descriptor, connects bool, format string) error {
	description, err := front.Description(ctx, d, maxToolDescription, connects)
	if err != nil {
		return err
	}
	schema, err := front.InputSchema(ctx, d, front.HeaderKeyword)
	if err != nil {
		return err
	}
	writeTool(w, name, d.Name, description, schema, format)
	return nil
}

// addGetRunTool adds the definition of the tool with which a model follows a run.
func addGetRunTool(w *front.Writer, format string) {
	writeTool(w, front.GetRun, "Follow a run", jsonvalue.Quoted(front.GetRunDescription), jsontext.Value(front.GetRunSchema), format)
}

func writeTool(w *front.Writer, name, title string, description, schema jsontext.Value, format string) {
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
		w.Text("title", safetext.Line(title, maxToolTitle))
		w.Raw("description", description)
		w.Raw("inputSchema", schema)
	default:
		w.Text("name", name)
		w.Raw("description", description)
		w.Raw("input_schema", schema)
	}
	w.Close()
}

// toolSize returns about how many bytes the definition of a skill takes.
func toolSize(d *document.Descriptor) int {
	size := 256 + min(len(d.Description), 4*maxToolDescription)
	for i := range d.Inputs {
		in := &d.Inputs[i]
		size += 64 + 2*len(in.Name) + len(in.Description) + len(in.Schema) + len(in.Default)
	}
	return size
}
