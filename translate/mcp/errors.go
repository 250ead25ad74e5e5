package mcp

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Error codes of MCP.
const (
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
	codeLegacyNoResource   = -32002
)

// Bounds of texts in answers, in characters.
const (
	maxMessage = 2000
	maxURI     = 1000
)

// quoted returns a text of the client for a message.
func quoted(s string) string { return `"` + safetext.Line(s, wire.MaxQuoted) + `"` }

func headerMismatch(why string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: codeHeaderMismatch, Message: "Header mismatch: " + why, Status: http.StatusBadRequest}
}

// unsupportedVersion returns the error for a version that is not served.
func (r *request) unsupportedVersion(requested string) *jsonrpc.Error {
	data := front.Object(func(w *front.Writer) {
		w.Texts("supported", r.front.Options.Versions)
		w.Text("requested", safetext.Line(requested, wire.MaxQuoted))
	})
	return &jsonrpc.Error{
		Code: codeUnsupportedVersion, Status: http.StatusBadRequest, Data: data,
		Message: "Unsupported protocol version " + quoted(requested) + ": this server speaks " + strings.Join(r.front.Options.Versions, ", "),
	}
}

// malformed returns the error for a modern request that does not describe itself.
func malformed(why string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Invalid params: " + why, Status: http.StatusBadRequest}
}

// invalid returns the error for wrong params.
func invalid(why string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Invalid params: " + why}
}

func (r *request) methodNotFound() *jsonrpc.Error {
	e := &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + safetext.Line(r.Method, wire.MaxQuoted)}
	if place := r.elsewhere(); place != nil {
		e.Message, e.Data = "Method not found: "+place.Text, front.Object(func(w *front.Writer) { w.Place(place) })
	}
	if r.modern {
		e.Status = http.StatusNotFound
	}
	return e
}

// elsewhere returns where a method of another protocol is served; nil: it is none.
func (r *request) elsewhere() *front.Place { return r.front.Elsewhere.Of(r.HTTP, Name, r.Method) }

// text returns the text of a member that is one. fault is the error for one that is missing or of another type.
func (r *request) text(of string) (value string, fault *jsonrpc.Error) {
	v := r.Param(of).Value
	switch {
	case v == nil:
		return "", invalid(of + " is required")
	case v.Kind() != '"':
		return "", invalid(of + " must be a string")
	}
	return jsonrpc.Text(v), nil
}

