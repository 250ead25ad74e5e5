package observe

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// tracerName is the instrumentation scope of all spans.
const tracerName = "github.com/skill-bridge/caddy-skill-bridge/module"

// Attributes for which the OpenTelemetry semantic conventions have no names.
const (
	frontKey       = attribute.Key("skill_bridge.front")
	nameKey        = attribute.Key("skill_bridge.name") // as the agent wrote it
	providerKey    = attribute.Key("skill_bridge.provider")
	skillKey       = attribute.Key("skill_bridge.skill") // its id, once it is found
	executionIDKey = attribute.Key("skill_bridge.execution_id")
	statusKey      = attribute.Key("skill_bridge.status")     // of the run
	descriptorKey  = attribute.Key("skill_bridge.descriptor") // how it was obtained
	taskKey        = attribute.Key("skill_bridge.task")
	pollKey        = attribute.Key("skill_bridge.poll")                 // its number
	credentialsKey = attribute.Key("skill_bridge.credentials.duration") // seconds; another call may have fetched them
)

// requestNames follow the method in the names of request spans. The path is not used, because
// descriptors choose it.
var requestNames = map[run.Phase]string{
	run.PhaseDiscovery:  "index",
	run.PhaseDescriptor: "descriptor",
	run.PhaseAuth:       "credentials",
	run.PhaseInvoke:     "submit",
	run.PhaseResult:     "result",
}

// callSpan is the span of a call, with the spans of its phases. It is the current span of the
// call's context.
type callSpan struct {
	trace.Span
	tracer  trace.Tracer
	arrived time.Time

	mu        sync.Mutex // requests for documents and tokens may outlive the call
	discovery trace.Span // nil: all documents were cached
	submits   int
	submitted time.Time  // when the newest invocation was answered
	run       trace.Span // nil: the run was not polled
	polls     int
	result    time.Time // when the first request for its output began
}

// beginTrace starts the span of a call if a tracing directive in front of the bridge records
// spans, and sets the trace context that is sent to providers. It also sets a context that is not
// sampled: without one, providers would begin new traces.
//
// The span's kind is server, as in the conventions for JSON-RPC: all calls of a batch have the
// span of the HTTP request as their parent.
func beginTrace(ctx context.Context, c *translate.Call) context.Context {
	request := trace.SpanFromContext(ctx)
	if !request.SpanContext().IsValid() {
		return ctx
	}
	if request.IsRecording() && c.Front != "" { // not for the page for browsers
		tracer := tracerOf(request)
		_, span := tracer.Start(ctx, methodOf(c), trace.WithTimestamp(c.Arrived), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
			semconv.RPCSystemNameJSONRPC, semconv.JSONRPCProtocolVersion("2.0"), semconv.RPCMethod(methodOf(c)), frontKey.String(c.Front)))
		ctx = trace.ContextWithSpan(ctx, &callSpan{Span: span, tracer: tracer, arrived: c.Arrived})
	}
	s := trace.SpanContextFromContext(ctx)
	c.TraceID = s.TraceID().String()
	flags := s.TraceFlags() & (trace.FlagsSampled | trace.FlagsRandom) // no others are defined
	c.TraceParent = "00-" + c.TraceID + "-" + s.SpanID().String() + "-" + flags.String()
	return ctx
}

// tracerOf returns a tracer of the span's tracer provider, because Caddy sets no global one.
func tracerOf(s trace.Span) trace.Tracer {
	return s.TracerProvider().Tracer(tracerName, trace.WithSchemaURL(semconv.SchemaURL))
}

// traceExchange adds an exchange with a provider to the trace of its context. Requests for
// documents and tokens that several calls wait for are in the trace of the first call.
func traceExchange(ctx context.Context, e *exchange.Exchange) {
	current := trace.SpanFromContext(ctx)
	if call, ok := current.(*callSpan); ok {
		call.exchange(e)
		return
	}
	if current.IsRecording() { // for the page for browsers
		end := time.Now()
		addRequest(tracerOf(current), current, e, end.Add(-e.Duration), end)
	}
}

