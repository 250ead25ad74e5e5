package skillsharing

import (
	"context"
	"sync/atomic"
)

// Checks counts what the checks of the arguments of one request have taken so far, in steps
// of about 10 ns; a batch is one request. The zero value is ready for use.
type Checks struct{ steps atomic.Int64 }

// spend takes steps from those that a request may take at most. It reports whether
// there were as many.
func (c *Checks) spend(steps float64, most int64) bool {
	if steps > float64(most) {
		return false
	}
	if c.steps.Add(int64(steps)) > most {
		c.steps.Add(-int64(steps))
		return false
	}
	return true
}

const (
	// stepsPerByte is what it takes to read an argument.
	stepsPerByte = 5
	// costly is from how many steps on a check waits for its turn.
	costly = 1_000_000
)

// takeTurn waits until there is a processor for a check that takes long, so that
// those that take long leave some to all others. It reports whether there is.
func takeTurn(ctx context.Context) bool {
	select {
	case judges <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func giveTurn() { <-judges }
