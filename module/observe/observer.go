package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/usage"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Bounds of texts from agents and providers, in bytes.
const (
	MaxLogged      = 256
	MaxLoggedError = 1024 // of URLs and errors
)

// Observer writes the reports of the bridge to the log, the metrics, the trace of the request and
// the audit log. Reports have no arguments, outputs or secrets.
type Observer struct {
	logger   *zap.Logger
	metrics  *metrics
	notices  *limiter
	failures *limiter
	refusals *limiter
	pushes   *limiter
	audit    *zap.Logger // nil: there is no audit log
	fronts   Fronts
	health   health
	measured bool // the metrics have the principals of callers
	events   *events
	secrets  []credential.Credentials // of all sources: a document of one source may contain a secret of another
}

// NewObserver returns the observer of a handler with these fronts. If audited is set, it writes an audit log.
func NewObserver(logger *zap.Logger, audited bool, fronts Fronts) *Observer {
	o := &Observer{
		logger: logger, fronts: fronts, metrics: processMetrics,
		notices: newLimiter(64), failures: newLimiter(64), refusals: newLimiter(64), pushes: newLimiter(maxPushHosts),
	}
	if audited {
		o.audit = logger.Named(auditName)
	}
	return o
}

// Protect sets the secrets that are redacted in the log and in the admin API. Call it, like
// HoldHealth, before several goroutines use the observer.
func (o *Observer) Protect(secrets []credential.Credentials) { o.secrets = secrets }

// Measure lets the metrics have the principals of callers. Call it, like HoldHealth, before several goroutines use the observer.
func (o *Observer) Measure() { o.measured = true }

// HoldHealth takes the health of the sources from a pool until the use ends. The pool keeps it
// across reloads with the same settings.
func (o *Observer) HoldHealth(settings string, sources []catalog.Source, use *lifetime.Usage) {
	o.health = make(health, len(sources))
	for i, s := range sources {
		key := lifetime.NewDigest(settings, s.Namespace, s.URL.String()).String()
		known, release, _ := healthPool.Hold(key, func() (*sourceHealth, error) { return new(sourceHealth), nil }) // never fails
		use.OnRelease(release)
		o.health[s.Namespace] = known
		sources[i].Faults = &known.faults
	}
}

// Begin implements translate.Observer.
func (*Observer) Begin(ctx context.Context, c *translate.Call) context.Context {
	return beginTrace(ctx, c)
}

// Exchange implements exchange.Observer.
func (o *Observer) Exchange(ctx context.Context, e *exchange.Exchange) {
	o.health.note(ctx, e)
	o.events.reached(ctx, e)
	o.metrics.exchanged(e)
	traceExchange(ctx, e)
	line := o.logger.Check(zapcore.DebugLevel, "exchange with provider")
	if line == nil {
		return
	}
	trace := zap.Skip()
	if call := translate.CallOf(ctx); call != nil {
		trace = zap.String("trace_id", call.TraceID)
	}
	line.Write(
		trace,
		zap.String("source", e.Source),
		zap.String("phase", string(e.Phase)),
		zap.String("method", e.Method),
		zap.String("url", safetext.Field(e.Address(), MaxLoggedError)),
		zap.Int("status", e.Status),
		zap.Duration("duration", e.Duration),
		reason("error", e.Err),
	)
}

// Notice implements exchange.Observer. Equal notices are logged once a minute.
func (o *Observer) Notice(ctx context.Context, n *exchange.Notice) {
	level := zapcore.Level(n.Level / 4) //nolint:gosec // the levels of package slog are those of zap, with room for three between two
	logged := o.logger.Core().Enabled(level)
	if !logged && !n.SecretDenied && n.Unusable == nil {
		return // avoids work: some providers cause a notice in every call
	}
	n = o.scrubbed(n)
	auditDenied(o.audit, translate.CallOf(ctx), n)
	if w := witnessOf(ctx); w != nil {
		w.Noticed(n)
	}
	if n.Unusable != nil {
		o.health.unusable(n.Source, n.Unusable)
		o.events.unusable(n.Source, n.Unusable)
	}
	if !logged {
		return
	}
	message := safetext.Field(n.Message, MaxLoggedError)
	var line strings.Builder
	line.WriteString(n.Source + "\n" + message)
	fields := make([]zap.Field, 0, len(n.Attrs)+2)
	if n.Source != "" {
		fields = append(fields, zap.String("source", n.Source))
	}
	for _, a := range n.Attrs {
		value := loggable(a.Value)
		fields = append(fields, zap.Any(a.Key, value))
		if a.Key != clientKey {
			fmt.Fprintf(&line, "\n%v", value)
		}
	}
	dropped, due, full := o.notices.due(n.Source, line.String(), time.Now())
	switch {
	case full:
		o.logger.Log(level, "further warnings about this source are not logged; the admin API shows what is wrong with its skills", zap.String("source", n.Source))
		return
	case !due:
		return
	}
	o.logger.Log(level, message, append(fields, repeated(dropped))...)
}

