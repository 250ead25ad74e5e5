package run

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Run is the execution of a skill:
//
//   - It completed, or it goes on and the caller's wait is over: Failure is nil.
//   - The provider reported a failed run: Failure.Kind is [RunFailed].
//   - The run was accepted, but could not be followed to its end: Failure says why, and State is the last known state.
//   - No run was accepted: State is zero, and Failure says why. Ref has at most the skill's id.
type Run struct {
	Ref   `json:"-"`
	State State `json:"-"`
	// Output is the output of a completed run, as the provider sent it; null: it has none.
	Output jsontext.Value `json:"output,omitzero"`
	// Elapsed is how long the run took by the provider's clock; 0: it did not say.
	Elapsed time.Duration `json:"elapsed_ns,omitzero"`
	// RetryAfter is the delay until the next poll, if the run has not ended.
	RetryAfter time.Duration `json:"-"`
	Failure    *Failure      `json:"failure,omitzero"`
	// Warnings say what was wrong with the provider's answer, and how it was read nevertheless.
	Warnings []string `json:"warnings,omitzero"`
}

// GoesOn reports whether the run has neither ended nor failed.
func (r *Run) GoesOn() bool { return r.Failure == nil && !r.State.Ended() }

// IsEnd reports whether the run has ended, or it is certain that its end can't be learned.
func (r *Run) IsEnd() bool {
	if r.Failure == nil {
		return r.State.Ended()
	}
	return r.Failure.EndsRun()
}

// Ref identifies a run. It is sufficient to follow the run to its end. Its JSON is stored.
type Ref struct {
	Source      string    `json:"source,omitzero"` // namespace of the provider or registry, or name of the directly configured skill
	SkillID     string    `json:"skill_id,omitzero"`
	Version     string    `json:"version,omitzero"` // of the skill
	ExecutionID string    `json:"execution_id,omitzero"`
	Accepted    time.Time `json:"accepted,omitzero"`   // when the run was accepted; zero: it is not known
	NotBefore   time.Time `json:"not_before,omitzero"` // the earliest time of the next poll, by the provider's Retry-After; zero: none
	// Kept is the id of the entry of the run in the ledger; empty: it has none. Tasks have none.
	Kept string `json:"-"`
}

// State is the state of a run. The zero value means that no run was accepted.
type State uint8

// The states of a run. All but the first two are final. Canceled and Lost are for the records of fronts:
// a [Run] that the bridge returns has neither, since the Skill Sharing Protocol has no cancellation and Failure.Lost
// says that a run can't be followed.
const (
	Accepted  State = iota + 1 // it has not started yet
	Working                    // it is running
	Completed                  // it ended with an output
	Failed                     // it ended with an error
	TimedOut                   // the provider ended it because it took too long
	Canceled                   // it was ended on request
	Lost                       // it was accepted, but its end can't be learned
)

// Ended reports whether the state is final.
func (s State) Ended() bool { return s >= Completed }

// stateNames are the names of the states in logs, traces and commands.
var stateNames = [...]string{"", "accepted", "running", "completed", "failed", "timeout", "canceled", "lost"}

// String implements [fmt.Stringer] with the name in logs, traces and commands.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// Caller is who makes a call, when and how.
type Caller struct {
	// Principal is the authenticated user; empty: anonymous.
	Principal string
	// Ambiguous says why the principal that was sent could be mistaken for another; empty: it can't. Fronts refuse an ambiguous
	// caller. Its Principal is empty.
	Ambiguous string
	// TraceID is the trace id of the call (W3C Trace Context, 32 hexadecimal digits); empty: a new one is made.
	TraceID string
	// TraceParent is the traceparent header for requests to the provider; empty: none.
	TraceParent string
	// Arrived is when the call reached the bridge. Deadlines count from it. Zero: the time at which the bridge starts it.
	Arrived time.Time
	// Front and Method are the protocol and the method of the call, for reports.
	Front, Method string
}

// Reasons to refuse a caller, for the operator.
const (
	PrincipalRequired  = "require_principal is set and the principal is empty"
	AmbiguousPrincipal = "the principal begins or ends with a space or an invisible character, contains control characters, or is not valid UTF-8"
	KeyRequired        = "callers_file is set and the request has no key"
	TokenRequired      = "callers_jwt is set and the request has no token" //nolint:gosec // no credential
	UnknownKey         = "callers_file does not have the key of the request"
	SeveralPrincipals  = "the header that names the principal has several values"
)

// MaxRecord is the size of the largest text that is kept about a run, in bytes.
const MaxRecord = 32 << 20

// ErrDamaged is the error for what can't be read since its content is damaged.
var ErrDamaged = errors.New("the record is damaged")

// ErrNoRoom is the error for an output that was not read because there is no memory for it.
var ErrNoRoom = errors.New("there is no memory for the record")
