package task

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// State is the state of a task (A2A 1.0, section 4.1.3).
type State uint8

// The states.
const (
	Submitted     State = iota + 1 // the provider has not accepted the run yet
	Working                        // the provider has accepted the run
	InputRequired                  // the client has to send a further message, with inputs
	AuthRequired                   // the operator has to add or correct a credential
	Completed
	Failed
	Canceled
	Rejected // this bridge can't run the skill
)

// stateNames are the names of the states in entries, logs and metrics, which are those of A2A 0.3.
var stateNames = [...]string{"", "submitted", "working", "input-required", "auth-required", "completed", "failed", "canceled", "rejected"}

// Terminal reports whether the task has ended, so that no event follows.
func (s State) Terminal() bool { return s >= Completed }

// Interrupted reports whether the task waits for the client or the operator.
func (s State) Interrupted() bool { return s == InputRequired || s == AuthRequired }

// Settled reports whether a client that waits for the task gets its answer: it has ended, or waits for the client or the operator.
func (s State) Settled() bool { return s.Terminal() || s.Interrupted() }

// String implements [fmt.Stringer] with the name in entries, logs and metrics.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return ""
}

// MarshalJSONTo implements [json.MarshalerTo].
func (s State) MarshalJSONTo(to *jsontext.Encoder) error {
	return to.WriteToken(jsontext.String(s.String()))
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *State) UnmarshalText(text []byte) error {
	i := slices.Index(stateNames[:], string(text))
	if i <= 0 {
		return fmt.Errorf("%.40q is not the state of a task", text)
	}
	*s = State(i) //nolint:gosec // there are nine names
	return nil
}
