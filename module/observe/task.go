package observe

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Task is a front's record of a run.
type Task struct {
	ID   string
	Name string // of the skill, as the bridge lists it
	run.Ref
}

// TaskMade writes to the audit log that a caller has made a task.
func (o *Observer) TaskMade(ctx context.Context, c *run.Caller, t *Task) {
	if o.audit != nil {
		o.audit.changed("task made", callerIn(ctx, c), t)
	}
}

// TaskCanceled writes to the audit log that a caller has canceled a task.
func (o *Observer) TaskCanceled(ctx context.Context, c *run.Caller, t *Task) {
	if o.audit != nil {
		o.audit.changed("task canceled", callerIn(ctx, c), t)
	}
}

// WebhookChanged writes to the audit log that a caller has set a webhook of a task, or deleted it. The host is that of its URL.
func (o *Observer) WebhookChanged(ctx context.Context, c *run.Caller, t *Task, webhook, host string, deleted bool) {
	if o.audit == nil {
		return
	}
	what := "webhook set"
	if deleted {
		what = "webhook deleted"
	}
	o.audit.changed(what, callerIn(ctx, c), t, zap.String("webhook", safetext.Field(webhook, MaxLogged)), zap.String("host", safetext.Field(host, MaxLogged)))
}

// Streaming counts the streams that are open: n is 1 when one begins, and -1 when it ends.
func (o *Observer) Streaming(n int) { o.metrics.streams.Add(int64(n)) }

// LeftRunning adds a call to the access log whose request has ended before its run. It is reported once the run has ended.
func LeftRunning(ctx context.Context, c *run.Caller, t *Task) {
	if served, ok := ctx.Value(servedCallsKey{}).(*servedCalls); ok {
		served.note(servedCall{
			method: c.Method, source: t.Source, skill: t.SkillID, outcome: outcomeRunning, executionID: t.ExecutionID, task: t.ID,
			traceID: callerIn(ctx, c).TraceID, left: true,
		})
	}
}

// callerIn returns the caller with the id of the trace that a tracing directive has begun, if there is one.
func callerIn(ctx context.Context, c *run.Caller) *run.Caller {
	s := trace.SpanContextFromContext(ctx)
	if !s.IsValid() {
		return c
	}
	own := *c
	own.TraceID = s.TraceID().String()
	return &own
}
