package front

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

const (
	maxKeyword    = 200  // characters of a keyword of a schema that is none of JSON Schema
	maxSchemaText = 2000 // characters of a text in a schema
)

// HeaderKeyword is the keyword of a schema with which a server of MCP makes clients repeat an argument in a header field. Without the operator's
// consent, a provider could so choose what proxies log.
const HeaderKeyword = "x-mcp-header"

// CleanSchema returns a JSON Schema of a provider whose texts for people and models are visible and have at most 2,000 characters,
// without the keyword omitted; empty: with all. Texts in default values and examples are visible, too. What calls are checked against
// stays as it is: the names of properties, values, and references.
func CleanSchema(schema jsontext.Value, omitted string) jsontext.Value {
	if !slices.ContainsFunc(schema, func(c byte) bool { return c == '\\' || c >= utf8.RuneSelf }) &&
		(omitted == "" || !bytes.Contains(schema, []byte(omitted))) {
		return schema
	}
	c := cleaner{Writer{Buf: make([]byte, 0, len(schema))}, omitted}
	c.add(schema, partSchema)
	return c.Buf
}

// schemaPart says what a value in a schema is.
type schemaPart int

const (
	partSchema schemaPart = iota
	partNamed             // an object of schemas with names of the provider
	partData              // a value of which nothing depends
	partFixed             // what calls are checked against
)

// cleaner writes a schema.
type cleaner struct {
	Writer
	omitted string // keyword
}

// add adds a part of a schema.
func (c *cleaner) add(v jsontext.Value, part schemaPart) {
	switch kind := v.Kind(); {
	case kind == '{' && part != partFixed:
		c.Buf = append(c.Buf, '{')
		for name, value := range jsonrpc.Members(v) {
			below, kept := part, true
			switch part {
			case partSchema:
				below, kept = c.keyword(string(jsonrpc.Unquote(name)))
			case partNamed:
				below = partSchema
			}
			if kept {
				c.Next()
				c.Buf = append(append(c.Buf, name...), ':')
				c.add(value, below)
			}
		}
		c.Buf = append(c.Buf, '}')
	case kind == '[' && part != partFixed:
		if part == partNamed {
			part = partSchema
		}
		c.Buf = append(c.Buf, '[')
		for item := range jsonrpc.Items(v) {
			c.Next()
			c.add(item, part)
		}
		c.Buf = append(c.Buf, ']')
	case kind == '"' && part == partData:
		lines := strings.Split(string(jsonrpc.Unquote(v)), "\n")
		for i, line := range lines {
			lines[i] = safetext.Line(line, len(line)+1)
		}
		c.Buf = AppendText(c.Buf, strings.Join(lines, "\n"))
	case kind == '"' && part != partFixed:
		c.Buf = AppendText(c.Buf, safetext.Line(string(jsonrpc.Unquote(v)), maxSchemaText))
	default:
		c.Buf = append(c.Buf, v...)
	}
}

// keyword returns what the value of a keyword is, and whether it is kept. One with hidden characters or of any length is none, but a text for models that
// people do not see.
func (c *cleaner) keyword(keyword string) (value schemaPart, kept bool) {
	switch keyword {
	case "default", "examples":
		value = partData
	case "const", "enum",
		"$ref", "$id", "$schema", "$anchor", "$dynamicRef", "$dynamicAnchor", "type", "format", "pattern", "contentEncoding", "contentMediaType",
		"required", "dependentRequired":
		value = partFixed
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		value = partNamed
	}
	return value, (keyword != c.omitted || keyword == "") && safetext.Line(keyword, maxKeyword) == keyword
}

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
