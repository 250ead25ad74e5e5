package a2a

import (
	"errors"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// roomWait is the time that a stream waits for memory for an event, and roomPause the time between two attempts.
	roomWait  = 10 * time.Second
	roomPause = 100 * time.Millisecond
	// maxOwnEvent bounds the events that each stream encodes for itself, in bytes. Streams share longer ones.
	maxOwnEvent = 4 << 10
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
	return noRoom(r, tasks...)
}

// noRoom returns the error for an answer with these tasks while other answers use the memory.
func noRoom(r *request, tasks ...*task.Task) *jsonrpc.Error {
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

// sendEvent sends an event, and waits for memory for it if it is long. It reports whether the stream goes on. If there is no memory,
// it returns the error.
func sendEvent(r *request, number uint64, e wire.Event) (ok bool, fault *jsonrpc.Error) {
	s, size := r.Stream(), e.Size()
	if size <= maxOwnEvent {
		return s.Result(number, e.AppendTo(nil)) == nil, nil
	}
	for end := time.Now().Add(roomWait); ; {
		err := r.front.events.Send(s, number, e, size, e.AppendTo)
		if !errors.Is(err, jsonrpc.ErrNoRoom) {
			return err == nil, nil
		}
		if time.Now().After(end) {
			return false, noRoom(r, e.Task)
		}
		select {
		case <-r.ctx.Done():
			return false, nil
		case <-time.After(roomPause):
		}
	}
}
