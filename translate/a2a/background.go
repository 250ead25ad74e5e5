package a2a

import (
	"context"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// background is the execution of a submission, which may outlive the request.
type background struct {
	mu        sync.Mutex
	execution translate.Execution
	detached  bool
	full      chan struct{} // closed when the output waits for memory
	once      sync.Once     // closes full
}

// room returns the memory for the output of the run while it is read. The run waits for it, but no request does.
func (s *submission) room() *jsonrpc.Room {
	room := s.front.Server.Room(s.request.caller.Principal)
	room.OnWait = func() { s.once.Do(func() { close(s.full) }) }
	return room
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
	s.detach()
	select {
	case <-s.ended:
	default:
		s.front.observer().LeftRunning(r.ctx, &r.caller, s.task)
	}
}

// settledBy reports whether the call of a task ends with a state. A run of a task that was canceled may go on.
func settledBy(s task.State) bool { return (s.Terminal() || s.Interrupted()) && s != task.Canceled }

// detach tells the execution that no request waits for the run any more.
func (s *submission) detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.detached {
		return
	}
	s.detached = true
	if s.execution != nil {
		s.execution.Detach()
	}
}

// follow follows the run of the task as a call of its own.
func (s *submission) follow(ctx context.Context, t *task.Task, method string, skew time.Duration) {
	caller := s.request.caller
	caller.Method = method
	s.front.FollowNow(ctx, t, caller, skew)
}

// resume follows the run of a task that waited for a credential.
func (s *submission) resume(ctx context.Context) {
	err := s.make(ctx, func(t *task.Task) { t.SetStatus(task.Working, nil, time.Now()) })
	if err != nil {
		s.fault = s.request.failureError(notKept(err))
		return
	}
	s.invoked = true
	s.done()
	s.follow(ctx, s.task, s.request.caller.Method, task.ClockSkew)
}
