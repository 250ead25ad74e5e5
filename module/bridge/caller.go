package bridge

// Caller is the identity of the bridge in requests to providers (Skill Sharing
// Protocol, section 5.3).
type Caller struct {
	// Identifies this bridge. Default: `skill-bridge`.
	ID string `json:"id,omitempty"`

	// What kind of caller it is. Default: `service`.
	Type string `json:"type,omitempty"`
}

const (
	defaultCallerID   = "skill-bridge"
	defaultCallerType = "service"
)
