package mcp

import (
	"cmp"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

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
	if code, own := errors.AsType[codeError](f.Cause); own && code == codeHeaderMismatch {
		return nil, headerMismatch(messageOf(f))
	}
	switch codeOfCall(f, r.indirect) {
	case jsonrpc.CodeInvalidParams:
		var w front.Writer
		var tools []string
		w.Open()
		if len(f.Argument.Candidates) > 0 {
			tools = r.front.Bridge.Tools(r.ctx, f.Argument.Candidates, r.caller.Principal)
			w.Texts("candidates", tools)
		}
		w.Close()
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Unknown tool: " + safetext.Line(name, wire.MaxQuoted) + wire.Similar(tools, f.Argument.Unread), Data: w.Buf}
	case jsonrpc.CodeInternalError:
		var w front.Writer
		w.Open()
		w.Text("code", errorCode(f))
		w.Text("executed", string(cmp.Or(f.Executed, run.ExecutedMaybe)))
		w.Close()
		// Many clients show a model the message only, and a model repeats what has failed.
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: messageOf(f) + wire.Advice(f, run.NextNone, ""), Data: w.Buf}
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
	w := r.open(resultComplete)
	w.OpenArray("content")
	w.TextContent(text + wire.Advice(f, next, token))
	w.CloseArray()
	w.isError()
	return w.end(func(w *front.Writer) {
		w.OpenMember(wire.MetaError)
		w.Text("code", errorCode(f))
		w.Text("executed", string(cmp.Or(f.Executed, run.ExecutedMaybe)))
		w.Text("next", string(next))
		w.Text("source", string(cmp.Or(f.By, run.Bridge)))
		w.Raw("details", front.Details(f))
		if next != run.NextFollowRun { // which is not to call the tool again
			w.Raw("retry", front.Retry(f))
		}
		w.Optional("runToken", token)
		w.Close()
	})
}

// stillRunning is the answer to a call whose run goes on. It is an error, since tools with an output schema may not answer
// otherwise.
func stillRunning(r *request, o *run.Run) jsontext.Value {
	text, add := runningOn(r.tokenOf(o))
	w := r.open(resultComplete)
	w.OpenArray("content")
	w.TextContent(text)
	w.CloseArray()
	w.isError()
	return w.end(func(w *front.Writer) {
		w.OpenMember(wire.MetaError)
		add(w)
		w.Close()
	})
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
	text := cmp.Or(strings.TrimSpace(safetext.Line(f.Text(), maxMessage)), "The call failed.")
	if last, _ := utf8.DecodeLastRuneInString(text); !strings.ContainsRune(".!?…", last) && !strings.HasSuffix(text, ".)") {
		text += "."
	}
	if f.Argument != nil && f.Argument.Reason == run.OnlyRead {
		text += " Read the resource " + wire.ResourceURI(f.Argument.Value, wire.FileSkill) + "."
	}
	return text
}
