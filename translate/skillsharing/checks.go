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
	// costly is from how many steps of one request on a check waits for its turn: about
	// ten times those of 64 KiB with an ordinary schema.
	costly = 10_000_000
)

// check is that of one argument.
type check struct {
	checks  *Checks
	most    int64 // steps of the request
	hasTurn bool
}

// takeTurn waits, if the request becomes costly with some more steps than it has spent,
// until there is a processor for one that takes long, so that these leave some to all
// others. It reports whether there is, which is false if the call has ended before.
func (c *check) takeTurn(ctx context.Context, more int) bool {
	if c.hasTurn || c.checks.steps.Load()+int64(more) <= costly {
		return true
	}
	select {
	case judges <- struct{}{}:
		c.hasTurn = true
	case <-ctx.Done():
	}
	return c.hasTurn
}

func (c *check) end() {
	if c.hasTurn {
		<-judges
	}
}
