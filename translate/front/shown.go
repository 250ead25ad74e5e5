package front

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

// The forms of texts that are made of descriptors.
type (
	inputsForm      struct{ omitted string }
	outputForm      struct{ omitted string }
	descriptionForm struct {
		limit    int
		connects bool
	}
)

// InputSchema returns the JSON Schema of the arguments of a skill, as [CleanSchema] leaves it. It is kept with the descriptor (see
// [document.Descriptor.Rendering], which is about the error, too).
func InputSchema(ctx context.Context, d *document.Descriptor, omitted string) (jsontext.Value, error) {
	return d.Rendering(ctx, inputsForm{omitted}, func() jsontext.Value { return CleanSchema(inputs.InputSchema(d.Inputs), omitted) })
}

// OutputSchema is [InputSchema] for the schema of the outputs; nil: the descriptor has none.
func OutputSchema(ctx context.Context, d *document.Descriptor, omitted string) (jsontext.Value, error) {
	if len(d.Output.Schema) == 0 {
		return nil, ctx.Err()
	}
	return d.Rendering(ctx, outputForm{omitted}, func() jsontext.Value { return CleanSchema(d.Output.Schema, omitted) })
}

// Description returns the description of a skill as a JSON string with one visible line of at most limit characters, kept like the schemas. connects says
// that calls ask the user to connect an account first.
func Description(ctx context.Context, d *document.Descriptor, limit int, connects bool) (jsontext.Value, error) {
	return d.Rendering(ctx, descriptionForm{limit, connects}, func() jsontext.Value { return AppendText(nil, DescriptionLine(d.Description, limit, connects)) })
}

// asksToConnect ends the description of a skill for models whose calls ask the user to connect an account first.
const asksToConnect = " (asks the user to connect an account first)"

// DescriptionLine returns a description as one visible line of at most limit characters.
func DescriptionLine(description string, limit int, connects bool) string {
	if connects {
		return safetext.Line(description, limit-len(asksToConnect)) + asksToConnect
	}
	return safetext.Line(description, limit)
}
