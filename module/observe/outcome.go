package observe

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Outcomes of calls in logs, metrics and traces.
const (
	outcomeCompleted = "completed"
	outcomeRunning   = "running"
	// outcomeAnonymous is the outcome of a call without a required principal.
	outcomeAnonymous = "unauthenticated"
	// outcomeUnconnected is the outcome of a call whose user has to connect an account.
	outcomeUnconnected = "needs_consent"
	// outcomeAsked is the outcome of a call whose agent was asked for further inputs.
	outcomeAsked = "input_required"
	// outcomeOverQuota is the outcome of a call that a quota of its caller refused.
	outcomeOverQuota = "over_quota"
)

// asksForRun reports whether a call executes or follows a run: others describe skills or list them, or read or change a task.
func asksForRun(s *translate.Statistics) bool {
	switch s.Operation {
	case translate.OperationDescribe, translate.OperationList, translate.OperationTask, translate.OperationNone:
		return false
	}
	return true
}

// operationOf returns the operation of a call for logs; empty: it is not known.
func operationOf(s *translate.Statistics) string {
	if s.Operation == translate.OperationNone {
		return ""
	}
	return string(s.Operation)
}

// methodOf returns the method of a call for metrics and traces, which need one. Without one, it is that of the fronts for methods that do not exist.
func methodOf(c *translate.Call) string { return cmp.Or(c.Method, "unknown") }

// asks reports whether a call is no failure, since its agent was asked for further inputs.
func asks(o *run.Run) bool { return o.Failure != nil && o.Failure.Asks() }

// overQuota reports whether a quota of the caller refused the call. The operator need not act.
func overQuota(f *run.Failure) bool { return f != nil && f.Limit != nil && f.Limit.Own }

// limitOf returns the name of the limit that a call exceeded; empty: it exceeded none.
func limitOf(f *run.Failure) string {
	if f == nil || f.Limit == nil {
		return ""
	}
	return f.Limit.Name
}

// taskOf returns the id of the task of a call that has ended; empty: it has none.
func taskOf(c *translate.Call) string {
	if c.Task == nil {
		return ""
	}
	return safetext.Field(c.Task(), MaxLogged)
}

// outcomeOf returns the outcome of a call. A call about a run that has neither a
// run nor a failure was ended by a panic.
func outcomeOf(o *run.Run, s *translate.Statistics) string {
	switch {
	case o.Failure == nil && !asksForRun(s):
		return outcomeCompleted
	case asks(o):
		return outcomeAsked
	case overQuota(o.Failure):
		return outcomeOverQuota
	case o.Failure != nil && o.Failure.Next() == run.NextAuthenticate:
		return outcomeAnonymous
	case o.Failure != nil && o.Failure.Next() == run.NextConnect:
		return outcomeUnconnected
	case o.Failure != nil:
		return o.Failure.Kind.String()
	case o.State == 0:
		return run.Internal.String()
	case o.State.Ended():
		return outcomeCompleted
	}
	return outcomeRunning
}

// failureLevel returns the level of a failed call's line: WARN or ERROR if the operator has to act, at most
// once a minute for equal failures, otherwise INFO.
func (o *Observer) failureLevel(f *run.Failure, source string) zapcore.Level {
	if !actionable(f) || hasOwnWarning(f) {
		return zapcore.InfoLevel
	}
	if _, due, _ := o.failures.due(source, f.Kind.String()+"\n"+string(f.Phase)+"\n"+f.SkillID+"\n"+f.URL, time.Now()); !due {
		return zapcore.InfoLevel
	}
	if f.Kind == run.Internal {
		return zapcore.ErrorLevel
	}
	return zapcore.WarnLevel
}

