// Package sample has documents for tests: a descriptor, an index and schemas.
package sample

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Descriptor is a valid descriptor.
const Descriptor = `{
	"protocol": {"version": "1.0.0", "changelog_url": "https://example.com/changelog"},
	"id": "acme/forecast", "name": "Forecast", "version": "2.1.0", "capability_type": "api", "description": "Tells the weather.",
	"provider": {"name": "Acme Weather", "url": "https://acme.example", "contact": "ops@acme.example"},
	"endpoint": {
		"url": "https://api.acme.example/forecast", "method": "POST", "content_type": "application/json",
		"status_url": "https://api.acme.example/status/{execution_id}", "result_url": "https://api.acme.example/result/{execution_id}"
	},
	"inputs": [
		{"name": "location", "type": "string", "description": "A city.", "required": true},
		{"name": "days", "type": "number", "description": "How many.", "required": false, "default": 7}
	],
	"output": {"content_type": "application/json"},
	"auth": {"type": "none"},
	"access": "public"
}`

// Index is a valid index.
const Index = `{
	"protocol": {"version": "1.0.0"},
	"provider": {"name": "Acme", "url": "https://acme.example"},
	"skills": [
		{"id": "acme/forecast", "name": "Forecast", "capability_type": "api", "description": "Tells the weather.",
		 "descriptor_url": "https://acme.example/skills/forecast.json", "access": "public", "version": "2.1.0"},
		{"id": "acme/translate", "name": "Translate", "capability_type": "task", "description": "Translates.",
		 "descriptor_url": "https://acme.example/skills/translate.json", "access": "restricted", "version": "1.3.0"}
	]
}`

// OAuth2 and CustomAuth are the details of these kinds of authentication.
const (
	OAuth2     = `{"authorization_url":"https://login.acme.example/authorize","token_url":"https://login.acme.example/token","scopes":{"read":"Read"}}`
	CustomAuth = `{"instructions":"Sign the body.","parameters":[{"name":"key","type":"string","description":"Key.","required":true}]}`
)

// Edited returns a document with edits applied, each "pointer=JSON" to set a
// member or "-pointer" to remove one.
func Edited(tb testing.TB, doc string, edits ...string) []byte {
	tb.Helper()
	var root any
	if err := json.Unmarshal([]byte(doc), &root); err != nil {
		tb.Fatal(err)
	}
	for _, edit := range edits {
		path, text, set := strings.Cut(edit, "=")
		var value any
		if set {
			if err := json.Unmarshal([]byte(text), &value); err != nil {
				tb.Fatalf("edit %s: %v", edit, err)
			}
			if path == "" {
				root = value
				continue
			}
		}
		tokens := slices.Collect(jsontext.Pointer(strings.TrimPrefix(path, "-")).Tokens())
		parent := root
		for _, token := range tokens[:len(tokens)-1] {
			if list, ok := parent.([]any); ok {
				i, _ := strconv.Atoi(token)
				parent = list[i]
				continue
			}
			parent = parent.(map[string]any)[token]
		}
		last := tokens[len(tokens)-1]
		if list, ok := parent.([]any); ok {
			i, _ := strconv.Atoi(last)
			list[i] = value
			continue
		}
		if set {
			parent.(map[string]any)[last] = value
		} else {
			delete(parent.(map[string]any), last)
		}
	}
	text, err := json.Marshal(root, json.Deterministic(true))
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// Doubling is a schema of n definitions each of which applies the next one twice.
func Doubling(n int, apply string) string {
	defs := make([]string, 0, n)
	for i := range n {
		defs = append(defs, fmt.Sprintf(`"d%d":%s`, i, strings.ReplaceAll(apply, "*", fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1))))
	}
	return fmt.Sprintf(`{"$ref":"#/$defs/d0","$defs":{%s,"d%d":{"type":"string"}}}`, strings.Join(defs, ","), n)
}

// Property is an ordinary schema, the nth of some that differ.
func Property(n int) string {
	const about = `,"description":"What it is, in a sentence that helps to fill it in."}`
	switch n % 12 {
	case 0:
		return `{"type":"string","title":"Name","minLength":1,"maxLength":` + strconv.Itoa(n+10) + about
	case 1:
		return `{"type":"string","pattern":"^[A-Z]{2}-[0-9]{1,` + strconv.Itoa(n%90+2) + `}$","examples":["DE-1"]` + about
	case 2:
		return `{"type":"number","minimum":0,"maximum":` + strconv.Itoa(n*1000) + `,"default":0.5` + about
	case 3:
		return `{"type":"string","enum":["new","open","paid","sent","lost","v` + strconv.Itoa(n) + `"],"default":"new"` + about
	case 4:
		return `{"type":"array","items":{"type":"string","format":"date"},"minItems":1,"maxItems":50,"uniqueItems":true` + about
	case 5:
		return `{"type":"object","required":["street","city"],"properties":{"street":{"type":"string"},"city":{"type":"string","maxLength":100},"country":{"type":"string","pattern":"^[A-Z]{2}$"}}` + about
	case 6:
		return `{"type":["integer","null"],"exclusiveMinimum":-1,"multipleOf":5` + about
	case 7:
		return `{"type":"boolean","default":false` + about
	case 8:
		return `{"oneOf":[{"type":"string","format":"email"},{"type":"object","properties":{"id":{"type":"integer","minimum":1}},"required":["id"]}]` + about
	case 9:
		return `{"type":"string","format":"date-time","nullable":true,"example":"2026-01-01T00:00:00Z"` + about
	case 10:
		return `{"type":"object","additionalProperties":{"type":"string"},"maxProperties":20` + about
	default:
		return `{"type":"array","items":{"type":"object","properties":{"sku":{"type":"string"},"count":{"type":"integer","minimum":1}},"required":["sku"],"additionalProperties":false}` + about
	}
}
