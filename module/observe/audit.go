package observe

import (
	"context"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// auditName is the name of the logger for who executed which skill, and which secrets were not sent, below that of the handler, so that these lines can be
// kept separately.
const auditName = "audit"

// auditCall logs each call about a run or a task, and each other call that failed. If the whole bridge
// refuses the caller, auditRefused logs it instead.
func auditCall(log *zap.Logger, c *translate.Call, out *run.Run, s *translate.Statistics) {
	f := out.Failure
	closed := f != nil && f.Demand != nil && s.Source == ""
	if log == nil || closed || f == nil && (s.Operation == translate.OperationDescribe || s.Operation == translate.OperationList) {
		return
	}
	executed, executionID := run.ExecutedYes, ""
	if f != nil {
		executed = f.Executed
	}
	if out.State != 0 {
		executionID = out.ExecutionID
	}
	log.Info("call",
		zap.String("principal", safetext.Field(c.Principal, MaxLogged)),
		optional("method", safetext.Field(c.Method, MaxLogged)),
		optional("operation", operationOf(s)),
		zap.String("name", safetext.Field(c.Name, MaxLogged)),
		optional("source", s.Source),
		optional("skill_id", safetext.Field(out.SkillID, MaxLogged)),
		zap.String("outcome", outcomeOf(out, s)),
		optional("limit", limitOf(f)),
		zap.String("executed", string(executed)),
		optional("execution_id", safetext.Field(executionID, MaxLogged)),
		optional("task", taskOf(c)),
		zap.String("trace_id", c.TraceID))
}

// TaskChanged implements the observer of package a2a: it writes to the audit log what a caller has done to a task, or to a webhook of it.
func (o *Observer) TaskChanged(ctx context.Context, what string, c *translate.Call, ref *run.Ref, receiver, url string) {
	if o.audit == nil {
		return
	}
	fields := []zap.Field{
		zap.String("principal", safetext.Field(c.Principal, MaxLogged)),
		zap.String("task", taskOf(c)),
		optional("name", safetext.Field(c.Name, MaxLogged)),
		optional("source", ref.Source),
		optional("skill_id", safetext.Field(ref.SkillID, MaxLogged)),
		optional("execution_id", safetext.Field(ref.ExecutionID, MaxLogged)),
		zap.String("trace_id", spanTraceID(ctx, &c.Caller)),
	}
	if receiver != "" {
		fields = append(fields, zap.String("webhook", safetext.Field(receiver, MaxLogged)), zap.String("host", safetext.Field(webhook.HostOf(url), MaxLogged)))
	}
	o.audit.Info(what, fields...)
}

// auditDenied logs a notice that a secret was not sent.
func auditDenied(log *zap.Logger, c *translate.Call, n *exchange.Notice) {
	if log == nil || !n.SecretDenied {
		return
	}
	fields := []zap.Field{zap.String("source", n.Source)}
	if c != nil {
		fields = append(fields, zap.String("principal", safetext.Field(c.Principal, MaxLogged)), zap.String("name", safetext.Field(c.Name, MaxLogged)), zap.String("trace_id", c.TraceID))
	}
	for _, attr := range n.Attrs {
		fields = append(fields, zap.Any(attr.Key, loggable(attr.Value)))
	}
	log.Warn("secret denied", fields...)
}

// auditRefused logs a caller that was refused for its principal.
func auditRefused(ctx context.Context, log *zap.Logger, method, reason string) {
	if log != nil {
		log.Warn("caller refused", optional("method", safetext.Field(method, MaxLogged)), zap.String("reason", reason),
			optional("client", clientOf(ctx)), optional("trace_id", translate.RequestOf(ctx).Caller.TraceID))
	}
}

// clientOf returns the address of the client that has sent a request, as Caddy knows it; empty: there is none.
func clientOf(ctx context.Context) string {
	vars, _ := ctx.Value(caddyhttp.VarsCtxKey).(map[string]any)
	client, _ := vars[caddyhttp.ClientIPVarKey].(string)
	return client
}

// Streaming counts the streams that are open: n is 1 when one begins, and -1 when it ends.
func (o *Observer) Streaming(n int) { o.metrics.streams.Add(float64(n)) }

// LeftRunning implements the observer of package a2a: it adds a call to the access log whose request has ended before its run. The call is reported once the run has ended.
func (*Observer) LeftRunning(ctx context.Context, c *translate.Call, ref *run.Ref) {
	if served, ok := ctx.Value(servedCallsKey{}).(*servedCalls); ok {
		served.note(servedCall{
			method: c.Method, source: ref.Source, skill: ref.SkillID, outcome: outcomeRunning, executionID: ref.ExecutionID, task: taskOf(c),
			traceID: spanTraceID(ctx, &c.Caller), left: true,
		})
	}
}

// spanTraceID returns the id of the trace that a tracing directive has begun; if there is none, that of the caller.
func spanTraceID(ctx context.Context, c *run.Caller) string {
	if s := trace.SpanContextFromContext(ctx); s.IsValid() {
		return s.TraceID().String()
	}
	return c.TraceID
}

// Witness gets the outcomes of calls as an operator may see them: it is a command whose user operates the bridge in its process.
type Witness interface {
	// Called takes the outcome of a call.
	Called(*run.Run)
	// Noticed takes a notice for the operator, without secrets.
	Noticed(*exchange.Notice)
}

type witnessKey struct{}

// WithWitness returns a context for requests that have a witness.
func WithWitness(ctx context.Context, w Witness) context.Context {
	return context.WithValue(ctx, witnessKey{}, w)
}

// witnessOf returns the witness of a request; nil: there is none.
func witnessOf(ctx context.Context) Witness {
	w, _ := ctx.Value(witnessKey{}).(Witness)
	return w
}
