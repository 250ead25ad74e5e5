package skillsprotocol

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// The formats of tool definitions: what the APIs of these providers take as tools, and that of MCP.
const (
	FormatAnthropic = "anthropic"
	FormatOpenAI    = "openai"
	FormatMCP       = "mcp"
)

// toolFormats are the formats; the first is the default.
var toolFormats = []string{FormatAnthropic, FormatOpenAI, FormatMCP}

// tool adds the definition of a skill as a tool. A skill without a tool name has none. The error is that of a context that has ended.
func (b *builder) tool(ctx context.Context, e *catalog.Entry, format string) error {
	if name := e.ToolName(ctx, translate.RequestOf(ctx).Principal); name != "" && e.Descriptor != nil {
		return b.definition(ctx, name, e.Descriptor, format)
	}
	return nil
}

// Tool returns the definition of a skill as a tool with a name, in a format: that of [FormatAnthropic], [FormatOpenAI] or [FormatMCP]. The error
// is that of a context that has ended.
func Tool(ctx context.Context, name string, d *document.Descriptor, format string) (jsontext.Value, error) {
	b := builder{front.Writer{Buf: make([]byte, 0, toolSize(d))}}
	err := b.definition(ctx, name, d, format)
	return b.Buf, err
}

// definition adds the definition of a tool. What is dear is kept with the descriptor.
func (b *builder) definition(ctx context.Context, name string, d *document.Descriptor, format string) error {
	description, err := front.Description(ctx, d, maxMessage)
	if err != nil {
		return err
	}
	schema, err := front.InputSchema(ctx, d, front.HeaderKeyword)
	if err != nil {
		return err
	}
	b.Open()
	switch format {
	case FormatOpenAI:
		b.Text("type", "function")
		b.OpenMember("function")
		b.Text("name", name)
		b.Raw("description", description)
		b.Raw("parameters", schema)
		b.Close()
	case FormatMCP:
		b.Text("name", name)
		b.Text("title", safetext.Line(d.Name, maxName))
		b.Raw("description", description)
		b.Raw("inputSchema", schema)
	default:
		b.Text("name", name)
		b.Raw("description", description)
		b.Raw("input_schema", schema)
	}
	b.Close()
	return nil
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
