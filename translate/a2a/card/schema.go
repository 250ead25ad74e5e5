package card

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/strictjson"
)

// maxSchemaDepth bounds the nesting of a schema in a card. Some clients read at most 100 levels, including those of the card
// around the schema.
const maxSchemaDepth = 48

// addSchemas adds the version and the schemas of a skill to the params of the extension, with up to most bytes for both
// schemas. A schema that does not fit, or that some clients can't read, is left out; d may be nil. The error is that of a context that has ended.
func addSchemas(ctx context.Context, w *front.Writer, s *skill, d *document.Descriptor, most int) (err error) {
	var input, output jsontext.Value
	if d != nil && sizeOf(d.Inputs) <= most { // else it would be left out
		if input, err = front.InputSchema(ctx, d, ""); err != nil {
			return err
		}
	}
	if d != nil && len(d.Output.Schema) <= most {
		if output, err = front.OutputSchema(ctx, d, ""); err != nil {
			return err
		}
	}
	w.Next()
	w.Buf = append(appendName(w.Buf, s.name), ':', '{')
	w.Optional("version", s.version)
	for _, m := range []struct {
		name   string
		schema jsontext.Value
	}{{"inputSchema", input}, {"outputSchema", output}} {
		if m.schema.Kind() != '{' || len(m.schema) > most || !readable(m.schema) {
			continue
		}
		if text := safetext.Escape(string(m.schema), "\t\r\n"); len(text) <= most {
			most -= len(text)
			w.Raw(m.name, jsontext.Value(text))
		}
	}
	w.Close()
	return nil
}

// readable reports whether all clients can read a JSON value: it does not nest too deep, and its numbers fit a double.
func readable(value jsontext.Value) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(value))
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if dec.StackDepth() > maxSchemaDepth {
			return false
		}
		if token.Kind() == '0' && !strictjson.IsFinite(token.String()) {
			return false
		}
	}
}
