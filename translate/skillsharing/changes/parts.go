package changes

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// partNames are the parts of a descriptor that say what a skill asks for.
var partNames = [...]string{"skill", "description", "endpoint", "inputs", "auth"}

// object is a JSON object.
type object = map[string]any

// asks returns what a descriptor asks for, by part. The values are as package json reads them; inputs are by name, since their order does not
// matter.
func asks(d *document.Descriptor) [len(partNames)]object {
	endpoint := object{}
	for name, text := range map[string]string{"url": d.Endpoint.URL, "status_url": d.Endpoint.StatusURL, "result_url": d.Endpoint.ResultURL} {
		if text != "" {
			endpoint[name] = originOf(text)
		}
	}
	auth := object{"type": string(d.Auth.Type)}
	if d.Auth.Type == document.AuthAPIKey {
		auth["header"] = d.Auth.ApiKeyHeader()
	}
	if o := d.Auth.OAuth2; o != nil {
		scopes := object{}
		for scope := range o.Scopes {
			scopes[scope] = true // its description does not count
		}
		auth["oauth2"] = object{"authorization_url": o.AuthorizationURL, "token_url": o.TokenURL, "scopes": scopes}
	}
	if c := d.Auth.Custom; c != nil {
		auth["custom"] = object{"instructions": c.Instructions, "parameters": parameters(c.Parameters)}
	}
	return [...]object{
		{"id": d.ID},
		{"name": d.Name, "description": d.Description},
		{"endpoint": endpoint},
		{"inputs": parameters(d.Inputs)},
		{"auth": auth},
	}
}

// originOf returns the scheme, host and port of a URL.
func originOf(text string) string {
	before, _, _ := strings.Cut(text, "{") // in a template, the variable is behind the host
	u, err := url.Parse(before)
	if err != nil {
		return text
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

func parameters(list []document.Parameter) object {
	all := object{}
	for i := range list {
		p := &list[i]
		of := object{"type": p.Type, "description": p.Description, "required": p.Required}
		if p.Default != nil {
			of["default"] = parsed(p.Default)
		}
		if p.Schema != nil {
			of["schema"] = meaning(parsed(p.Schema))
		}
		all[p.Name] = of
	}
	return all
}

func parsed(text jsontext.Value) (value any) {
	if err := json.Unmarshal(text, &value, json.WithUnmarshalers(numbers)); err != nil {
		return string(text) // not in a valid descriptor
	}
	return value
}

// numbers makes package json read numbers with number.
var numbers = json.UnmarshalFromFunc(func(dec *jsontext.Decoder, value *any) error {
	if dec.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	text, err := dec.ReadValue()
	*value = number(text)
	return err
})

// number returns the same value for 1 and 1.0. Those with exponents are what is written: reading them may take long.
func number(text jsontext.Value) any {
	if bytes.IndexByte(text, '.') >= 0 && !bytes.ContainsAny(text, "eE") {
		text = bytes.TrimRight(bytes.TrimRight(text, "0"), ".")
	}
	return text.Clone()
}

// Keywords of JSON Schema: their members are names and not keywords, the order of their values does not matter, and their values are data.
var (
	named     = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
	unordered = []string{"required", "enum", "type"}
	data      = []string{"const", "enum", "default", "examples", "required", "type", "dependentRequired"}
)

// meaning returns a schema with lists whose order does not matter in one order. Keywords that say nothing about the value, such as examples
// and $comment, count, since models read them. It may change the schema.
func meaning(schema any) any {
	switch schema := schema.(type) {
	case object:
		for name, member := range schema {
			list, isList := member.([]any)
			inner, isObject := member.(object)
			switch {
			case isList && slices.Contains(unordered, name):
				sortByText(list)
			case isObject && slices.Contains(named, name):
				for key, of := range inner {
					inner[key] = meaning(of)
				}
			case !slices.Contains(data, name):
				schema[name] = meaning(member)
			}
		}
	case []any: // such as allOf
		for i := range schema {
			schema[i] = meaning(schema[i])
		}
	}
	return schema
}

// sortByText makes the text of each value once.
func sortByText(values []any) {
	type entry struct {
		text  string
		value any
	}
	entries := make([]entry, len(values))
	for i, v := range values {
		entries[i] = entry{compact(v), v}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.text, b.text) })
	for i := range entries {
		values[i] = entries[i].value
	}
}

func compact(value any) string {
	text, _ := json.Marshal(value, json.Deterministic(true)) // it was read from JSON
	return string(text)
}

// fingerprint is the hash of each part of a descriptor.
type fingerprint [len(partNames)][sha256.Size]byte

func fingerprintOf(d *document.Descriptor) (p fingerprint) {
	for i, part := range asks(d) {
		p[i] = sha256.Sum256([]byte(compact(part)))
	}
	return p
}

// digest returns the hash of all parts.
func (p fingerprint) digest() string {
	all := make([]byte, 0, len(p)*sha256.Size)
	for i := range p {
		all = append(all, p[i][:]...)
	}
	sum := sha256.Sum256(all)
	return hex.EncodeToString(sum[:])
}

// changed returns the names of the parts that differ.
func changed(a, b fingerprint) (parts []string) {
	for i := range a {
		if a[i] != b[i] {
			parts = append(parts, partNames[i])
		}
	}
	return parts
}
