package run

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Run is the execution of a skill, as far as it came:
//
//   - It completed, or it goes on and the caller did not want to wait any longer: Failure is nil.
//   - The provider reported that it ended badly: Failure.Kind is [RunFailed].
//   - It was accepted, but its end is not known: Failure says why, and State what was known last.
//   - Nothing was accepted: State is zero, and Failure says why. Of the Ref, there is no more than the skill's id, once it is known.
type Run struct {
	Ref
	State State
	// Output is what a completed run produced, as sent; null when there is none.
	Output jsontext.Value
	// Elapsed is how long the run took by the provider's own clock; 0 when it did not say.
	Elapsed time.Duration
	// RetryAfter is when it makes sense to ask again, of a run that has not ended.
	RetryAfter time.Duration
	Failure    *Failure
}
