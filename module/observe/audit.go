package observe

import (
	"context"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// audit logs who executed which skill, and which secrets were not sent, with a logger of
// its own, so that these lines can be kept separately. A nil *audit logs nothing.
type audit struct{ logger *zap.Logger }

const auditName = "audit"

// newAudit returns an audit log whose logger is named below the handler's; nil if it is not wanted.
func newAudit(logger *zap.Logger, wanted bool) *audit {
	if !wanted {
		return nil
	}
	return &audit{logger.Named(auditName)}
}

// called logs each call about a run or a task, and each other call that failed. If the whole bridge
// refuses the caller, refused logs it instead.
func (a *audit) called(c *translate.Call, o *run.Run, s *translate.Statistics) {
	f := o.Failure
	closed := f != nil && f.Demand != nil && s.Source == ""
	if a == nil || closed || f == nil && (s.Operation == translate.OperationDescribe || s.Operation == translate.OperationList) {
		return
	}
	executed, executionID := run.ExecutedYes, ""
	if o.Failure != nil {
		executed = o.Failure.Executed
	}
	if o.State != 0 {
		executionID = o.ExecutionID
	}
	a.logger.Info("call",
		zap.String("principal", safetext.Field(c.Principal, MaxLogged)),
		optional("method", safetext.Field(c.Method, MaxLogged)),
		optional("operation", operationOf(s)),
		zap.String("name", safetext.Field(c.Name, MaxLogged)),
		optional("source", s.Source),
		optional("skill_id", safetext.Field(o.SkillID, MaxLogged)),
		zap.String("outcome", outcomeOf(o, s)),
		optional("limit", limitOf(f)),
		zap.String("executed", string(executed)),
		optional("execution_id", safetext.Field(executionID, MaxLogged)),
		optional("task", taskOf(c)),
		zap.String("trace_id", c.TraceID))
}

// changed logs what a caller has done to a task, with further fields. Unlike the other methods, it needs an audit log.
func (a *audit) changed(what string, c *run.Caller, t *Task, further ...zap.Field) {
	a.logger.Info(what, append(further,
		zap.String("principal", safetext.Field(c.Principal, MaxLogged)),
		zap.String("task", safetext.Field(t.ID, MaxLogged)),
		optional("name", safetext.Field(t.Name, MaxLogged)),
		optional("source", t.Source),
		optional("skill_id", safetext.Field(t.SkillID, MaxLogged)),
		optional("execution_id", safetext.Field(t.ExecutionID, MaxLogged)),
		zap.String("trace_id", c.TraceID))...)
}

// denied logs a notice that a secret was not sent.
func (a *audit) denied(c *translate.Call, n *exchange.Notice) {
	if a == nil || !n.SecretDenied {
		return
	}
	fields := []zap.Field{zap.String("source", n.Source)}
	if c != nil {
		fields = append(fields, zap.String("principal", safetext.Field(c.Principal, MaxLogged)), zap.String("name", safetext.Field(c.Name, MaxLogged)), zap.String("trace_id", c.TraceID))
	}
	for _, attr := range n.Attrs {
		fields = append(fields, zap.Any(attr.Key, loggable(attr.Value)))
	}
	a.logger.Warn("secret denied", fields...)
}

// refused logs a caller that was refused for its principal.
func (a *audit) refused(ctx context.Context, method, reason string) {
	if a != nil {
		a.logger.Warn("caller refused", optional("method", safetext.Field(method, MaxLogged)), zap.String("reason", reason),
			optional("client", clientOf(ctx)), optional("trace_id", translate.RequestOf(ctx).Caller.TraceID))
	}
}

// clientOf returns the address of the client that has sent a request, as Caddy knows it; empty: there is none.
func clientOf(ctx context.Context) string {
	vars, _ := ctx.Value(caddyhttp.VarsCtxKey).(map[string]any)
	client, _ := vars[caddyhttp.ClientIPVarKey].(string)
	return client
}
