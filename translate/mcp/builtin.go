package mcp

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// builtIn returns the function of a tool of the bridge's own; nil: it is no such tool.
func (o *Options) builtIn(name string) func(*request, jsontext.Value) (jsontext.Value, *jsonrpc.Error) {
	switch {
	case name == wire.GetRun:
		return getRun
	case !o.Search:
		return nil
	case name == wire.SearchSkills:
		return searchSkills
	case name == wire.DescribeSkill:
		return describeSkill
	case name == wire.CallSkill:
		return callSkill
	}
	return nil
}

// getRun answers the tool get_run.
func getRun(r *request, arguments jsontext.Value) (jsontext.Value, *jsonrpc.Error) {
	token, problem := wire.TextArgument(arguments, "run_token", "the text that an earlier answer gave")
	if problem != "" {
		return wrongArgument(r, "run_token", problem)
	}
	wait := *r.wait()
	ms, problem := wire.NumberArgument(arguments, "wait_ms", 0, uint64(wait.Milliseconds())) //nolint:gosec // waits are positive
	if problem != "" {
		return wrongArgument(r, "wait_ms", problem)
	}
	wait = min(wait, time.Duration(ms)*time.Millisecond) //nolint:gosec // it has 31 bits, or is that of wait
	ref, err := r.front.Tokens.Open(r.ctx, token, r.caller.Principal)
	if errors.Is(err, runtoken.ErrInvalid) {
		return wrongArgument(r, "run_token", "run_token is not valid: it has expired, was changed, or was made for another caller or by another server.")
	}
	if err != nil {
		return r.refuse(tokensUnavailable())
	}
	execution := r.front.Bridge.Resume(r.ctx, ref, translate.Call{Caller: r.caller, Answer: r.Request, Wait: &wait})
	return r.await(execution, ref.SkillID)
}

// wrongArgument answers a call of a built-in tool with a wrong argument.
func wrongArgument(r *request, name, problem string) (jsontext.Value, *jsonrpc.Error) {
	failure := &run.Failure{
		Kind: run.InvalidArguments, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo, Message: problem,
		Argument: &run.Argument{Field: run.FieldInput, Name: name, Reason: run.WrongType},
	}
	r.report(failure)
	return explain(r, failure, ""), nil
}