func (s *callSpan) exchange(e *exchange.Exchange) {
	end := time.Now()
	start := end.Add(-e.Duration)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.Phase {
	case run.PhaseDiscovery, run.PhaseDescriptor:
		s.startDiscovery()
		addRequest(s.tracer, s.discovery, e, start, end)
	case run.PhasePoll:
		s.poll(e, start, end)
	case run.PhaseInvoke:
		var repeated []attribute.KeyValue
		if s.submits > 0 {
			repeated = []attribute.KeyValue{semconv.HTTPRequestResendCount(s.submits)}
		}
		s.submits++
		s.submitted = end
		addRequest(s.tracer, s, e, start, end, repeated...)
	case run.PhaseResult:
		if s.result.IsZero() {
			s.result = start
		}
		addRequest(s.tracer, s, e, start, end)
	default:
		addRequest(s.tracer, s, e, start, end)
	}
}

// poll adds an event to the span of the run. The SDK bounds the number of events of a span.
func (s *callSpan) poll(e *exchange.Exchange, start, end time.Time) {
	if s.run == nil {
		if !s.submitted.IsZero() {
			start = s.submitted
		}
		s.run = s.start("run", start)
	}
	s.polls++
	attributes := append(make([]attribute.KeyValue, 0, 3), pollKey.Int(s.polls))
	s.run.AddEvent("poll", trace.WithTimestamp(end), trace.WithAttributes(appendAnswer(attributes, e)...))
}

// startDiscovery starts the span of the discovery unless there is one. There is one already for a
// request that outlives its call.
func (s *callSpan) startDiscovery() {
	if s.discovery == nil {
		s.discovery = s.start("discovery", s.arrived)
	}
}

// start starts the span of a phase.
func (s *callSpan) start(phase string, at time.Time) trace.Span {
	_, span := s.tracer.Start(trace.ContextWithSpan(context.Background(), s), phase, trace.WithTimestamp(at))
	return span
}

