package publish

import (
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

// A Skill is published: an operation of an API, or a descriptor that was written by hand. It is immutable.
type Skill struct {
	ID     string
	Access document.AccessPolicy
	Type   document.CapabilityType
	// Operation is what an invocation becomes; nil: the descriptor was written by hand, and its endpoint is elsewhere.
	Operation *Operation
	// Inputs checks the arguments of invocations; nil if Operation is nil.
	Inputs *inputs.Inputs

	entry document.IndexEntry // without the URL of the descriptor
	// before and after are the descriptor, without what depends on where it is served: the endpoint. All is in before if it was written by hand.
	before, after jsontext.Value
}

// A LeftOut is an operation that is included, but is no skill.
type LeftOut struct {
	Operation string // its operationId, or its method and path
	Reason    string // for the operator; quotes no contents of referred files
}

// Entry returns the entry in the index. base is where the skills are served, such as https://api.example.com/skill-sharing.
func (s *Skill) Entry(base string) document.IndexEntry {
	entry := s.entry
	entry.DescriptorURL = s.at(base) + ".json"
	return entry
}

// Descriptor returns the descriptor as JSON. The endpoint of an operation is the skill's id below base.
func (s *Skill) Descriptor(base string) []byte {
	_ = base
	return s.before
}

// at returns the URL of the skill.
func (s *Skill) at(base string) string {
	return base + (&url.URL{Path: "/" + s.ID}).EscapedPath()
}
