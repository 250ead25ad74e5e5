package ledger

import "time"

// GapAt returns the pause between the polls of a run of an age that nobody waits for.
func GapAt(age time.Duration) time.Duration { return gapAt(age) }
