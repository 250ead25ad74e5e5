package skillsprotocol

import (
	"cmp"
	"errors"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Bounds of texts in answers, in characters.
const (
	maxMessage = 1000
	maxName    = 200
)

// builder appends parts that the answers of several methods have.
type builder struct{ front.Writer }

// advice adds the three members of all errors.
func (b *builder) advice(source run.Party, executed run.Executed, next run.Next) {
	b.Text("source", string(cmp.Or(source, run.Bridge)))
	b.Text("executed", string(cmp.Or(executed, run.ExecutedMaybe)))
	b.Text("next", string(cmp.Or(next, run.NextNone)))
}

// failure adds the members of errors and of failed runs that a failure has beyond code and message.
func (b *builder) failure(f *run.Failure) {
	if details := front.Details(f); details != nil {
		b.Raw("details", details)
		if f.HasProviderText() {
			b.Text("details_source", string(run.Provider))
		}
	}
	b.Raw("retry", front.Retry(f))
	b.advice(f.By, f.Executed, f.Next())
}

// subject is the skill and run of a call, which the failure may not have.
type subject struct {
	name        string // as the agent wrote it
	skillID     string
	executionID string
	runToken    string   // may be empty
	tools       []string // tool names of the candidates, in their order
}

// failureError returns the error of a call.
func failureError(f *run.Failure, about subject) *jsonrpc.Error {
	row := rowOf(f.Kind)
	if f.Kind == run.RunFailed {
		// The end of a run is a result. Without a run, this kind is a bug of the bridge.
		row = codes[run.Internal]
	}
	b := builder{front.Writer{Buf: make([]byte, 0, 256+len(f.ProviderSaid().Details))}}
	b.Open()
	if f.Kind != run.InvalidArguments || f.By == run.Provider { // else it has param and reason, by the Skills Protocol
		b.Optional("code", string(nameOf(f.Kind)))
	}
	if row.Code == jsonrpc.CodeInvalidParams {
		b.argument(argumentOf(f))
	}
	b.Optional("skill_id", cmp.Or(f.SkillID, about.skillID))
	if isOnlyRead(f) {
		b.readingHint(f.Argument.Value)
	}
	if f.HTTPStatus != 0 {
		b.Integer("http_status", int64(f.HTTPStatus))
	}
	b.Optional("phase", string(f.Phase))
	b.Optional("execution_id", cmp.Or(f.ExecutionID, about.executionID))
	b.Optional("run_token", about.runToken)
	if len(about.tools) > 0 {
		b.Texts("tool_names", about.tools)
	}
	if f.Kind == run.SkillNotFound && front.Details(f) == nil {
		b.notFoundDetails(f, about)
	}
	b.failure(f)
	b.Close()
	return &jsonrpc.Error{Code: row.Code, Message: errorMessage(f, row.Meaning), Data: b.Buf}
}

// errorMessage returns the message of an error. For an unknown name or version, it has the words of
// the Skills Protocol.
func errorMessage(f *run.Failure, otherwise string) string {
	message, a := messageOf(textOf(f), otherwise), f.Argument
	if a == nil || f.Message == "" {
		return message
	}
	switch a.Field {
	case run.FieldVersion:
		return invalidParams + strings.TrimSuffix(message, ".") + "; leave version out to use it."
	case run.FieldSkill:
		message = invalidParams + message
	}
	if f.Kind == run.SkillNotFound && len(a.Candidates) == 0 {
		message += " " + methodList + " tells which names there are."
	}
	return message
}

// textOf returns the text of a failure. If its limit applies to all calls of a batch together, the text advises
// against batches.
func textOf(f *run.Failure) string {
	own := *f
	switch {
	case f.Argument != nil && f.Argument.Reason == run.OverLimit && f.Argument.Field != run.FieldOther:
		own.Message += ", or send the calls of a batch one by one"
	case errors.Is(f.Cause, exchange.ErrNoRoom) && !f.Lost:
		own.Message += " outside of a batch."
	}
	return own.Text()
}

// invalidParams begins the messages of errors with the code -32602.
const invalidParams = "Invalid params: "

// argument adds which param is wrong.
func (b *builder) argument(a *run.Argument) {
	b.Text("param", safetext.Line(Param(a), maxName))
	b.Text("reason", string(a.Reason))
	b.Optional("path", a.Pointer)
	if len(a.Candidates) > 0 {
		b.Texts("candidates", a.Candidates)
	}
}

// isOnlyRead reports whether a call failed because the skill can only be read.
func isOnlyRead(f *run.Failure) bool {
	return f != nil && f.Argument != nil && f.Argument.Reason == run.OnlyRead
}

// readingHint adds how to read a skill that can't be executed.
func (b *builder) readingHint(name string) {
	b.OpenMember("hint")
	b.Text("message", "read the instructions with "+methodReadFile+", and follow them yourself")
	b.Text("method", methodReadFile)
	b.OpenMember("params")
	b.Text(paramName, name)
	b.Text(paramPath, fileSkill)
	b.Close()
	b.Close()
}

// argumentOf returns the argument that is wrong, also if the failure has none.
func argumentOf(f *run.Failure) *run.Argument {
	switch {
	case f.Argument != nil:
		return f.Argument
	case f.Kind == run.SkillNotFound:
		return &run.Argument{Field: run.FieldSkill, Reason: run.NotFound}
	case f.By == run.Provider:
		return &run.Argument{Reason: run.Rejected}
	}
	return &run.Argument{Reason: reasonInvalid}
}

// notFoundDetails adds the details of SKILL_NOT_FOUND (Skill Sharing Protocol, section
// 8.3.4) to an error without details.
func (b *builder) notFoundDetails(f *run.Failure, about subject) {
	b.OpenMember("details")
	if id := cmp.Or(f.SkillID, about.skillID); id != "" {
		b.Text("skill_id", id)
	} else {
		b.Text("name", about.name)
	}
	b.Close()
}

// messageOf returns a message as one line of bounded length, or otherwise if it is empty.
func messageOf(message, otherwise string) string {
	if s := safetext.Line(message, maxMessage); strings.TrimSpace(s) != "" {
		return s
	}
	return otherwise
}

// Codes of the range that JSON-RPC leaves to servers (JSON-RPC 2.0, section
// 5.1). The block is unused by the other agent protocols.
const (
	codeAuthRequired        = -32050
	codePermissionDenied    = -32051
	codeInvocationTimeout   = -32052
	codeEndpointUnreachable = -32053
	codeVersionIncompatible = -32054
	codeValidationError     = -32055
	codeProviderError       = -32056
	codeRateLimited         = -32057
)

// codeRow is the error for one kind of failure.
type codeRow struct {
	// Code is the JSON-RPC code.
	Code int
	// Meaning is for the guide's table, and the message of failures without one.
	Meaning string
}

// codes maps kinds of failures to errors of this protocol. The guide has it as a table.
// RunFailed has only a message, since a failed run is a result.
var codes = [...]codeRow{
	run.Internal:            {jsonrpc.CodeInternalError, "The bridge failed because of a bug"},
	run.InvalidArguments:    {jsonrpc.CodeInvalidParams, "The params or the skill's arguments are invalid"},
	run.SkillNotFound:       {jsonrpc.CodeInvalidParams, "There is no skill of that name or version"},
	run.AuthRequired:        {codeAuthRequired, "A credential is missing or was refused"},
	run.PermissionDenied:    {codePermissionDenied, "The credential does not allow this"},
	run.DeadlineExceeded:    {codeInvocationTimeout, "The deadline passed before the provider accepted a run, or the bridge was stopped"},
	run.Unreachable:         {codeEndpointUnreachable, "The provider can't be reached"},
	run.VersionIncompatible: {codeVersionIncompatible, "The skill needs a newer protocol than the bridge speaks"},
	run.InvalidDocument:     {codeValidationError, "A document that the provider publishes is invalid, or asks for requests that the bridge can't send"},
	run.NotSupported:        {codeValidationError, "The skill takes requests of a type that the bridge can't send"},
	run.ProviderFault:       {codeProviderError, "The provider's answer is invalid"},
	run.RateLimited:         {codeRateLimited, "Too many requests at once"},
	run.Stopped:             {codeInvocationTimeout, "The bridge was stopped before the run had ended"},
	run.CallerGone:          {codeInvocationTimeout, "The caller disconnected before the run ended"},
	run.CallerCanceled:      {codeInvocationTimeout, "The caller canceled the call before the run ended"},
	run.RunFailed:           {Meaning: "The run failed and the provider gave no reason"},
}

// rowOf returns the row of a kind. A kind that is not in the table is a bug of the bridge.
func rowOf(kind run.Kind) codeRow {
	if int(kind) >= len(codes) {
		return codes[run.Internal]
	}
	return codes[kind]
}

// nameOf returns the code of the Skill Sharing Protocol for a kind of errors; empty: it has none.
func nameOf(kind run.Kind) document.ErrorCode {
	if kind == run.RunFailed || int(kind) >= len(codes) {
		return ""
	}
	return document.CodeOf(&run.Failure{Kind: kind})
}
