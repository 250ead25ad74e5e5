package observe

import (
	"errors"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// failureLevel returns the level of a failed call's line: WARN if the operator has to act, at most
// once a minute for equal failures, otherwise INFO.
func (o *Observer) failureLevel(f *run.Failure, source string) zapcore.Level {
	if f.Kind == run.Internal {
		return zapcore.ErrorLevel
	}
	if !actionable(f) || hasOwnWarning(f) {
		return zapcore.InfoLevel
	}
	if _, due, _ := o.failures.due(source, f.Kind.String()+"\n"+string(f.Phase)+"\n"+f.SkillID+"\n"+f.URL, time.Now()); !due {
		return zapcore.InfoLevel
	}
	return zapcore.WarnLevel
}

// actionable reports whether the operator has to act: on the configuration or its secrets, or
// because a provider is unreachable, gone or broken.
func actionable(f *run.Failure) bool {
	switch {
	case f.Next() == run.NextAskOperator, overLimit(f), f.Refused != "", f.Gone():
		return true
	case f.Kind == run.InvalidDocument, f.Kind == run.Unreachable, f.Kind == run.ProviderFault:
		return true
	case f.Kind == run.RateLimited:
		return f.By == run.Bridge && !overQuota(f)
	}
	return false
}

// overLimit reports whether arguments exceed a configured limit. The message of such a failure
// has names of inputs, but no values.
func overLimit(f *run.Failure) bool {
	return f.Argument != nil && f.Argument.Reason == run.OverLimit
}

// hasOwnWarning reports whether the cause of a failure is already logged, with more details.
func hasOwnWarning(f *run.Failure) bool {
	_, refused := errors.AsType[*exchange.RefusedError](f.Cause)
	return refused || f.Demand != nil && f.Demand.Withheld
}

func (o *Observer) failureFields(front string, f *run.Failure) []zap.Field {
	code := string(document.CodeOf(f))
	switch f.Kind {
	case run.CallerGone, run.CallerCanceled: // the agent got no code
		code = ""
	case run.RunFailed: // the provider's code may be any text
		code = errorType(f)
	}
	fields := []zap.Field{
		optional("code", code),
		optional("url", safetext.Field(f.URL, MaxLoggedError)),
		zap.String("phase", string(f.Phase)),
		zap.String("error_source", string(f.By)),
		zap.String("executed", string(f.Executed)),
		zap.String("next", string(f.Next())),
		reason("cause", f.Cause),
		optional("limit", limitOf(f)),
	}
	if a := f.Argument; a != nil {
		fields = append(fields, zap.String("param", safetext.Field(o.fronts.param(front, a), MaxLogged)), zap.String("reason", safetext.Field(string(a.Reason), MaxLogged)))
	}
	if text := loggedError(f); text != "" {
		fields = append(fields, zap.String("error", text))
	}
	if f.HTTPStatus != 0 {
		fields = append(fields, zap.Int("http_status", f.HTTPStatus))
	}
	return fields
}

// quotesArguments reports whether a failure's message may repeat arguments or an output, which are
// not logged. Failures of token requests can't, because token endpoints get no arguments.
func quotesArguments(f *run.Failure) bool {
	if f.Phase == run.PhaseAuth || overLimit(f) {
		return false
	}
	return f.By == run.Provider || f.Kind == run.InvalidArguments || f.Kind == run.RunFailed
}
