package observe

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// span is a recording span that counts how many spans of its kind have begun and ended.
type span struct {
	noop.Span
	count *spanCount
}

type spanCount struct{ begun, ended atomic.Int64 }

func (span) IsRecording() bool { return true }

func (span) SpanContext() trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})
}

func (s span) End(...trace.SpanEndOption)           { s.count.ended.Add(1) }
func (s span) TracerProvider() trace.TracerProvider { return tracers{count: s.count} }

type tracers struct {
	noop.TracerProvider
	count *spanCount
}

func (t tracers) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{count: t.count} }

type tracer struct {
	noop.Tracer
	count *spanCount
}

func (t tracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	t.count.begun.Add(1)
	s := span{count: t.count}
	return trace.ContextWithSpan(ctx, s), s
}

// A call that goes on when its request has ended is reported once, when it ends.
func TestCalledAfterItsRequest(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/later"})
	gate := hostile.NewGate(t)
	p.On("acme/later", hostile.Invoke, hostile.Accept(0))
	p.On("acme/later", hostile.Status, gate.Then(hostile.Usual()))
	documents, err := cache.New(cache.Config{MaxSize: 8 << 20, TTL: time.Hour, MaxTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(documents.Close)
	origin, err := url.Parse(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	o, logs := observed(zapcore.InfoLevel)
	b, err := translate.New(translate.Config{
		Sources: []catalog.Source{{Namespace: "acme", URL: origin, Transport: http.DefaultTransport}}, Cache: documents, Observer: o,
		DefaultTimeout: time.Minute, MaxTimeout: time.Minute, MaxResponseSize: 1 << 20, AllowHTTP: true,
		Polling: skillsharing.Polling{Plan: polling.Backoff{Initial: time.Millisecond}},
	})
	if err != nil {
		t.Fatal(err)
	}
	spans := new(spanCount)
	client, leave := context.WithCancel(trace.ContextWithSpan(t.Context(), span{count: spans}))
	r := httptest.NewRequestWithContext(client, http.MethodPost, "/", nil)
	ctx, served := NewRequest(httptest.NewRecorder(), r, run.Caller{Front: "a_front", Method: "a_method"})
	x := b.Start(context.WithoutCancel(ctx), translate.Call{Caller: translate.RequestOf(ctx).Caller, Name: "acme.later"})
	leave()
	served.Log(r)
	x.Detach()
	if logs.Len() != 0 {
		t.Errorf("%v", logs.All())
	}
	gate.Open()
	var last run.Run
	for last = range x.Watch() {
	}
	if last.Failure != nil || last.State != run.Completed {
		t.Errorf("%+v, %+v", last, last.Failure)
	}
	if lines := logs.FilterMessage("call completed").FilterField(zap.String("method", "a_method")); lines.Len() != 1 || logs.Len() != 1 {
		t.Errorf("%v", logs.All())
	}
	if begun, ended := spans.begun.Load(), spans.ended.Load(); begun == 0 || ended != begun {
		t.Errorf("%d spans have begun, %d have ended", begun, ended)
	}
}
