package card

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// maxSchemaDepth is how deep a schema in a card may nest. Some clients read at most 100 levels, of which the card has some.
const maxSchemaDepth = 48

// addSchemas adds the version and the schemas of a skill to the params of the extension. A schema that clients could
// stumble over, or that takes more than its share of most bytes, is left out.
func (b *Builder) addSchemas(w *front.Writer, s *skill, input, output jsontext.Value, most int) {
	w.Next()
	w.Buf = append(appendName(w.Buf, s.name), ':', '{')
	w.Optional("version", s.version)
	for _, m := range []struct {
		name   string
		schema jsontext.Value
	}{{"inputSchema", input}, {"outputSchema", output}} {
		if string(m.schema) == noInputs && b.config.Signer != nil {
			m.schema = jsontext.Value(`{"type":"object"}`)
		}
		if m.schema.Kind() != '{' || len(m.schema) > most || !readable(m.schema, b.config.Signer != nil) {
			continue
		}
		if text := safetext.Escape(string(m.schema), "\t\r\n"); len(text) <= most {
			most -= len(text)
			w.Raw(m.name, jsontext.Value(text))
		}
	}
	w.Close()
}

// noInputs is the schema of the inputs of a skill that has none.
const noInputs = `{"type":"object","properties":{}}`

// readable reports whether all clients can read a JSON value: it is not too deep, and its numbers fit a double. full also
// demands that no member and no element is null or empty: before some clients verify a signature, they remove those.
func readable(value jsontext.Value, full bool) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(value))
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if dec.StackDepth() > maxSchemaDepth {
			return false
		}
		parent, members := dec.StackIndex(dec.StackDepth())
		isName := parent == '{' && members%2 == 1
		switch kind := token.Kind(); kind {
		case '0':
			if _, err := strconv.ParseFloat(token.String(), 64); err != nil {
				return false
			}
		case 'n':
			if full {
				return false
			}
		case '"':
			if full && !isName && token.String() == "" {
				return false
			}
		case '{', '[':
			if next := dec.PeekKind(); full && (next == '}' || next == ']') {
				return false
			}
		}
	}
}
