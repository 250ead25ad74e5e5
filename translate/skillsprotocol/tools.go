package skillsprotocol

import (
	"context"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

// The formats of tool definitions: what the APIs of these providers take as tools, and that of MCP.
const (
	formatAnthropic = "anthropic"
	formatOpenAI    = "openai"
	formatMCP       = "mcp"
)

// toolFormats are the formats; the first is the default.
var toolFormats = []string{formatAnthropic, formatOpenAI, formatMCP}

// tool adds the definition of a skill as a tool. A skill without a tool name has none.
func (b *builder) tool(ctx context.Context, e *catalog.Entry, format string) {
	name := e.ToolName(ctx)
	if name == "" || e.Descriptor == nil {
		return
	}
	description := safetext.Line(e.Descriptor.Description, maxMessage)
	schema := front.CleanSchema(inputs.InputSchema(e.Descriptor.Inputs), front.HeaderKeyword)
	b.Open()
	switch format {
	case formatOpenAI:
		b.Text("type", "function")
		b.OpenMember("function")
		b.Text("name", name)
		b.Text("description", description)
		b.Raw("parameters", schema)
		b.Close()
	case formatMCP:
		b.Text("name", name)
		b.Text("title", safetext.Line(e.Descriptor.Name, maxName))
		b.Text("description", description)
		b.Raw("inputSchema", schema)
	default:
		b.Text("name", name)
		b.Text("description", description)
		b.Raw("input_schema", schema)
	}
	b.Close()
}

// toolSize returns about how many bytes the definition of a skill takes.
func toolSize(d *document.Descriptor) int {
	size := 256 + min(len(d.Description), 4*maxMessage)
	for i := range d.Inputs {
		in := &d.Inputs[i]
		size += 64 + 2*len(in.Name) + len(in.Description) + len(in.Schema) + len(in.Default)
	}
	return size
}