// scrub removes configured secrets from a text that a provider may have chosen.
func (o *Observer) scrub(text string) string { return credential.Scrub(text, o.secrets...) }

// scrubbed returns a copy of a notice without configured secrets.
func (o *Observer) scrubbed(n *exchange.Notice) *exchange.Notice {
	clean := *n
	clean.Message, clean.Attrs = o.scrub(n.Message), slices.Clone(n.Attrs)
	for i := range clean.Attrs {
		value := &clean.Attrs[i].Value
		switch v := value.Resolve().Any().(type) {
		case string:
			*value = slog.StringValue(o.scrub(v))
		case []string:
			texts := slices.Clone(v)
			for i, text := range texts {
				texts[i] = o.scrub(text)
			}
			*value = slog.AnyValue(texts)
		case error:
			*value = slog.AnyValue(errors.New(o.scrub(v.Error())))
		}
	}
	return &clean
}

// RefusedConnection logs a connection that the guard has refused. The address is empty if
// the host name was not resolved.
func (o *Observer) RefusedConnection(source, host, address string, r *exchange.RefusedError) {
	o.refusedConnection(zapcore.WarnLevel, "did not connect: ", "", source, host, address, r)
}

// RefusedWebhook does what RefusedConnection does, for a webhook. Clients choose its URL, so it is not the operator who has to act.
// block is the block of options about webhooks, and the source in reports.
func (o *Observer) RefusedWebhook(block, host, address string, r *exchange.RefusedError) {
	o.refusedConnection(zapcore.InfoLevel, "did not connect to a client's webhook: ", block+" > ", block, host, address, r)
}

// refusedConnection logs a refused connection. block is the block of the option that would allow it; empty: none.
func (o *Observer) refusedConnection(level zapcore.Level, what, block, source, host, address string, r *exchange.RefusedError) {
	o.metrics.refused(r)
	host = safetext.Field(o.scrub(host), MaxLogged)
	why := o.scrub(r.Exact)
	dropped, due, full := o.refusals.due(source, host+"\n"+why, time.Now())
	switch {
	case full:
		o.logger.Log(level, "further refused connections of this source are not logged; the metrics count them", optional("source", source))
		return
	case !due:
		return
	}
	message, option := what+why, ""
	switch r.Rule {
	case run.RuleAddress:
		option = block + "allow_networks " + safetext.Field(address, MaxLogged)
	case run.RulePort:
		if _, port, _ := net.SplitHostPort(host); isPort(port) {
			option = block + "allow_ports " + port
		}
	}
	if option != "" {
		message += "; to allow the connection, add the option below"
	}
	o.logger.Log(level, message,
		optional("source", source),
		zap.String("host", host),
		optional("address", safetext.Field(address, MaxLogged)),
		optional("option", option),
		repeated(dropped))
}

// isPort reports whether a text is a valid port number. The text may be a provider's, and may be
// a secret that consists of digits.
func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// repeated returns the field with the number of equal lines that were dropped since the last one.
func repeated(dropped int) zap.Field {
	if dropped == 0 {
		return zap.Skip()
	}
	return zap.Int("repeated", dropped)
}

// Called implements translate.Observer.
func (o *Observer) Called(ctx context.Context, c *translate.Call, out *run.Run, s *translate.Statistics) {
	o.endTrace(ctx, c, out, s)
	if c.Front == "" && !asksForRun(s) {
		return // the page and commands list and describe skills without a call of an agent
	}
	o.metrics.called(c, out, s)
	if s.Operation == translate.OperationExecute || s.Operation == translate.OperationSubmit {
		o.metrics.usage.Add(&usage.Call{
			Principal: c.Principal, Source: s.Source, SkillID: out.SkillID, Measured: o.measured,
			Run: out.Failure == nil && out.State != 0 || out.Failure != nil && out.Failure.Executed == run.ExecutedYes, Refused: overQuota(out.Failure),
		})
	}
	if f := out.Failure; f != nil && f.Kind == run.InvalidDocument && f.Phase == run.PhaseDiscovery {
		o.health.unusable(s.Source, f)
		o.events.unusable(s.Source, f)
	}
	o.events.authenticated(out, s)
	auditCall(o.audit, c, out, s)
	if w := witnessOf(ctx); w != nil {
		w.Called(out)
	}
	if served, ok := ctx.Value(servedCallsKey{}).(*servedCalls); ok {
		served.add(c, out, s)
	}
	level, message := zapcore.InfoLevel, "call completed"
	switch {
	case asks(out):
	case out.Failure != nil:
		level, message = o.failureLevel(out.Failure, s.Source), "call failed"
	case out.State == 0 && asksForRun(s): // after a panic, which has its own line
		message = "call failed"
	}
	line := o.logger.Check(level, message)
	if line == nil {
		return
	}
	fields := append(make([]zap.Field, 0, 32),
		optional("front", c.Front),
		optional("method", c.Method),
		optional("operation", operationOf(s)),
		zap.String("outcome", outcomeOf(out, s)),
		optional("name", safetext.Field(c.Name, MaxLogged)),
		optional("source", s.Source),
		optional("skill_id", safetext.Field(out.SkillID, MaxLogged)),
		optional("principal", safetext.Field(c.Principal, MaxLogged)),
		optional("task", taskOf(c)),
		zap.String("trace_id", c.TraceID),
		zap.Duration("duration", s.Duration),
	)
	if asksForRun(s) {
		fields = append(fields,
			zap.Int("attempts", s.Stats.Attempts),
			zap.Int("retries", max(s.Stats.Attempts-1, 0)),
			zap.Int("polls", s.Stats.Polls))
	}
	if s.Operation == translate.OperationList && s.Listed >= 0 {
		fields = append(fields, zap.Int("skills", s.Listed), zap.Int("unavailable", s.Unavailable))
	}
	if s.Descriptor != 0 {
		fields = append(fields, zap.String("descriptor", s.Descriptor.String()))
	}
	fields = appendPhases(fields, c, s)
	if out.State != 0 {
		fields = append(fields,
			zap.String("execution_id", safetext.Field(out.ExecutionID, MaxLogged)),
			zap.String("status", out.State.String()))
	}
	switch {
	case asks(out):
		fields = append(fields, zap.String("param", safetext.Field(o.fronts.param(c.Front, out.Failure.Argument), MaxLogged)))
	case out.Failure != nil:
		fields = append(fields, o.failureFields(c.Front, out.Failure)...)
	}
	line.Write(fields...)
}

