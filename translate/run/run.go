package run

import (
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
