package document

import (
	"cmp"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
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

func meaningOf(def definition, pointer string) Meaning {
	node := schemas()[def]
	for token := range jsontext.Pointer(pointer).Tokens() {
		for node.Ref != nil {
			node = node.Ref
		}
		if node = cmp.Or(node.Properties[token], node.Items2020); node == nil {
			return Meaning{}
		}
	}
	m := Meaning{About: node.Description}
	if len(node.Examples) > 0 {
		m.Example = jsonvalue.Marshal(node.Examples[0])
	}
	return m
}