// actionable reports whether the operator has to act: on the configuration or its secrets, or
// because a provider is unreachable, gone or broken.
func actionable(f *run.Failure) bool {
	switch {
	case f.Next() == run.NextAskOperator, overLimit(f), f.Refused != "", f.Gone():
		return true
	case f.Kind == run.InvalidDocument, f.Kind == run.Unreachable, f.Kind == run.ProviderFault, f.Kind == run.Internal:
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

// loggedError returns the field error of a failure: its text, or a description of the provider's
// answer if the text may repeat arguments. It is empty for invalid arguments: the fields param and
// reason describe these.
func loggedError(f *run.Failure) string {
	switch {
	case !quotesArguments(f):
		return safetext.Field(f.OperatorText(), MaxLoggedError)
	case f.Kind == run.RunFailed, f.By == run.Provider:
		return describeAnswer(f)
	}
	return ""
}

// describeAnswer describes a provider's answer, and says what to do about it. It contains nothing of
// the provider's message, which may repeat arguments or an output.
func describeAnswer(f *run.Failure) string {
	what := "reported that the run failed"
	if f.HTTPStatus != 0 {
		status := strings.TrimSpace(strconv.Itoa(f.HTTPStatus) + " " + http.StatusText(f.HTTPStatus))
		what = "answered " + requestTexts[f.Phase] + "with HTTP " + status
	}
	of := ""
	if f.SkillID != "" {
		of = " of " + safetext.Field(f.SkillID, MaxLogged)
	}
	if refusesCredential(f) { // the advice names its options
		return fmt.Sprintf("the provider%s %s (%s). %s Only the agent's answer has the provider's message", of, what, errorType(f), safetext.Field(f.OperatorAdvice(), MaxLogged))
	}
	return fmt.Sprintf("the provider%s %s (%s): %s; only the agent's answer has the provider's message", of, what, errorType(f), remedy(f))
}

// refusesCredential reports whether a provider refuses the credential that the bridge has sent. Without one, the failure has no advice, or is
// about a skill that asks for none.
func refusesCredential(f *run.Failure) bool {
	return f.Advice != "" && (f.Kind == run.PermissionDenied || f.Kind == run.AuthRequired && (f.Demand == nil || f.Demand.Type != string(document.AuthNone)))
}

// requestTexts name the requests of phases in describeAnswer.
var requestTexts = map[run.Phase]string{
	run.PhaseDiscovery:  "the request for its index ",
	run.PhaseDescriptor: "the request for the descriptor ",
	run.PhaseInvoke:     "the invocation ",
	run.PhasePoll:       "the request for the status of the run ",
	run.PhaseResult:     "the request for the output of the run ",
}

// remedy returns what the operator can do about a provider's answer.
func remedy(f *run.Failure) string {
	if f.WrongOrigin() {
		return "check the URL of the source: the server has no usable index there"
	}
	remedies := remedies
	if f.Phase == run.PhaseDiscovery || f.Phase == run.PhaseDescriptor {
		remedies = documentRemedies
	}
	return cmp.Or(remedies[f.Kind], "if this continues, ask the provider")
}

var documentRemedies = map[run.Kind]string{
	run.AuthRequired:     "check the discovery_credentials of this source, or add some",
	run.PermissionDenied: "ask the provider to allow the discovery_credentials of this source to read its documents, or use others",
	run.SkillNotFound:    "there is no such document: check its URL, or ask the provider",
}

var remedies = map[run.Kind]string{
	run.InvalidArguments:    "the agent must change its arguments",
	run.SkillNotFound:       "if the provider has moved the skill, run \"caddy skill-bridge purge\" so that its descriptor is read again; otherwise ask the provider",
	run.AuthRequired:        "check the credentials of this source, or add some",
	run.PermissionDenied:    "ask the provider to allow the credentials of this source to use the skill, or use others",
	run.VersionIncompatible: "the provider refuses the request, perhaps because it uses another version of the protocol: ask the provider",
	run.RateLimited:         "if this continues, lower limits runs <n> [<per provider>], or ask the provider for a higher limit",
	run.RunFailed:           "the agent decides whether to repeat the call",
}

// Front has the words of one front that logs and traces use.
type Front struct {
	// Param returns the name of the param that an argument is; nil: it is the argument's own name.
	Param func(a *run.Argument) string
	// Code returns the code of the JSON-RPC error that a call is answered with; 0: it is answered with a result. nil: 0.
	Code func(c *translate.Call, o *run.Run) int
}

// Fronts are the fronts of a handler by name, as in [run.Caller].
type Fronts map[string]Front

func (all Fronts) param(front string, a *run.Argument) string {
	if param := all[front].Param; param != nil {
		return param(a)
	}
	return a.Name
}

func (all Fronts) code(c *translate.Call, o *run.Run) int {
	if code := all[c.Front].Code; code != nil {
		return code(c, o)
	}
	return 0
}
