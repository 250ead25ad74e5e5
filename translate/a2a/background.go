package a2a

import (
	"slices"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/runs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// background is the execution of a submission, which may outlive the request.
type background struct {
	runs.Run

	full chan struct{} // closed when the output waits for memory
	once sync.Once     // closes full
}

// room returns the memory for the output of the run while it is read. The run waits for it, but no request does.
func (s *submission) room() *jsonrpc.Room {
	room := s.front.Server.Room(s.request.caller.Principal)
	room.OnWait = func() { s.once.Do(func() { close(s.full) }) }
	return room
}

// mayBeLate reports whether the task need not be in the ledger before the provider is called: no client hears of it before its request is answered.
func (s *submission) mayBeLate() bool {
	r := s.request
	return !r.method.streams && !r.IsNotification() && !s.send.Immediately && r.version != wire.V01 && s.send.Push == nil && s.front.Ledger.IsReachable()
}

// isReply reports whether the output of a task is the answer itself, without a task.
func (s *submission) isReply(t *task.Task) bool {
	return s.first && t.Artifact != nil && t.Status.State == task.Completed && !s.send.Immediately && s.request.version != wire.V01 &&
		slices.Contains(s.front.Options.ReplyMessage, t.Skill)
}

// answered is called at the end of the request, with the state in its answer. If the call ends with that state, answered waits for
// the report of the call, so that the access log has its result. Otherwise the call goes on without a request.
func (s *submission) answered(state task.State) {
	r := s.request
	if s.ended == nil { // the message joined a task whose run has its own call
		return
	}
	if settledBy(state) {
		select {
		case <-s.ended:
			return
		case <-r.ctx.Done():
		}
	}
	s.Detach()
	select {
	case <-s.ended:
	default:
		s.front.observer().LeftRunning(r.ctx, &r.caller, s.task)
	}
}

// settledBy reports whether the call of a task ends with a state. A run of a task that was canceled may go on.
func settledBy(s task.State) bool { return (s.Terminal() || s.Interrupted()) && s != task.Canceled }
