package a2a

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/message"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Error codes of the bridge, which are the same as in the Skills Protocol.
const (
	codeAuthRequired = -32050
	codeRateLimited  = -32057
)

func notCancelable(v wire.Version, t *task.Task, why string) *jsonrpc.Error {
	return wire.Error(v, wire.CodeTaskNotCancelable, "Task cannot be canceled: "+why, map[string]string{"state": t.Status.State.String()})
}

func pushNotSupported(v wire.Version) *jsonrpc.Error {
	return wire.Error(v, wire.CodePushNotSupported, "", nil)
}

func unsupported(v wire.Version, why string) *jsonrpc.Error {
	return wire.Error(v, wire.CodeUnsupportedOperation, "This operation is not supported: "+why, nil)
}

func contentTypeNotSupported(v wire.Version, why string) *jsonrpc.Error {
	return wire.Error(v, wire.CodeContentTypeUnsupported, "Incompatible content types: "+why, nil)
}

func versionNotSupported(v wire.Version, said string, served *Versions) *jsonrpc.Error {
	list := strings.Join(served.names(), ", ")
	return wire.Error(v, wire.CodeVersionNotSupported, "A2A version "+task.Quoted(said)+" is not supported; this agent speaks "+list,
		map[string]string{"requested": said, "supported": list})
}

// methodNotFound returns the error for a method that is not served. place is where it is as a method of another protocol; nil: it is none.
func methodNotFound(v wire.Version, method string, place *front.Place) *jsonrpc.Error {
	facts := map[string]string{"method": method}
	if place == nil {
		return wire.Error(v, jsonrpc.CodeMethodNotFound, "", facts)
	}
	facts["protocol"] = place.Protocol
	if place.Endpoint != "" {
		facts["endpoint"] = place.Endpoint
	}
	return wire.Error(v, jsonrpc.CodeMethodNotFound, "Method not found: "+place.Text, facts)
}

// invalid returns the error for one wrong member of the params, and notes it for the report.
func (r *request) invalid(field, description string) *jsonrpc.Error {
	return r.violated(wire.Violation{Field: field, Description: description})
}

// violated returns the error for wrong members of the params, and notes the first one for the report.
func (r *request) violated(list ...wire.Violation) *jsonrpc.Error {
	first := &list[0]
	text := "Invalid parameters: " + first.Field + " " + first.Description
	r.failed = run.WrongArgument(run.Argument{Field: run.FieldOther, Name: first.Field, Reason: first.Reason()}, text)
	return wire.InvalidParams(r.version, text, list, nil)
}

// failureError returns the error for a call that is answered without a task, and keeps the failure for the report.
func (r *request) failureError(failure *run.Failure) *jsonrpc.Error {
	r.failed = failure
	code := codeOf(failure)
	if code == jsonrpc.CodeInvalidParams {
		return r.argumentError(failure)
	}
	e := wire.BridgeError(r.version, code, task.Text(failure), failure, isUnshown(failure))
	switch {
	case failure.Demand != nil && failure.Demand.CallerActs:
		e.Status = http.StatusUnauthorized
		e.Header = http.Header{"Www-Authenticate": {cmp.Or(r.front.Options.Challenge, "Bearer")}}
	case code == codeRateLimited:
		e.Status = http.StatusTooManyRequests
		after := time.Second
		if hint := failure.RetryHint(); hint != nil {
			after = hint.After
		}
		e.Header = http.Header{"Retry-After": {strconv.FormatInt(max(1, int64((after+time.Second-1)/time.Second)), 10)}}
	}
	return e
}

// codeOf returns the code of the error for a failure.
func codeOf(f *run.Failure) int {
	switch f.Kind {
	case run.AuthRequired: // of the caller, or its principal is ambiguous
		return codeAuthRequired
	case run.RateLimited:
		return codeRateLimited
	case run.InvalidArguments, run.SkillNotFound:
		return jsonrpc.CodeInvalidParams
	}
	return jsonrpc.CodeInternalError
}

// argumentError returns the error for a failure whose cause is an argument of the client.
func (r *request) argumentError(failure *run.Failure) *jsonrpc.Error {
	a := failure.Argument
	if a == nil {
		a = &run.Argument{Reason: run.NotFound, Field: run.FieldSkill}
	}
	description := task.Text(failure)
	e := wire.InvalidParams(r.version, "Invalid parameters: "+description, []wire.Violation{{Field: Param(a), Description: description}}, a.Candidates)
	if r.skill != "" && failure.Kind == run.SkillNotFound {
		e.Status = http.StatusNotFound
	}
	return e
}

