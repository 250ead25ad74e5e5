package a2a

import (
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// roomWait is how long a stream waits for room for an event, and roomPause the time between two tries.
	roomWait  = 10 * time.Second
	roomPause = 100 * time.Millisecond
)

// reserve reserves the memory for an answer with these tasks before it is made. The error says that others take all of it.
func reserve(r *request, tasks ...*task.Task) *jsonrpc.Error {
	var size int64
	which := "the tasks"
	for _, t := range tasks {
		if size += task.Size(t); len(tasks) == 1 {
			which = "the task " + t.ID
		}
	}
	if r.Reserve(size) {
		return nil
	}
	return r.failureError(&run.Failure{
		Kind: run.RateLimited, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedMaybe,
		Message: "There is no room for the answer at the moment, because other answers are being read. Read " + which + " later.",
		Retry:   run.RetryIn(time.Second, 5),
	})
}

// reserveEvent is reserve for an event of a stream, which waits for room.
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
