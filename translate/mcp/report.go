package mcp

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// refuse reports a refused call and returns its error.
func (r *request) refuse(fault *jsonrpc.Error) (jsontext.Value, *jsonrpc.Error) {
	r.report(failureOf(fault))
	return nil, fault
}

// report reports a call that was answered without the bridge; a nil failure means success.
func (r *request) report(failure *run.Failure) { r.reportRun(&run.Run{Failure: failure}) }

// reportRun reports a call about a run that was answered without the bridge.
func (r *request) reportRun(o *run.Run) {
	operation := translate.OperationNone
	if r.method != nil {
		operation = r.method.operation
	}
	r.front.Bridge.ReportRun(r.ctx, translate.Call{Caller: r.caller}, operation, o)
}

// failureOf returns the failure of a call that this front itself answers with an error; nil: there is none.
func failureOf(fault *jsonrpc.Error) *run.Failure {
	if fault == nil {
		return nil
	}
	failure := &run.Failure{
		Kind: run.InvalidArguments, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo, Message: fault.Message,
		Argument: &run.Argument{Field: run.FieldOther, Reason: run.Unsupported}, Cause: codeError(fault.Code),
	}
	if fault.Code == jsonrpc.CodeInternalError {
		failure.Kind, failure.Argument = run.Internal, nil
	}
	return failure
}

// codeError is the cause of a failure that the front itself has found: the code of its answer.
type codeError int

// Error implements error.
func (e codeError) Error() string { return "the answer is the JSON-RPC error " + strconv.Itoa(int(e)) }

// Code returns the code of the JSON-RPC error that a call is answered with; 0: it is answered with a result.
func Code(c *translate.Call, r *run.Run) int {
	f := r.Failure
	if f == nil {
		return 0
	}
	if code, own := errors.AsType[codeError](f.Cause); own {
		return int(code)
	}
	switch c.Method {
	case methodCallTool:
		_, indirectly := c.Answer.(indirect)
		return codeOfCall(f, indirectly)
	}
	return 0
}

// unauthorized returns the error for a caller that is refused because of its principal.
func unauthorized(r *request, failure *run.Failure) *jsonrpc.Error {
	e := &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: failure.Message, Status: http.StatusUnauthorized}
	if failure.Demand == nil || !failure.Demand.CallerActs {
		e.Status = http.StatusForbidden
		return e
	}
	if challenge := r.challenge(); challenge != "" {
		e.Header = http.Header{"Www-Authenticate": {challenge}}
	}
	return e
}

// unauthenticated returns the error for a caller that has to authenticate and can learn how; nil: the failure has another reason, or
// the caller can't.
func unauthenticated(r *request, f *run.Failure) *jsonrpc.Error {
	if f.Demand == nil || !f.Demand.CallerActs || r.challenge() == "" {
		return nil
	}
	return unauthorized(r, f)
}

// challenge returns the WWW-Authenticate field for the caller; empty: there is none.
func (r *request) challenge() string {
	if r.front.Challenge == nil || r.HTTP == nil {
		return ""
	}
	return r.front.Challenge(r.HTTP)
}

// Param returns the name of the member of a request that an argument stands for, for logs.
func Param(a *run.Argument) string {
	switch a.Field {
	case run.FieldInput, run.FieldInputs:
		return "arguments" + a.Pointer
	case run.FieldSkill, run.FieldVersion:
		return "name"
	}
	return "params"
}
