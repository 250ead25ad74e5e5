package inputs

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// Checks counts the work of checking arguments for one request so far, in steps of about
// 10 ns. Several calls may share the request. The zero value is ready for use.
type Checks struct{ steps atomic.Int64 }

// spend adds steps to the work of the request. If the sum exceeds [schema.MaxSteps], it adds nothing and
// reports false.
func (c *Checks) spend(steps float64) bool {
	if steps > schema.MaxSteps {
		return false
	}
	if c.steps.Add(int64(steps)) > schema.MaxSteps {
		c.steps.Add(-int64(steps))
		return false
	}
	return true
}

const (
	// stepsPerByte is how many steps it takes to read one byte of an argument.
	stepsPerByte = 5
	// costly is how many steps a request may take without waiting for a turn.
	// Checking 64 KiB against an ordinary schema takes about a tenth of it.
	costly = 10_000_000
)

// check is the check of one argument.
type check struct {
	checks  *Checks
	source  string // of the descriptor
	asker   share.Line
	hasTurn bool
}

// takeTurn waits for a turn if the spent steps and more steps exceed costly. It reports
// false if the call has ended before.
func (c *check) takeTurn(ctx context.Context, more int) bool {
	if !c.hasTurn && c.checks.steps.Load()+int64(more) > costly {
		// Copies, so that check does not escape to the heap if it needs no turn.
		c.hasTurn = checkTurns.Take(ctx, strings.Clone(c.source), share.Line{Principal: strings.Clone(c.asker.Principal), SkillID: strings.Clone(c.asker.SkillID)})
		return c.hasTurn
	}
	return true
}

func (c *check) end() {
	if c.hasTurn {
		checkTurns.End(c.source)
	}
}

// noTurn returns the failure of a call whose deadline passed before its arguments were
// checked; nil: the call has ended for another reason, which the caller of Check reports.
func noTurn(ctx context.Context) *run.Failure {
	if !errors.Is(run.CauseOf(ctx), context.DeadlineExceeded) {
		return nil
	}
	return run.Busy(run.PhaseInvoke, "The deadline passed before the arguments could be checked: their check takes long, and the bridge was busy with others; try again later, or with smaller arguments.")
}

// checkTurns limits how many long checks run at a time. They take up to a second each and can't be interrupted.
var checkTurns = share.NewQueue(max(2, runtime.GOMAXPROCS(0)/2))