// Param returns the path of the member of a request that an argument stands for.
func Param(a *run.Argument) string {
	switch a.Field {
	case run.FieldInput, run.FieldInputs:
		if a.Pointer == "" && a.Name == "" {
			return "input"
		}
		field := "input"
		for token := range jsontext.Pointer(cmp.Or(a.Pointer, "/"+a.Name)).Tokens() {
			if _, err := strconv.Atoi(token); err == nil && field != "input" {
				field += "[" + token + "]"
				continue
			}
			field += "." + token
		}
		return task.Quoted(field)
	case run.FieldSkill:
		return "skill"
	case run.FieldVersion:
		return "version"
	}
	return cmp.Or(task.Quoted(a.Name), "params")
}

// Code returns the code of the JSON-RPC error for a call; 0: the call is answered with a result.
func Code(_ *translate.Call, r *run.Run) int {
	f := r.Failure
	if f == nil {
		return 0
	}
	if code, own := errors.AsType[front.CodeError](f.Cause); own {
		return int(code)
	}
	switch {
	case f.Argument != nil && f.Argument.Reason == message.ReasonNoInput:
		return wire.CodeContentTypeUnsupported
	case isRefusal(f):
		return codeOf(f)
	}
	return 0
}

// isRefusal reports whether a failure becomes an error and not a task: the client has to change or repeat the request.
// All other failures become states of a task.
func isRefusal(f *run.Failure) bool {
	switch f.Kind {
	case run.InvalidArguments:
		return f.By == run.Bridge && !f.Asks()
	case run.SkillNotFound:
		return f.By == run.Bridge && f.Argument != nil
	case run.RateLimited:
		return f.By == run.Bridge && f.Executed == run.ExecutedNo
	case run.Internal:
		return errors.Is(f.Cause, errNotKept)
	case run.AuthRequired:
		return f.Demand != nil && f.Demand.CallerActs
	case run.CallerGone:
		return true
	}
	return false
}

// errNotKept is the cause of the failure that a task can't be stored. Nothing was invoked for it.
var errNotKept = errors.New("the task could not be kept")

// notKept returns the failure of a call whose task can't be stored.
func notKept(err error) *run.Failure {
	if full, ok := errors.AsType[*run.Failure](err); ok {
		return full
	}
	failure := run.NotExecuted(run.Internal, run.PhaseInvoke, "The bridge can't store tasks at the moment; "+run.StorageAdvice(err)+".")
	failure.Retry, failure.Cause = run.RetryIn(5*time.Second, 5), errors.Join(errNotKept, err)
	return failure
}

// isUnshown reports whether a failure is only that a task can't be shown now.
func isUnshown(f *run.Failure) bool {
	return f.By == run.Bridge && f.Executed != run.ExecutedNo && (f.Kind == run.RateLimited || errors.Is(f.Cause, errNotKept))
}

// untold returns the failure of a call whose task goes on, but can't be shown to the client because the database has failed.
func untold(v wire.Version, t *task.Task, err error) *run.Failure {
	if errors.Is(err, ledger.ErrLost) {
		return &run.Failure{
			Kind: run.Internal, Phase: run.PhaseResult, By: run.Bridge, Executed: run.ExecutedYes, Cause: err,
			Message: "The bridge can't store tasks at the moment, and too much waits for that already, so how the task " + t.ID + " ends may be lost. " +
				"Its skill was executed: don't repeat the message, unless executing it twice does no harm.",
		}
	}
	return &run.Failure{
		Kind: run.Internal, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedMaybe,
		Message: "The bridge can't store tasks at the moment, so it can't show how the task " + t.ID + " is. Its run goes on: don't repeat the message, read the task with " + wire.GetMethod(v) + " later.",
		Cause:   errors.Join(errNotKept, err),
	}
}

// taskError returns the error for a task that can't be read.
func (r *request) taskError(id string, err error) *jsonrpc.Error {
	switch {
	case errors.Is(err, ledger.ErrNoEntry):
		return wire.Error(r.version, wire.CodeTaskNotFound, "", map[string]string{"taskId": id})
	case errors.Is(err, run.ErrNoRoom):
		return noRoom(r, "the task "+id)
	}
	return r.failureError(notKept(err))
}

