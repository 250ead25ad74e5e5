package run

// State is how a run is. The zero value means that no run was accepted.
type State uint8

// The states of a run. It changes from one of the first two to one of the others, and then not any more.
const (
	Accepted  State = iota + 1 // it has not started yet
	Working                    // it goes on
	Completed                  // it has brought its output
	Failed                     // it ended without
	TimedOut                   // the provider ended it because it took too long
	Canceled                   // it was ended on request
	Lost                       // it was accepted, but how it ended can't be learned
)

// Ended reports whether a run in this state does not change any more.
func (s State) Ended() bool { return s >= Completed }

// stateNames are what logs, traces and commands call the states.
var stateNames = [...]string{"", "accepted", "running", "completed", "failed", "timeout", "canceled", "lost"}

// String implements [fmt.Stringer] in the words of logs, traces and commands.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}
