package a2a

import (
	"errors"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// roomWait is the time that a stream waits for memory for an event.
	roomWait = 10 * time.Second
	// maxOwnEvent bounds the events and answers that each request encodes for itself, in bytes. Requests share longer ones.
	maxOwnEvent = 4 << 10
)

// reserve reserves the memory for an answer before the answer is made. which says what it has. It returns an error if other answers
// use the memory.
func reserve(r *request, size int64, which string) *jsonrpc.Error {
	if r.Reserve(size) {
		return nil
	}
	return noRoom(r, which)
}

// noRoom returns the error for an answer while other answers use the memory.
func noRoom(r *request, which string) *jsonrpc.Error {
	return r.failureError(&run.Failure{
		Kind: run.RateLimited, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedMaybe, Retry: run.RetryIn(time.Second, 5),
		Message: "There is no room for the answer at the moment, because other answers are being read. Read " + which + " later.",
	})
}

// sendEvent sends an event, and waits for memory for it if it is long. It reports whether the stream goes on. If there is no memory,
// it returns the error.
func sendEvent(r *request, number uint64, e wire.Event) (ok bool, fault *jsonrpc.Error) {
	s, size := r.Stream(), e.Size()
	if size <= maxOwnEvent {
		return s.Result(number, e.AppendTo(nil)) == nil, nil
	}
	if r.room != nil { // the text is counted instead; else those who have read outputs would wait for each other
		r.room.Release()
	}
	err := r.front.events.Send(r.ctx, s, roomWait, number, e, size, e.AppendTo)
	if errors.Is(err, jsonrpc.ErrNoRoom) {
		return false, noRoom(r, "the task "+e.Task.ID)
	}
	return err == nil, nil
}
