package observe

import (
	"context"
	"log/slog"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	zaptest "go.uber.org/zap/zaptest/observer"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// TestAudit: each call and each denied secret is a line of a logger of its own, even
// where the log of operations leaves out what it has said before.
func TestAudit(t *testing.T) {
	core, logs := zaptest.New(zap.InfoLevel)
	logger := zap.New(core).Named("http.handlers.skill_bridge")
	o := NewObserver(logger, true, nil)
	denied := &exchange.Notice{
		Level: slog.LevelWarn, Source: "acme", Message: "a credential was not sent", SecretDenied: true,
		Attrs: []slog.Attr{slog.String("host", "evil.example")},
	}
	for range 2 {
		o.Notice(t.Context(), denied)
		o.Notice(t.Context(), &exchange.Notice{Level: slog.LevelWarn, Source: "acme", Message: "something else"})
		o.Called(t.Context(), &translate.Call{Caller: run.Caller{Principal: "ada", TraceID: "t1"}, Name: "acme.now"},
			&run.Run{Ref: run.Ref{SkillID: "acme/now", ExecutionID: "e1"}, State: run.Completed},
			&translate.Statistics{Source: "acme", Operation: translate.OperationExecute})
	}
	auditRefused(t.Context(), o.audit, "list_skills", "why")
	audited := logs.FilterLoggerName("http.handlers.skill_bridge.audit")
	if n := audited.FilterMessage("secret denied").FilterField(zap.String("host", "evil.example")).FilterLevelExact(zapcore.WarnLevel).Len(); n != 2 {
		t.Errorf("%d lines about a denied secret, want 2", n)
	}
	if n := audited.FilterMessage("call").FilterField(zap.String("principal", "ada")).FilterField(zap.String("outcome", "completed")).FilterField(zap.String("execution_id", "e1")).Len(); n != 2 {
		t.Errorf("%d lines about a call, want 2", n)
	}
	if n := audited.FilterMessage("caller refused").Len(); n != 1 || audited.Len() != 5 {
		t.Errorf("%d lines about refused callers, %d lines in all: %v", n, audited.Len(), audited.All())
	}
}

// TestNoAudit: it is only written where it is wanted.
func TestNoAudit(t *testing.T) {
	core, logs := zaptest.New(zap.DebugLevel)
	o := NewObserver(zap.New(core), false, nil)
	o.Called(context.Background(), &translate.Call{}, &run.Run{State: run.Accepted}, &translate.Statistics{})
	o.Notice(t.Context(), &exchange.Notice{SecretDenied: true})
	auditRefused(t.Context(), o.audit, "x", "why")
	for _, line := range logs.All() {
		if line.LoggerName == auditName {
			t.Errorf("%+v", line)
		}
	}
}
