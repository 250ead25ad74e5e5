package skillsharing

// Caller identifies who invokes skills (section 5.3). Credentials never travel in it.
type Caller struct {
	ID   string // unique identifier
	Type string // for example "service"
}

// Priority is the execution priority of an invocation (section 5.3).
type Priority string

// The priorities of the protocol.
const (
	PriorityLow    Priority = "low"
	PriorityNormal Priority = "normal"
	PriorityHigh   Priority = "high"
)
