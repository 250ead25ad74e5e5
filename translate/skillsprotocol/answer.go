package skillsprotocol

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Bounds of texts in answers, in characters.
const (
	maxMessage = 1000
	maxName    = 200
)

// builder appends parts that the answers of several methods have.
type builder struct{ writer }

// advice adds the three members of all errors.
func (b *builder) advice(source run.Party, executed run.Executed, next run.Next) {
	b.text("source", string(cmp.Or(source, run.Bridge)))
	b.text("executed", string(cmp.Or(executed, run.ExecutedMaybe)))
	b.text("next", string(cmp.Or(next, run.NextNone)))
}

// failure adds the members of errors and of failed runs that a failure has beyond code and message.
func (b *builder) failure(f *run.Failure) {
	if details := Details(f); details != nil {
		b.raw("details", details)
		if f.HasProviderText() {
			b.text("details_source", string(run.Provider))
		}
	}
	b.raw("retry", Retry(f))
	b.advice(f.By, f.Executed, f.Next())
}

// subject is the skill and run of a call, which the failure may not have.
type subject struct {
	name        string // as the agent wrote it
	skillID     string
	executionID string
	runToken    string // may be empty
}

// failureError returns the error of a call.
func failureError(f *run.Failure, about subject) *jsonrpc.Error {
	row := rowOf(f.Kind)
	if f.Kind == run.RunFailed {
		// The end of a run is a result. Without a run, this kind is a bug of the bridge.
		row = codes[run.Internal]
	}
	b := builder{writer{buf: make([]byte, 0, 256+len(f.ProviderSaid().Details))}}
	b.open()
	if row.Name != "" && named(f.Kind, f.By) {
		b.text("code", string(row.Name))
	}
	if row.Code == jsonrpc.CodeInvalidParams {
		b.argument(argumentOf(f))
	}
	b.optional("skill_id", cmp.Or(f.SkillID, about.skillID))
	if f.HTTPStatus != 0 {
		b.name("http_status")
		b.buf = strconv.AppendInt(b.buf, int64(f.HTTPStatus), 10)
	}
	b.optional("phase", string(f.Phase))
	b.optional("execution_id", cmp.Or(f.ExecutionID, about.executionID))
	b.optional("run_token", about.runToken)
	if f.Kind == run.SkillNotFound && Details(f) == nil {
		b.notFoundDetails(f, about)
	}
	b.failure(f)
	b.close()
	return &jsonrpc.Error{Code: row.Code, Message: errorMessage(f, row.Meaning), Data: b.buf}
}

// errorMessage returns the message of an error. For an unknown name or version, it has the words of
// the Skills Protocol.
func errorMessage(f *run.Failure, otherwise string) string {
	message, a := messageOf(f.Text(), otherwise), f.Argument
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

// invalidParams begins the messages of errors with the code -32602.
const invalidParams = "Invalid params: "

// argument adds which param is wrong.
func (b *builder) argument(a *run.Argument) {
	b.text("param", safetext.Line(Param(a), maxName))
	b.text("reason", string(a.Reason))
	b.optional("path", a.Pointer)
	if len(a.Candidates) > 0 && a.Value == "" { // else they are in the details
		b.texts("candidates", a.Candidates)
	}
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
	b.openMember("details")
	if id := cmp.Or(f.SkillID, about.skillID); id != "" {
		b.text("skill_id", id)
	} else {
		b.text("name", about.name)
	}
	b.close()
}

// messageOf returns a message as one line of bounded length, or otherwise if it is empty.
func messageOf(message, otherwise string) string {
	if s := safetext.Line(message, maxMessage); strings.TrimSpace(s) != "" {
		return s
	}
	return otherwise
}