// asEvent returns the error that a call is answered with; nil: it was sent as the only event of a stream. The form of errors of methods that stream depends on
// the version: an HTTP error status, or one event.
func (r *request) asEvent(fault *jsonrpc.Error) *jsonrpc.Error {
	if r.method == nil || !r.method.streams || r.IsNotification() || r.InBatch() || fault.Status != 0 {
		return fault
	}
	if r.version == wire.V10 { // clients would take a 200 for an empty stream (A2A 1.0, section 5.4)
		own := *fault
		own.Status = http.StatusBadRequest
		if fault.Code == wire.CodeTaskNotFound {
			own.Status = http.StatusNotFound
		}
		return &own
	}
	if s := r.Stream(); s != nil && front.AcceptsStream(r.HTTP, "text/event-stream", "text/*", "*/*") {
		_ = s.Error(fault) // it fails only if the client has disconnected
		return nil
	}
	return fault
}

// failureOf returns the failure of the call that is answered with an error, with its code, for the report; nil: there is none.
func (r *request) failureOf(fault *jsonrpc.Error) *run.Failure {
	switch {
	case fault == nil, r.failed != nil && r.failed.Cause != nil:
		return r.failed
	case r.failed != nil:
		own := *r.failed
		own.Cause = front.CodeError(fault.Code)
		return &own
	}
	failure := front.FailureOf(fault)
	if fault.Code == wire.CodeTaskNotFound { // the task, or its webhook
		failure.Argument.Name, failure.Argument.Reason = "id", run.NotFound
	}
	return failure
}

// noRoom returns the error for an answer while other answers use the memory.
func noRoom(r *request, which string) *jsonrpc.Error {
	return r.failureError(&run.Failure{
		Kind: run.RateLimited, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedMaybe, Retry: run.RetryIn(time.Second, 5),
		Message: "There is no room for the answer at the moment, because other answers are being read. Read " + which + " later.",
	})
}

// Names of methods in reports that do not exist in A2A.
const (
	// MethodUnknown is the method of calls with any other name.
	MethodUnknown = "unknown"
	// MethodCard is the method of requests for an agent card.
	MethodCard = "agent_card"
)

// Observer gets reports of what calls do to tasks, and of streams. Its methods must not block.
type Observer interface {
	// Streaming is called with 1 when a stream begins, and with -1 when it ends.
	Streaming(n int)
	// TaskChanged is called for what a client has done to the task of a call, before it gets the answer. receiver and url are those of the webhook that it
	// has set or deleted; empty: none.
	TaskChanged(ctx context.Context, what string, call *translate.Call, ref *run.Ref, receiver, url string)
	// LeftRunning is called when the request of a call ends before its run. The call itself is reported at the end of the run.
	LeftRunning(ctx context.Context, call *translate.Call, ref *run.Ref)
}

// What a client has done to a task, for [Observer].
const (
	taskMade       = "task made"
	taskCanceled   = "task canceled"
	webhookSet     = "webhook set"
	webhookDeleted = "webhook deleted"
)

// report reports a call that was answered without a call of the bridge; a nil failure means success.
func (r *request) report(failure *run.Failure) {
	operation := translate.OperationNone
	switch {
	case r.task != nil:
		operation = translate.OperationTask
	case r.method != nil:
		operation = r.method.operation
	}
	reportAs(r, operation, r.task, failure)
}

// reportAs reports a call about a task; nil: the call has no task.
func reportAs(r *request, o translate.Operation, t *task.Task, failure *run.Failure) {
	call, outcome := translate.Call{Caller: r.caller}, run.Run{Failure: failure}
	if t != nil {
		call = r.about(t)
		outcome.Ref = t.Ref
		if t.Ref.ExecutionID != "" {
			outcome.State = runStates[t.Status.State]
		}
	}
	r.front.Bridge.ReportRun(r.ctx, call, o, &outcome)
}

// about returns the call about a task, for reports.
func (r *request) about(t *task.Task) translate.Call {
	return translate.Call{Caller: r.caller, Name: t.Skill, Task: func() string { return t.ID }}
}

// changed reports what the client has done to a task. receiver and url are those of a webhook; empty: none.
func (r *request) changed(ctx context.Context, what string, t *task.Task, receiver, url string) {
	r.front.Observer.TaskChanged(ctx, what, new(r.about(t)), &t.Ref, receiver, url)
}

// runStates are the states of runs, by the states of their tasks.
var runStates = [...]run.State{
	task.Submitted: run.Accepted, task.Working: run.Working, task.InputRequired: run.Accepted, task.AuthRequired: run.Accepted,
	task.Completed: run.Completed, task.Failed: run.Failed, task.Canceled: run.Canceled, task.Rejected: run.Failed,
}
