package document

import (
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Meaning is what the protocol's JSON Schema says about a member of a document.
type Meaning struct {
	// About is a sentence about what the member is for; empty: the schema does not say so.
	About string
	// Example is a valid value of the member; nil: the schema has none.
	Example jsontext.Value
}

// MeaningInDescriptor returns the meaning of the member of a descriptor at a JSON Pointer.
func MeaningInDescriptor(pointer string) Meaning { return meaningOf(defSkillDescriptor, pointer) }

// MeaningInIndex returns the meaning of the member of an index at a JSON Pointer.
func MeaningInIndex(pointer string) Meaning { return meaningOf(defSkillIndex, pointer) }

// schemaNode is a part of the protocol's schema.
type schemaNode struct {
	Ref         string                `json:"$ref"`
	Description string                `json:"description"`
	Examples    []jsontext.Value      `json:"examples"`
	Properties  map[string]schemaNode `json:"properties"`
	Items       *schemaNode           `json:"items"`
}

// UnmarshalJSON implements [json.Unmarshaler]. The schema true has no members.
func (n *schemaNode) UnmarshalJSON(text []byte) error {
	type members schemaNode
	if jsontext.Value(text).Kind() != '{' {
		return nil
	}
	return json.Unmarshal(text, (*members)(n))
}

// definitions are those of the protocol's schema. They are read once, when first needed.
var definitions = sync.OnceValue(func() map[string]schemaNode {
	var file struct {
		Defs map[string]schemaNode `json:"$defs"`
	}
	if err := json.Unmarshal(protocolSchema, &file); err != nil {
		panic("embedded schema.json: " + err.Error())
	}
	return file.Defs
})

func meaningOf(def definition, pointer string) Meaning {
	node := definitions()[string(def)]
	for token := range jsontext.Pointer(pointer).Tokens() {
		node = node.resolved()
		member, known := node.Properties[token]
		switch {
		case known:
			node = member
		case node.Items != nil:
			node = *node.Items
		default:
			return Meaning{}
		}
	}
	m := Meaning{About: node.Description}
	if len(node.Examples) > 0 {
		m.Example = node.Examples[0]
	}
	return m
}

// resolved returns the part to which a part refers, such as "#/$defs/A/properties/b"; the part itself if it refers to none.
func (n schemaNode) resolved() schemaNode {
	rest, refers := strings.CutPrefix(n.Ref, "#/$defs/")
	if !refers {
		return n
	}
	def, member, isMember := strings.Cut(rest, "/properties/")
	node := definitions()[def]
	if isMember {
		node = node.Properties[member]
	}
	return node
}
