package mcp

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// callTool answers tools/call: it runs a skill, and waits for its end.
func callTool(r *request) (jsontext.Value, *jsonrpc.Error) {
	name, fault := r.text(wire.ParamName)
	if fault != nil {
		return r.refuse(fault)
	}
	arguments := r.params[wire.ParamArguments]
	if arguments.Value != nil && arguments.Value.Kind() != '{' {
		return r.refuse(invalid("arguments must be an object"))
	}
	own, repeated := r.front.Options.builtIn(name), wire.RepeatedInArguments
	if own != nil {
		repeated = wire.RepeatedArgument // it checks the arguments in its own
	}
	if argument, problem := repeated(arguments); problem != "" {
		return wrongArgument(r, argument, problem)
	}
	if own != nil {
		return own(r, arguments.Value)
	}
	call := translate.Call{Name: name, Answer: r.Request, Inputs: jsonrpc.Object{Text: arguments.Value, Members: arguments.Members}}
	return start(r, call)
}

// start starts the run of a call, and waits for its end.
func start(r *request, call translate.Call) (jsontext.Value, *jsonrpc.Error) {
	if err := r.front.Tokens.Ready(r.ctx); err != nil { // without a run token, the client could not follow the run
		return r.refuse(tokensUnavailable())
	}
	call.Priority = r.meta.Priority
	call.Caller, call.Patient, call.Unattended, call.Wait, call.Checks = r.caller, true, r.takesTasks(), r.wait(), &translate.RequestOf(r.ctx).Checks
	return r.await(r.front.Bridge.Start(r.ctx, call), call.Name)
}

// wait returns how long a call waits for the end of its run.
func (r *request) wait() *time.Duration {
	wait := r.front.Options.Wait
	if r.takesTasks() {
		wait = min(wait, r.front.Options.TaskAfter)
	}
	return &wait
}

// takesTasks reports whether the call may be answered with a task.
func (r *request) takesTasks() bool {
	return r.modern && r.meta.Tasks && r.front.Options.TaskAfter >= 0
}

// await waits for the end of a run, reports its progress if the client wants that, and answers.
func (r *request) await(execution translate.Execution, name string) (jsontext.Value, *jsonrpc.Error) {
	stream := r.progressStream()
	r.unknown = execution.Unknown()
	r.params, r.Request.Params, r.Request.Members = wire.Params{}, nil, nil
	if stream == nil {
		r.Release()
		outcome := execution.Wait()
		return r.answer(execution.Skill(), &outcome, name)
	}
	p := newProgress(r, stream)
	r.Release()
	outcome := p.watch(execution)
	value, fault := r.answer(execution.Skill(), &outcome, name)
	if p.begun {
		if fault != nil {
			_ = stream.Error(fault) // an error would mean that the client is gone
		} else {
			_ = stream.Result(0, value) // as above
		}
		p.end()
	}
	return value, fault
}

// answer answers a call with the state of its run.
func (r *request) answer(skill *translate.Skill, outcome *run.Run, name string) (jsontext.Value, *jsonrpc.Error) {
	if outcome.Failure != nil {
		return failed(r, outcome, name)
	}
	if !outcome.State.Ended() {
		if r.takesTasks() {
			return newTask(r, outcome)
		}
		return stillRunning(r, outcome), nil
	}
	value, failure := completed(r, skill, outcome)
	if failure != nil {
		return explain(r, failure, r.tokenOf(outcome)), nil
	}
	return value, nil
}

// tokenOf returns the token of a run, or nothing if none was accepted or the token can't be made.
func (r *request) tokenOf(o *run.Run) string {
	if o.ExecutionID == "" || o.Source == "" {
		return ""
	}
	// The context may have ended with the call.
	token, err := r.front.Tokens.Seal(context.WithoutCancel(r.ctx), o.Ref, r.caller.Principal)
	if err != nil {
		return "" // the implementation of Tokens logs the error
	}
	return token
}

// tokensUnavailable returns the error for keys of run tokens that can't be read.
func tokensUnavailable() *jsonrpc.Error {
	return &jsonrpc.Error{
		Code: jsonrpc.CodeInternalError, Message: "Internal error: the server can't read its keys for run tokens at the moment; try again later",
		Data: jsontext.Value(`{"code":"INTERNAL_ERROR","executed":"no"}`),
	}
}
