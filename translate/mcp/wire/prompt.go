package wire

import (
	"context"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// argumentsForm is the form of the arguments of a prompt.
type argumentsForm struct{}

// Prompt adds the definition of the prompt of a skill, whose texts are kept with the descriptor. The error is that of a context that has ended.
func (w *Writer) Prompt(ctx context.Context, name string, d *document.Descriptor) error {
	description, err := front.Description(ctx, d, MaxDescription)
	if err != nil {
		return err
	}
	arguments, err := d.Rendering(ctx, argumentsForm{}, func() jsontext.Value { return argumentsOf(d.Inputs) })
	if err != nil {
		return err
	}
	w.Open()
	w.Text("name", name)
	w.Text("title", safetext.Line(d.Name, MaxQuoted))
	w.Raw("description", description)
	w.Raw("arguments", arguments)
	w.Close()
	return nil
}

// argumentsOf returns the arguments of the prompt of a skill with inputs.
func argumentsOf(params []document.Parameter) jsontext.Value {
	w := front.Writer{Buf: []byte{'['}}
	for i := range params {
		in := &params[i]
		w.Open()
		w.Text("name", in.Name)
		w.Optional("description", safetext.Line(in.Description, MaxQuoted))
		w.Name("required")
		w.Buf = strconv.AppendBool(w.Buf, in.Required)
		w.Close()
	}
	w.CloseArray()
	return w.Buf
}
