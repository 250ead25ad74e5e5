package run

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