// appendPhases appends the durations of the phases that the call completed.
func appendPhases(fields []zap.Field, c *translate.Call, s *translate.Statistics) []zap.Field {
	last := c.Arrived
	for _, phase := range []struct {
		name string
		end  time.Time
	}{{"discovery", s.Found}, {"submission", s.Submitted}, {"run", s.Followed}} {
		if !phase.end.IsZero() {
			fields = append(fields, zap.Duration(phase.name, phase.end.Sub(last)))
			last = phase.end
		}
	}
	if s.Stats.Credentials > 0 {
		fields = append(fields, zap.Duration("credentials", s.Stats.Credentials))
	}
	if s.Stats.Overshoot > 0 {
		fields = append(fields, zap.Duration("overshoot", s.Stats.Overshoot))
	}
	return fields
}

// clientKey is the key of an attribute of notices that does not make them different: lines for each of many clients would be too many.
const clientKey = "client"

// RefusedCaller logs a caller that was refused because of its principal, with that, or what says who callers are, which may be wrong: the
// configured placeholder, or the name of another option.
func (o *Observer) RefusedCaller(ctx context.Context, by, method, reason string) {
	auditRefused(ctx, o.audit, method, reason)
	key := "principal"
	if strings.HasPrefix(by, "callers_") {
		key = "option"
	}
	attrs := []slog.Attr{slog.String(key, by)}
	if method != "" {
		attrs = append(attrs, slog.String("method", method))
	}
	o.Notice(ctx, &exchange.Notice{
		Level:   slog.LevelWarn,
		Message: "a caller was refused: " + reason,
		Attrs:   append(attrs, slog.String(clientKey, clientOf(ctx))),
	})
}

// Unread logs that a connection was closed because its client did not read the answer in
// time. The lines of its calls have their outcomes.
func (o *Observer) Unread(ctx context.Context, written int64, timeout time.Duration) {
	fields := append(make([]zap.Field, 0, 8), zap.Int64("written", written), zap.Duration("body_timeout", timeout))
	if served, ok := ctx.Value(servedCallsKey{}).(*servedCalls); ok {
		fields = append(fields, served.fields("")...)
	}
	o.logger.Info("the client did not read its answer in time, so its connection is closed", fields...)
}

// Panicked logs a panic in a call.
func (o *Observer) Panicked(_ context.Context, value any, stack []byte) {
	LogPanic(o.logger, value, stack)
}

// LogPanic logs a panic of a goroutine that has recovered.
func LogPanic(logger *zap.Logger, value any, stack []byte) {
	logger.Error("panic in a call; this is a bug in the bridge, please report it",
		zap.Any("panic", value), zap.ByteString("stack", stack))
}

// optional returns a text field, or no field for an empty text.
func optional(name, value string) zap.Field {
	if value == "" {
		return zap.Skip()
	}
	return zap.String(name, value)
}

// reason returns a field with an error, whose text may be a provider's; no field without an error.
func reason(name string, err error) zap.Field {
	if err == nil {
		return zap.Skip()
	}
	return zap.String(name, safetext.Field(err.Error(), MaxLoggedError))
}

// loggable returns a value for zap.Any, with texts cut to their maximum size.
func loggable(v slog.Value) any {
	switch v := v.Resolve().Any().(type) {
	case string:
		return safetext.Field(v, MaxLogged)
	case []string:
		clipped := make([]string, len(v))
		for i, text := range v {
			clipped[i] = safetext.Field(text, MaxLogged)
		}
		return clipped
	case error:
		return safetext.Field(v.Error(), MaxLoggedError)
	default:
		return v
	}
}

var _ translate.Observer = (*Observer)(nil)
