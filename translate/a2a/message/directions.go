package message

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// maxDepth bounds how deep a text that is JSON may nest.
const maxDepth = 512

// isJSON reports whether a text is one JSON value that nests at most maxDepth deep.
func isJSON(v jsontext.Value) bool { return !jsonrpc.Deeper(v, maxDepth) && v.IsValid() }

// textOf returns the text of a JSON string; empty: the value is not a string.
func textOf(v jsontext.Value) string {
	if v.Kind() != '"' {
		return ""
	}
	return string(jsonrpc.Unquote(v))
}

// eachMember calls a function for each member of a valid JSON object, until the function returns false. For any other value it
// does nothing. The name is valid only during the call; the value is a slice of the object.
func eachMember(object jsontext.Value, each func(name []byte, value jsontext.Value) bool) {
	jsonrpc.EachMember(object, func(name, value jsontext.Value) bool { return each(jsonrpc.Unquote(name), value) })
}

// Directions are the values for the bridge in the metadata of a message or request.
type Directions struct {
	Skills   []string      // the names of skills, up to MaxNames
	Timeout  time.Duration // 0: none
	Priority string        // empty: none
}

// MaxNames bounds the names of skills that are read from a message. A skill has fewer spellings of its name.
const MaxNames = 16

// maxTimeout bounds the timeout that a client may ask for. The bridge's own maximum is shorter.
const maxTimeout = 1000 * time.Hour

// DirectionsIn reads metadata: names of skills, and from the object of the extension a name, timeoutMs and priority.
func DirectionsIn(metadata jsontext.Value) (d Directions) {
	name := func(value jsontext.Value) {
		if s := textOf(value); s != "" && len(d.Skills) < MaxNames {
			d.Skills = append(d.Skills, s)
		}
	}
	eachMember(metadata, func(key []byte, value jsontext.Value) bool {
		switch string(key) {
		case "skillId", "skill_id", "skill":
			name(value)
		case wire.Extension:
			eachMember(value, func(key []byte, value jsontext.Value) bool {
				switch string(key) {
				case "skill":
					name(value)
				case "priority":
					d.Priority = textOf(value)
				case "timeoutMs":
					if n, err := strconv.ParseInt(string(value), 10, 64); err == nil && n > 0 && n < int64(maxTimeout/time.Millisecond) {
						d.Timeout = time.Duration(n) * time.Millisecond
					}
				}
				return true
			})
		}
		return true
	})
	return d
}
