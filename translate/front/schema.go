package front

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
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
	c.add(schema, false)
	return c.Buf
}

// cleaner writes a schema.
type cleaner struct {
	Writer
	omitted string // keyword
}

// add adds a part of a schema; names says that its members are named by the provider.
func (c *cleaner) add(v jsontext.Value, names bool) {
	switch v.Kind() {
	case '{':
		c.Buf = append(c.Buf, '{')
		jsonrpc.EachMember(v, func(name, value jsontext.Value) bool {
			keyword := string(jsonrpc.Unquote(name))
			switch {
			case names:
				c.member(name)
				c.add(value, false)
			case keyword == c.omitted && keyword != "", safetext.Line(keyword, maxKeyword) != keyword:
				// Not the latter either: it is no keyword, but a text for models that people do not see.
			default:
				c.keyword(keyword, name, value)
			}
			return true
		})
		c.Buf = append(c.Buf, '}')
	case '[':
		c.items(v, func(item jsontext.Value) { c.add(item, false) })
	case '"':
		c.Buf = AppendText(c.Buf, safetext.Line(string(jsonrpc.Unquote(v)), maxSchemaText))
	default:
		c.Buf = append(c.Buf, v...)
	}
}

// keyword adds a keyword with its value.
func (c *cleaner) keyword(keyword string, name, value jsontext.Value) {
	c.member(name)
	switch keyword {
	case "default", "examples":
		c.data(value)
	case "const", "enum",
		"$ref", "$id", "$schema", "$anchor", "$dynamicRef", "$dynamicAnchor", "type", "format", "pattern", "contentEncoding", "contentMediaType",
		"required", "dependentRequired":
		c.Buf = append(c.Buf, value...)
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		c.add(value, true)
	default: // also unknown ones
		c.add(value, false)
	}
}

// data adds a value of which nothing depends.
func (c *cleaner) data(v jsontext.Value) {
	switch v.Kind() {
	case '{':
		c.Buf = append(c.Buf, '{')
		jsonrpc.EachMember(v, func(name, value jsontext.Value) bool {
			c.member(name)
			c.data(value)
			return true
		})
		c.Buf = append(c.Buf, '}')
	case '[':
		c.items(v, c.data)
	case '"':
		lines := strings.Split(string(jsonrpc.Unquote(v)), "\n")
		for i, line := range lines {
			lines[i] = safetext.Line(line, len(line)+1)
		}
		c.Buf = AppendText(c.Buf, strings.Join(lines, "\n"))
	default:
		c.Buf = append(c.Buf, v...)
	}
}

// items adds an array whose elements add adds.
func (c *cleaner) items(array jsontext.Value, add func(jsontext.Value)) {
	c.Buf = append(c.Buf, '[')
	for _, item := range jsonrpc.Items(array) {
		c.Next()
		add(item)
	}
	c.Buf = append(c.Buf, ']')
}

// member adds the name of a member.
func (c *cleaner) member(name jsontext.Value) {
	c.Next()
	c.Buf = append(append(c.Buf, name...), ':')
}
