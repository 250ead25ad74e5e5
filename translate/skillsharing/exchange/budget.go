package exchange

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// AnswerBudget limits the memory of answers: of calls that are answered together, and of all calls.
// Implementations must be safe for concurrent use.
type AnswerBudget interface {
	// Reserve replaces the number of bytes that are reserved for the call. It reports whether there is
	// room for them; if not, nothing is reserved any more.
	Reserve(size int64) bool
	// AnswerLimit returns the name of the limit that the last failed Reserve exceeded, and how many bytes it allows.
	AnswerLimit() (name string, most int64)
}

// PatientBudget is an [AnswerBudget] of a call that can wait until other answers have left room for its own. It waits only while an
// answer is read: an answer that another watcher of the run has read is not kept without room.
type PatientBudget interface {
	AnswerBudget
	// Await waits until there is room for an answer of which size bytes are needed now, and most bytes at the end at the most. It
	// returns false if the context ends before, or if there will never be so much room.
	Await(ctx context.Context, size, most int64) bool
	// Release frees the room. The call does that at its end.
	Release()
}

// AnswerBudgetKey is the key of the [AnswerBudget] that the context of a call may have.
type AnswerBudgetKey struct{}

// ErrNoRoom is the cause of a [run.Failure] that is about an [AnswerBudget].
var ErrNoRoom = errors.New("there is no room in the answer")

// members is more than an answer to an agent has besides what a provider's answer has, in bytes.
const members = 4 << 10

// keep reserves memory for an answer of which size bytes are read now, and at most as many as most. It reports whether there is room.
func (w *watchedBody) keep(size, most int) bool {
	switch budget := w.budget.(type) {
	case nil:
		return true
	case PatientBudget:
		if w.alarm != nil { // the body is not read meanwhile; the context ends with the call
			w.alarm.timer.Stop()
			defer func() { w.alarm.timer.Reset(w.patience()) }()
		}
		began := time.Now()
		defer func() { w.waited = w.waited || time.Since(began) >= time.Second }()
		return budget.Await(w.ctx, int64(size), int64(most)+members)
	default:
		return budget.Reserve(int64(size))
	}
}

// settle ends the reservation of memory that a PatientBudget has made for more than was read.
func (w *watchedBody) settle(size int) {
	if budget, ok := w.budget.(PatientBudget); ok {
		if size > 0 && !w.document { // a document that asked for more now could lose all it has
			size += members
		}
		budget.Reserve(int64(size))
	}
}

// NoRoom returns the failure of a call whose answer exceeds a budget.
// If the skill was executed, its output can be fetched later only if the run can be followed.
func NoRoom(budget AnswerBudget, phase run.Phase, executionID string, executed run.Executed, followable bool) *run.Failure {
	limit, most := budget.AnswerLimit()
	e := &run.Failure{
		Kind: run.RateLimited, Cause: ErrNoRoom, Phase: phase, By: run.Bridge, Ref: run.Ref{ExecutionID: executionID}, Executed: executed,
		Message: fmt.Sprintf("There is no room for this answer (at most %d bytes)", most),
		Limit:   &run.Limit{Name: limit, Max: most},
	}
	switch {
	case executed == run.ExecutedNo:
		e.Message += "; send the call again"
		e.Retry = run.RetryIn(time.Second, 3)
	case followable:
		e.Message += "; get the run again"
		e.Retry = run.RetryIn(time.Second, 3)
	default:
		e.Message += ", and it can't be read again."
		e.Lost = true
	}
	return e
}

// noRoom returns the failure for an answer of which only the beginning was read.
func (s *Sender) noRoom(a *Answer, about document.Asked) *run.Failure {
	id, does := about.ExecutionID, executed(a.Status, about.Phase)
	if id == "" {
		if id = begunID(a.Body); s.ScrubText(id) != id {
			id = ""
		}
	}
	if id != "" {
		does = run.ExecutedYes
	}
	e := NoRoom(a.withoutRoom, about.Phase, id, does, id != "" && (about.ExecutionID != "" || about.Followable))
	e.HTTPStatus = a.Status
	return e
}

// begunID returns the execution id in the beginning of an InvocationResponse; empty: there is none.
func begunID(body []byte) string {
	value := jsonrpc.ValueOf(document.WithoutBOM(body), "execution_id")
	if !value.IsValid() { // it may be cut
		return ""
	}
	if id, ok := document.Text(value); ok && len(id) <= document.MaxExecutionID {
		return id
	}
	return ""
}
