package message

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// Envelope returns the skill and the inputs of a part that is an object {"skill", "input"}: data, or a text that is such an
// object.
func Envelope(p *task.Part) (name string, input jsontext.Value, ok bool) {
	others := false
	eachMember(objectOf(p), func(key []byte, value jsontext.Value) bool {
		switch {
		case string(key) == "skill" && value.Kind() == '"':
			name = textOf(value)
		case string(key) == "input" && value.Kind() == '{':
			input = value
		case string(key) == "input" && value.Kind() == 'n': // null is the same as absent
		default:
			others = true
		}
		return !others
	})
	return name, input, name != "" && !others
}

// objectOf returns the object of a part that has a member skill, or nil.
func objectOf(p *task.Part) jsontext.Value {
	var object jsontext.Value
	switch p.Kind {
	case front.PartData:
		object = p.Data
	case front.PartText:
		if !strings.HasPrefix(strings.TrimSpace(p.Text), "{") {
			return nil
		}
		object = jsontext.Value(p.Text)
		if !isJSON(object) {
			return nil
		}
	}
	if object.Kind() != '{' || !bytes.Contains(object, []byte(`"skill"`)) && bytes.IndexByte(object, '\\') < 0 {
		return nil
	}
	return object
}

// NoEnvelope says why parts with a member skill name no skill; empty: there are none.
func NoEnvelope(parts []task.Part) string {
	for i := range parts {
		if _, _, ok := Envelope(&parts[i]); ok {
			continue
		}
		named := false
		eachMember(objectOf(&parts[i]), func(key []byte, value jsontext.Value) bool {
			named = string(key) == "skill" && value.Kind() == '"'
			return !named
		})
		if named {
			return PartField(i) + " names no skill: only an object of nothing but \"skill\" and, optionally, an object \"input\" does. All members of other objects are inputs."
		}
	}
	return ""
}
