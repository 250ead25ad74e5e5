package a2a

import (
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// roomWait is the time that a stream waits for memory for an event, and roomPause the time between two attempts.
	roomWait  = 10 * time.Second
	roomPause = 100 * time.Millisecond
)

// reserve reserves the memory for an answer with these tasks before the answer is made. It returns an error if other answers
// use the memory.
func reserve(r *request, tasks ...*task.Task) *jsonrpc.Error {
	var size int64
	for _, t := range tasks {
		size += task.Size(t)
	}
	if r.Reserve(size) {
		return nil
	}
	which := "the tasks"
	if len(tasks) == 1 {
		which = "the task " + tasks[0].ID
	}
	return r.failureError(&run.Failure{
		Kind: run.RateLimited, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedMaybe,
		Message: "There is no room for the answer at the moment, because other answers are being read. Read " + which + " later.",
		Retry:   run.RetryIn(time.Second, 5),
	})
}

// reserveEvent does what reserve does, for an event of a stream. It waits for the memory.
func reserveEvent(r *request, t *task.Task) *jsonrpc.Error {
	for end := time.Now().Add(roomWait); ; {
		fault := reserve(r, t)
		if fault == nil || time.Now().After(end) {
			return fault
		}
		select {
		case <-r.ctx.Done():
			return fault
		case <-time.After(roomPause):
		}
	}
}
