package skillbridge

import (
	"context"
	"log/slog"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// maxLogged bounds text from agents and providers, in bytes.
const maxLogged = 256

// observer writes what the bridge reports to the log. It never sees arguments,
// outputs or secrets.
type observer struct {
	logger   *zap.Logger
	notices  *limiter
	refusals *limiter // apart, since providers choose the hosts
}

func newObserver(logger *zap.Logger) *observer {
	return &observer{logger: logger, notices: newLimiter(1024), refusals: newLimiter(64)}
}

// Exchange implements skillsharing.Observer.
func (o *observer) Exchange(_ context.Context, e *skillsharing.Exchange) {
	line := o.logger.Check(zapcore.DebugLevel, "exchange with provider")
	if line == nil {
		return
	}
	line.Write(
		zap.String("source", e.Source),
		zap.String("phase", string(e.Phase)),
		zap.String("method", e.Method),
		zap.String("url", e.URL),
		zap.Int("status", e.Status),
		zap.Duration("duration", e.Duration),
		zap.Error(e.Err),
	)
}

// Notice implements skillsharing.Observer. Equal notices are logged once a minute.
func (o *observer) Notice(_ context.Context, n *skillsharing.Notice) {
	level := zapLevel(n.Level)
	if !o.logger.Core().Enabled(level) {
		return
	}
	dropped, due := o.notices.due(n.Source+"\n"+clip(n.Message), time.Now())
	if !due {
		return
	}
	fields := make([]zap.Field, 0, len(n.Attrs)+2)
	if n.Source != "" {
		fields = append(fields, zap.String("source", n.Source))
	}
	for _, a := range n.Attrs {
		fields = append(fields, zap.Any(a.Key, loggable(a.Value)))
	}
	o.logger.Log(level, clip(n.Message), append(fields, repeated(dropped))...)
}

// refused tells the operator which connection the guard has refused. The address
// is empty if it did not come to that.
func (o *observer) refused(host, address string, r *refusal) {
	dropped, due := o.refusals.due(host+"\n"+r.rule, time.Now())
	if !due {
		return
	}
	o.logger.Warn("connection refused; allow_networks and allow_ports say what may be reached",
		zap.String("host", clip(host)),
		zap.String("address", address),
		zap.String("rule", r.rule),
		repeated(dropped))
}

// repeated says how many equal lines were left out since the last.
func repeated(dropped int) zap.Field {
	if dropped == 0 {
		return zap.Skip()
	}
	return zap.Int("repeated", dropped)
}

// Called implements translate.Observer.
func (o *observer) Called(_ context.Context, c *translate.Call, out *translate.Outcome, s *translate.Statistics) {
	level, message := zapcore.DebugLevel, "call completed"
	if out.Failure != nil {
		level, message = failureLevel(out.Failure), "call failed"
	}
	line := o.logger.Check(level, message)
	if line == nil {
		return
	}
	fields := []zap.Field{
		zap.String("name", clip(c.Name)),
		zap.String("source", s.Source),
		zap.String("skill_id", out.SkillID),
		zap.String("principal", clip(c.Principal)),
		zap.String("trace_id", c.TraceID),
		zap.Duration("duration", s.Duration),
		zap.Int("attempts", s.Attempts),
		zap.Int("polls", s.Polls),
	}
	if out.Run != nil {
		fields = append(fields,
			zap.String("execution_id", clip(out.Run.ExecutionID)),
			zap.String("status", string(out.Run.Status)))
	}
	if out.Failure != nil {
		fields = append(fields, failureFields(out.Failure)...)
	}
	line.Write(fields...)
}

// failureLevel separates what an operator should act on from what agents and
// providers get wrong by themselves.
func failureLevel(f *translate.Failure) zapcore.Level {
	switch {
	case f.Kind == translate.Internal:
		return zapcore.ErrorLevel
	case f.Err.Hint == skillsharing.HintRefused, f.Kind == translate.InvalidDocument:
		return zapcore.WarnLevel
	case f.Kind == translate.AuthRequired && f.Err.Source == skillsharing.SourceBridge:
		return zapcore.WarnLevel
	}
	return zapcore.InfoLevel
}

func failureFields(f *translate.Failure) []zap.Field {
	fields := []zap.Field{
		zap.String("code", string(f.Err.Code)),
		zap.String("phase", string(f.Err.Phase)),
		zap.String("error_source", string(f.Err.Source)),
		zap.String("executed", string(f.Err.Executed)),
		zap.String("next", string(f.Next)),
		zap.String("error", f.Err.Message),
	}
	if f.Err.HTTPStatus != 0 {
		fields = append(fields, zap.Int("http_status", f.Err.HTTPStatus))
	}
	if f.Err.Cause != nil {
		fields = append(fields, zap.NamedError("cause", f.Err.Cause))
	}
	return fields
}

func zapLevel(level slog.Level) zapcore.Level {
	switch {
	case level >= slog.LevelError:
		return zapcore.ErrorLevel
	case level >= slog.LevelWarn:
		return zapcore.WarnLevel
	case level >= slog.LevelInfo:
		return zapcore.InfoLevel
	}
	return zapcore.DebugLevel
}

// loggable keeps the type of what zap knows, and bounds text.
func loggable(v slog.Value) any {
	switch v := v.Resolve().Any().(type) {
	case string:
		return clip(v)
	case error:
		return clip(v.Error())
	default:
		return v
	}
}

// clip bounds a text that others chose.
func clip(text string) string {
	if len(text) > maxLogged {
		return text[:maxLogged] + "…"
	}
	return text
}

var _ translate.Observer = (*observer)(nil)
