package observe

import (
	"errors"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// failureLevel separates what an operator should act on from what agents and
// providers get wrong by themselves. Of equal warnings there is one a minute.
func (o *Observer) failureLevel(f *run.Failure, source string) zapcore.Level {
	if f.Kind == run.Internal {
		return zapcore.ErrorLevel
	}
	if !actionable(f) || alreadyTold(f) {
		return zapcore.InfoLevel
	}
	if _, due, _ := o.failures.due(source, f.Kind.String()+"\n"+string(f.Phase)+"\n"+f.SkillID+"\n"+f.URL, time.Now()); !due {
		return zapcore.InfoLevel
	}
	return zapcore.WarnLevel
}

// actionable reports whether a failure is for the operator to look into: the configuration
// or its secrets, or a provider that is down, gone or broken.
func actionable(f *run.Failure) bool {
	switch {
	case f.Next() == run.NextAskOperator, overLimit(f), f.Refused != "", f.Gone():
		return true
	case f.Kind == run.InvalidDocument, f.Kind == run.Unreachable, f.Kind == run.ProviderFault:
		return true
	case f.Kind == run.RateLimited:
		return f.By == run.Bridge
	}
	return false
}

// overLimit reports whether arguments exceed a limit of the operator's. The message
// names that, and of the arguments no more than what the descriptor calls them.
func overLimit(f *run.Failure) bool {
	return f.Argument != nil && f.Argument.Reason == run.OverLimit
}

// alreadyTold reports whether another warning has said why a call failed, with more than is
// known here.
func alreadyTold(f *run.Failure) bool {
	_, refused := errors.AsType[Refusal](f.Cause)
	return refused || f.Demand != nil && f.Demand.Withheld
}

func failureFields(f *run.Failure) []zap.Field {
	code := string(document.CodeOf(f))
	switch f.Kind {
	case run.ClientGone: // no code was sent
		code = ""
	case run.RunFailed: // whose code may be any text of the provider's
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
	}
	if a := f.Argument; a != nil {
		fields = append(fields, zap.String("param", safetext.Field(skillsprotocol.Param(a), MaxLogged)), zap.String("reason", safetext.Field(string(a.Reason), MaxLogged)))
	}
	if text := loggedError(f); text != "" {
		fields = append(fields, zap.String("error", text))
	}
	if f.HTTPStatus != 0 {
		fields = append(fields, zap.Int("http_status", f.HTTPStatus))
	}
	return fields
}

// quotesArguments reports whether a failure's message may repeat what an agent sent
// or a run produced, which is no business of the log. Token endpoints are sent no
// arguments, and the operator has to know why a credential was refused.
func quotesArguments(f *run.Failure) bool {
	if f.Phase == run.PhaseAuth || overLimit(f) {
		return false
	}
	return f.By == run.Provider || f.Kind == run.InvalidArguments || f.Kind == run.RunFailed
}
