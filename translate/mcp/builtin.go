package mcp

import (
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// toolGetRun is the built-in tool that follows a run.
const toolGetRun = "get_run"

// getRunTool is the definition of get_run.
const getRunTool = `{"name":"get_run","title":"Follow a run","description":"Answers as the call of a tool would have that was still running: ` +
	`with its output, its failure, or that it is still running. Call it with the run_token of that answer.",` +
	`"inputSchema":{"type":"object","properties":{"run_token":{"type":"string","description":"The run_token, exactly as it was given."},` +
	`"wait_ms":{"type":"integer","minimum":0,"description":"How long to wait for the end of the run, in milliseconds."}},"required":["run_token"]},` +
	`"annotations":{"readOnlyHint":true,"openWorldHint":true}}`

// builtIn returns the function of a tool of the bridge's own; nil: it is no such tool.
func builtIn(name string) func(*request, jsonrpc.Member) (jsontext.Value, *jsonrpc.Error) {
	if name == toolGetRun {
		return getRun
	}
	return nil
}

// getRun answers the tool get_run.
func getRun(r *request, arguments jsonrpc.Member) (jsontext.Value, *jsonrpc.Error) {
	token, wait := "", *r.wait()
	problem := ""
	jsonrpc.EachMember(arguments.Value, func(name, value jsontext.Value) bool {
		switch string(jsonrpc.Unquote(name)) {
		case "run_token":
			if token = wire.Text(value); token == "" {
				problem = "run_token must be the text that an earlier answer gave."
			}
		case "wait_ms":
			ms, err := strconv.ParseUint(string(value), 10, 31)
			if err != nil {
				problem = "wait_ms must be a whole number of milliseconds."
			}
			wait = min(wait, time.Duration(ms)*time.Millisecond)
		}
		return true
	})
	if token == "" && problem == "" {
		problem = "run_token is required: the one that an earlier answer gave."
	}
	if problem != "" {
		return wrongArgument(r, "run_token", problem)
	}
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
