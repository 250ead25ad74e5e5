package a2a

import (
	"context"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Names of methods in reports that do not exist in A2A.
const (
	// MethodUnknown is the method of calls with any other name.
	MethodUnknown = "unknown"
	// MethodCard is the method of requests for an agent card.
	MethodCard = "agent_card"
)

// Observer gets reports of what calls do to tasks, and of streams. Its methods must not block.
type Observer interface {
	// Streaming is called with 1 when a stream begins, and with -1 when it ends.
	Streaming(n int)
	// Made is called for each new task before the client gets it. The context is that of the call, if there is one.
	Made(ctx context.Context, c *run.Caller, t *task.Task)
	// Canceled is called for each task that a client has canceled.
	Canceled(ctx context.Context, c *run.Caller, t *task.Task)
	// WebhookChanged is called for each webhook of a task that a client has set or deleted.
	WebhookChanged(ctx context.Context, c *run.Caller, t *task.Task, w *wire.PushConfig, deleted bool)
	// LeftRunning is called when the request of a call ends before its run. The call itself is reported at the end of the run.
	LeftRunning(ctx context.Context, c *run.Caller, t *task.Task)
}

// noObserver is an Observer that ignores all reports.
type noObserver struct{}

func (noObserver) Streaming(int)                                        {}
func (noObserver) Made(context.Context, *run.Caller, *task.Task)        {}
func (noObserver) Canceled(context.Context, *run.Caller, *task.Task)    {}
func (noObserver) LeftRunning(context.Context, *run.Caller, *task.Task) {}
func (noObserver) WebhookChanged(context.Context, *run.Caller, *task.Task, *wire.PushConfig, bool) {
}

func (f *Front) observer() Observer {
	if f.Observer == nil {
		return noObserver{}
	}
	return f.Observer
}

// report reports a call that was answered without a call of the bridge; a nil failure means success.
func (r *request) report(failure *run.Failure) {
	operation := translate.OperationNone
	switch {
	case r.task != nil:
		operation = translate.OperationTask
	case r.method != nil:
		operation = r.method.operation
	}
	reportAs(r, operation, r.task, failure)
}

// reportAs reports a call about a task; nil: the call has no task.
func reportAs(r *request, o translate.Operation, t *task.Task, failure *run.Failure) {
	call, outcome := translate.Call{Caller: r.caller}, run.Run{Failure: failure}
	if t != nil {
		call.Name, call.Task = t.Skill, func() string { return t.ID }
		outcome.Ref = t.Ref
		if t.Ref.ExecutionID != "" {
			outcome.State = runStates[t.Status.State]
		}
	}
	r.front.Bridge.ReportRun(r.ctx, call, o, &outcome)
}

// runStates are the states of runs, by the states of their tasks.
var runStates = [...]run.State{
	task.Submitted: run.Accepted, task.Working: run.Working, task.InputRequired: run.Accepted, task.AuthRequired: run.Accepted,
	task.Completed: run.Completed, task.Failed: run.Failed, task.Canceled: run.Canceled, task.Rejected: run.Failed,
}

// quiet returns a caller without a front. The bridge does not report lists and descriptions for such a caller: they are parts
// of another call.
func quiet(c run.Caller) run.Caller {
	c.Front, c.Method = "", ""
	return c
}
