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