// addRequest adds a span for an HTTP request that has ended.
func addRequest(t trace.Tracer, parent trace.Span, e *exchange.Exchange, start, end time.Time, more ...attribute.KeyValue) {
	attributes := append(make([]attribute.KeyValue, 0, 8), semconv.HTTPRequestMethodKey.String(e.Method))
	attributes = append(appendAnswer(appendAddress(attributes, e.Address()), e), more...)
	_, span := t.Start(trace.ContextWithSpan(context.Background(), parent), e.Method+" "+requestNames[e.Phase],
		trace.WithTimestamp(start), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	switch {
	case e.Abandoned:
	case e.Err != nil:
		span.SetStatus(codes.Error, safetext.Field(e.Err.Error(), MaxLoggedError))
	case e.Status >= http.StatusBadRequest:
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(end))
}

// appendAddress appends the attributes of a request's address. The address may not be a valid URL,
// because secrets were removed from it.
func appendAddress(attributes []attribute.KeyValue, address string) []attribute.KeyValue {
	attributes = append(attributes, semconv.URLFull(safetext.Field(address, MaxLoggedError)))
	u, err := url.Parse(address)
	if err != nil {
		return attributes
	}
	attributes = append(attributes, semconv.ServerAddress(safetext.Field(u.Hostname(), MaxLogged)))
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	if port, err := strconv.Atoi(port); err == nil {
		attributes = append(attributes, semconv.ServerPort(port))
	}
	return attributes
}

// appendAnswer appends the attributes of a request's result.
func appendAnswer(attributes []attribute.KeyValue, e *exchange.Exchange) []attribute.KeyValue {
	if e.Status != 0 {
		attributes = append(attributes, semconv.HTTPResponseStatusCode(e.Status))
	}
	switch {
	case e.Abandoned:
		return append(attributes, semconv.ErrorTypeKey.String(run.CallerGone.String()))
	case e.Err != nil:
		return append(attributes, semconv.ErrorTypeOther)
	case e.Status >= http.StatusBadRequest:
		return append(attributes, semconv.ErrorTypeKey.String(strconv.Itoa(e.Status)))
	}
	return attributes
}

// endTrace ends the span of a call.
func (o *Observer) endTrace(ctx context.Context, c *translate.Call, out *run.Run, figures *translate.Statistics) {
	s, ok := trace.SpanFromContext(ctx).(*callSpan)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	end := time.Now()
	s.endDiscovery(out, figures, end)
	s.endRun(out, figures)
	attributes := make([]attribute.KeyValue, 0, 8)
	if figures.Descriptor != 0 {
		attributes = append(attributes, descriptorKey.String(figures.Descriptor.String()))
	}
	for _, a := range []attribute.KeyValue{
		nameKey.String(safetext.Field(c.Name, MaxLogged)), providerKey.String(figures.Source), skillKey.String(safetext.Field(out.SkillID, MaxLogged)),
		taskKey.String(taskOf(c)),
	} {
		if a.Value.AsString() != "" {
			attributes = append(attributes, a)
		}
	}
	if out.State != 0 {
		attributes = append(attributes,
			executionIDKey.String(safetext.Field(out.ExecutionID, MaxLogged)), statusKey.String(out.State.String()))
	}
	if d := figures.Stats.Credentials; d > 0 {
		attributes = append(attributes, credentialsKey.Float64(d.Seconds()))
	}
	s.SetAttributes(attributes...)
	if code := o.fronts.code(c, out); code != 0 {
		s.SetAttributes(semconv.RPCResponseStatusCode(strconv.Itoa(code)))
	}
	if out.Failure != nil && !asks(out) {
		fail(s, out.Failure)
	}
	s.End(trace.WithTimestamp(end))
}

// endDiscovery ends the span of the discovery. There is no span if all documents were cached,
// because it would take longer than the discovery.
func (s *callSpan) endDiscovery(out *run.Run, figures *translate.Statistics, end time.Time) {
	f := out.Failure
	failed := f != nil && (f.Phase == run.PhaseDiscovery || f.Phase == run.PhaseDescriptor)
	waited := figures.Descriptor != 0 && figures.Descriptor != cache.Hit
	if failed || waited {
		s.startDiscovery()
	}
	if s.discovery == nil {
		return
	}
	if failed {
		fail(s.discovery, f)
	}
	if !figures.Found.IsZero() {
		end = figures.Found
	}
	s.discovery.End(trace.WithTimestamp(end))
}

// endRun ends the span of the run at the end of polling, before the output is read.
func (s *callSpan) endRun(out *run.Run, figures *translate.Statistics) {
	if figures.Followed.IsZero() {
		return
	}
	if s.run == nil {
		start := figures.Found
		if figures.Submitted.After(start) {
			start = figures.Submitted
		}
		s.run = s.start("run", start)
	}
	end := figures.Followed
	if !s.result.IsZero() {
		end = s.result
	}
	if f := out.Failure; f != nil && f.Phase == run.PhasePoll {
		fail(s.run, f)
	}
	s.run.End(trace.WithTimestamp(end))
}

// fail records a failure in a span.
func fail(span trace.Span, f *run.Failure) {
	if f.Kind == run.CallerGone || f.Kind == run.CallerCanceled {
		span.SetAttributes(semconv.ErrorTypeKey.String(f.Kind.String())) // no error of the bridge or the provider
		return
	}
	message := ""
	if !quotesArguments(f) {
		message = safetext.Field(f.OperatorText(), MaxLoggedError)
	}
	span.SetStatus(codes.Error, message)
	span.SetAttributes(semconv.ErrorTypeKey.String(errorType(f)))
}

// errorType returns the error.type of a failure. The set of its values is bounded: codes that
// providers choose become EXECUTION_FAILED.
func errorType(f *run.Failure) string {
	code := document.CodeOf(f)
	switch {
	case f.Kind == run.RunFailed && !slices.Contains(runCodes, code):
		return "EXECUTION_FAILED"
	case code != "":
		return string(code)
	}
	return semconv.ErrorTypeOther.Value.AsString()
}

// runCodes are the codes of failed runs that the protocol defines.
var runCodes = []document.ErrorCode{
	document.ValidationError, document.AuthRequired, document.PermissionDenied, document.SkillNotFound,
	document.InvocationTimeout, document.EndpointUnreachable, document.VersionIncompatible,
	document.InvalidProviderResponse, document.RateLimited,
}
