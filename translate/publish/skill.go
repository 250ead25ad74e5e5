package publish

import (
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
}

// A LeftOut is an operation that is included, but is no skill.
type LeftOut struct {
	Operation string // its operationId, or its method and path
	Reason    string // for the operator; quotes no contents of referred files
}