// refuse reports a refused call and returns its error.
func (r *request) refuse(fault *jsonrpc.Error) (jsontext.Value, *jsonrpc.Error) {
	r.report(front.FailureOf(fault))
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

// Code returns the code of the JSON-RPC error that a call is answered with; 0: it is answered with a result.
func Code(c *translate.Call, r *run.Run) int {
	f := r.Failure
	if f == nil {
		return 0
	}
	if code, own := errors.AsType[front.CodeError](f.Cause); own {
		return int(code)
	}
	if c.Method != methodCallTool {
		return 0
	}
	_, indirectly := c.Answer.(indirect)
	return codeOfCall(f, indirectly)
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

// codeOfCall returns the code of the JSON-RPC error for a failure of a call; 0: the answer is a result. If the name of the skill is an
// argument of a built-in tool, the model has chosen it.
func codeOfCall(f *run.Failure, indirect bool) int {
	switch {
	case isUnknownTool(f):
		if indirect {
			return 0
		}
		return jsonrpc.CodeInvalidParams
	case f.Kind == run.ProviderFault, f.Kind == run.Internal:
		return jsonrpc.CodeInternalError
	}
	return 0
}

// isUnknownTool reports whether a call failed since no tool has its name.
func isUnknownTool(f *run.Failure) bool {
	return f.By == run.Bridge && f.Argument != nil && f.Argument.Field == run.FieldSkill && f.Argument.Reason != run.OnlyRead && f.ExecutionID == "" &&
		(f.Kind == run.SkillNotFound || f.Kind == run.InvalidArguments)
}

// failed answers a call that has failed: what a model can act on is a result, and the rest an error.
func failed(r *request, o *run.Run, name string) (jsontext.Value, *jsonrpc.Error) {
	f := o.Failure
	if fault := unauthenticated(r, f); fault != nil {
		return nil, fault
	}
	if code, own := errors.AsType[front.CodeError](f.Cause); own && code == codeHeaderMismatch {
		return nil, headerMismatch(messageOf(f))
	}
	if r.question != nil && f.Next() == run.NextConnect && f.Executed == run.ExecutedNo {
		return r.ask(f)
	}
	switch codeOfCall(f, r.indirect) {
	case jsonrpc.CodeInvalidParams:
		var tools []string
		data := jsontext.Value("{}")
		if len(f.Argument.Candidates) > 0 {
			tools = r.front.Bridge.Tools(r.ctx, f.Argument.Candidates, r.caller.Principal)
			data = front.Object(func(w *front.Writer) { w.Texts("candidates", tools) })
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Unknown tool: " + safetext.Line(name, wire.MaxQuoted) + wire.Similar(tools, f.Argument.Unread), Data: data}
	case jsonrpc.CodeInternalError:
		data := front.Object(func(w *front.Writer) {
			w.Text("code", errorCode(f))
			w.Text("executed", string(cmp.Or(f.Executed, run.ExecutedMaybe)))
		})
		// Many clients show a model the message only, and a model repeats what has failed.
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: messageOf(f) + wire.Advice(f, run.NextNone, ""), Data: data}
	}
	return explain(r, f, r.tokenOf(o)), nil
}

// explain returns the result of a call that has failed: a text that says what has happened and what to do next, and the facts
// for programs.
func explain(r *request, f *run.Failure, token string) jsontext.Value {
	next := f.Next()
	if next == run.NextFollowRun && token == "" {
		next = run.NextNone
	}
	text := messageOf(f)
	if next == run.NextFixParams {
		text += wire.Unknown(r.unknown)
	}
	return r.errorResult(text+wire.Advice(f, next, token), func(w *front.Writer) {
		facts(w, f, next, token)
		w.Text("source", string(cmp.Or(f.By, run.Bridge)))
	})
}

// facts adds what programs are told about a failure. token is that of the run; empty: there is none.
func facts(w *front.Writer, f *run.Failure, next run.Next, token string) {
	w.Text("code", errorCode(f))
	w.Text("executed", string(cmp.Or(f.Executed, run.ExecutedMaybe)))
	w.Text("next", string(next))
	w.Raw("details", front.Details(f))
	if next != run.NextFollowRun || token == "" { // else the tool is not to be called again
		w.Raw("retry", front.Retry(f))
	}
	w.Optional("runToken", token)
}

// errorResult returns a result that is an error: a text, and the facts for programs, which add adds.
func (r *request) errorResult(text string, add func(*front.Writer)) jsontext.Value {
	w := r.open(resultComplete)
	w.OpenArray("content")
	w.TextContent(text)
	w.CloseArray()
	w.Bool("isError", true)
	return w.end(func(w *front.Writer) { w.Raw(wire.MetaError, front.Object(add)) })
}

// stillRunning is the answer to a call whose run goes on. It is an error, since tools with an output schema may not answer
// otherwise.
func stillRunning(r *request, o *run.Run) jsontext.Value {
	return r.errorResult(runningOn(r.tokenOf(o)))
}

// runningOn returns what is said about a run that goes on: a text, and the members for programs, which add adds. An empty token is none.
func runningOn(token string) (text string, add func(*front.Writer)) {
	text = "The skill is still running."
	next := run.NextNone
	if token != "" {
		next = run.NextFollowRun
		text += " Do not start another run; call get_run with run_token " + token + " to learn how it ends."
	}
	return text, func(w *front.Writer) {
		w.Text("code", "STILL_RUNNING")
		w.Text("executed", string(run.ExecutedYes))
		w.Text("next", string(next))
		w.Text("source", string(run.Bridge))
		w.Optional("runToken", token)
	}
}

// errorCode returns the code of a failure in the words of the Skill Sharing Protocol.
func errorCode(f *run.Failure) string {
	return cmp.Or(safetext.Line(string(document.CodeOf(f)), wire.MaxQuoted), "INTERNAL_ERROR")
}

// messageOf returns the text of a failure, cleaned and bounded, with a full stop.
func messageOf(f *run.Failure) string {
	text := cmp.Or(safetext.TrimmedLine(f.Text(), maxMessage), "The call failed.")
	if last, _ := utf8.DecodeLastRuneInString(text); !strings.ContainsRune(".!?…", last) && !strings.HasSuffix(text, ".)") {
		text += "."
	}
	if f.Argument != nil && f.Argument.Reason == run.OnlyRead {
		text += " Read the resource " + wire.ResourceURI(f.Argument.Value) + "."
	}
	return text
}

// refusal returns the error for a failure in a method whose results have no isError. token is that of the run; empty: there is none.
func refusal(r *request, f *run.Failure, token string) *jsonrpc.Error {
	if fault := unauthenticated(r, f); fault != nil {
		return fault
	}
	return failureError(f, token)
}

// failureError returns the error for a failure that has nothing to do with the caller. token is that of the run; empty: there is none.
func failureError(f *run.Failure, token string) *jsonrpc.Error {
	text, next := messageOf(f), f.Next()
	if token != "" && next == run.NextFollowRun {
		text += wire.Advice(f, next, token)
	}
	data := front.Object(func(w *front.Writer) { facts(w, f, next, token) })
	jsonrpc.Flatten(data)
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: text, Data: data}
}
