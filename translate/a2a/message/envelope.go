package message

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// Envelope returns the skill and the inputs of a part that is an object {"skill", "input"}: data, or a text that is such an
// object.
func Envelope(p *task.Part) (name string, input jsontext.Value, ok bool) {
	var object jsontext.Value
	switch p.Kind {
	case front.PartData:
		object = p.Data
	case front.PartText:
		if !strings.HasPrefix(strings.TrimSpace(p.Text), "{") {
			return "", nil, false
		}
		object = jsontext.Value(p.Text)
		if jsonrpc.Deeper(object, maxDepth) || !object.IsValid() {
			return "", nil, false
		}
	default:
		return "", nil, false
	}
	if object.Kind() != '{' {
		return "", nil, false
	}
	if !bytes.Contains(object, []byte(`"skill"`)) && bytes.IndexByte(object, '\\') < 0 {
		return "", nil, false
	}
	others := false
	eachMember(object, func(key []byte, value jsontext.Value) bool {
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
