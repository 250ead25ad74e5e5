// Package mcp answers the methods of MCP (Model Context Protocol): each skill is a tool, and a slow skill is a task. It serves the
// version 2026-07-28 ("modern"), whose requests describe themselves, and the versions 2025-11-25, 2025-06-18 and 2025-03-26
// ("legacy") without sessions.
package mcp

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// Name is the name of this front in reports.
const Name = "mcp"

// Options are those of the operator.
type Options struct {
	// Name and Version are those of the server; Instructions are for the client's model. Empty ones are left out.
	Name, Version, Instructions string
	// Versions are those of MCP that are served, the newest first.
	Versions []string
	// Private says that lists of skills depend on the principal: sources have credentials of their own for reading them.
	Private bool
	// Wait is how long a call waits for the end of its run.
	Wait time.Duration
	// TaskAfter is how long a call of a client that takes tasks waits before it is answered with one. Negative: there are no tasks.
	TaskAfter time.Duration
	// Validate checks outputs against their schemas, which are listed then.
	Validate bool
	// Search lists only tools with which a model searches skills and calls them, instead of a tool for each skill.
	Search bool
}

// DefaultTaskAfter is the default of TaskAfter.
const DefaultTaskAfter = 2 * time.Second

// Front answers the methods of MCP. Its fields must not be changed while it serves.
type Front struct {
	// Bridge executes the calls. It is required.
	Bridge *translate.Bridge
	// Tokens makes and opens run tokens. It is required.
	Tokens front.Tokens
	// Options are those of the operator.
	Options Options
	// RequirePrincipal refuses anonymous callers, whatever the method.
	RequirePrincipal bool
	// Refused is called for each call that was refused because of its principal, with the reason. May be nil.
	Refused func(ctx context.Context, method, reason string)
	// Challenge returns the WWW-Authenticate field for callers that have to authenticate; empty, or nil: they get no HTTP status
	// 401, since they could not learn how.
	Challenge func(r *http.Request) string
	// Streaming is called when a stream begins (1) and ends (-1). It is required.
	Streaming func(n int)
	// Stopping is closed when the front is about to be replaced, or the process exits: then subscriptions end. May be nil.
	Stopping <-chan struct{}
	// Canceled are the runs whose tasks were canceled, or that other fronts have canceled. It is required.
	Canceled *ledger.Cancellations
	// Elsewhere knows the methods of other protocols. May be nil.
	Elsewhere *front.Elsewhere
	// Questions seals what clients send back with answers to questions. nil: they are not asked.
	Questions *runtoken.Sealer
	// Panicked is called after a panic in the background, with its stack. May be nil.
	Panicked func(ctx context.Context, value any, stack []byte)

	polled    run.Memory[polledRun]
	ended     endedRuns
	listeners listeners
}

// The methods.
const (
	methodInitialize   = "initialize"
	methodPing         = "ping"
	methodCallTool     = "tools/call"
	methodGetTask      = "tasks/get"
	methodUpdateTask   = "tasks/update"
	methodCancelTask   = "tasks/cancel"
	methodReadResource = "resources/read"
	methodListen       = "subscriptions/listen"
	methodGetPrompt    = "prompts/get"

	// MethodUnknown is the method of calls with any other name, in reports.
	MethodUnknown = "unknown"
)

// method is a method of MCP.
type method struct {
	modern, legacy bool
	operation      translate.Operation
	serve          func(*request) (jsontext.Value, *jsonrpc.Error)
	reports        bool // serve reports the call, or the bridge does
	tasks          bool // it is about tasks
}

// methods are the methods by name.
var methods map[string]*method

func init() { // else it would refer to itself
	methods = map[string]*method{
		"server/discover":          {modern: true, operation: translate.OperationDescribe, serve: discover},
		methodInitialize:           {legacy: true, operation: translate.OperationDescribe, serve: initialize},
		methodPing:                 {legacy: true, operation: translate.OperationDescribe, serve: ping},
		"tools/list":               {modern: true, legacy: true, operation: translate.OperationList, serve: listTools, reports: true},
		methodCallTool:             {modern: true, legacy: true, operation: translate.OperationExecute, serve: callTool, reports: true},
		"resources/list":           {modern: true, legacy: true, operation: translate.OperationList, serve: listResources, reports: true},
		"resources/templates/list": {modern: true, legacy: true, operation: translate.OperationDescribe, serve: listTemplates},
		methodReadResource:         {modern: true, legacy: true, operation: translate.OperationDescribe, serve: readResource, reports: true},
		"skills/list":              {modern: true, legacy: true, operation: translate.OperationList, serve: listSkills, reports: true},
		"skills/get":               {modern: true, legacy: true, operation: translate.OperationDescribe, serve: getSkill, reports: true},
		"prompts/list":             {modern: true, legacy: true, operation: translate.OperationList, serve: listPrompts, reports: true},
		methodGetPrompt:            {modern: true, legacy: true, operation: translate.OperationExecute, serve: getPrompt, reports: true},
		"completion/complete":      {modern: true, legacy: true, operation: translate.OperationDescribe, serve: complete},
		methodListen:               {modern: true, operation: translate.OperationDescribe, serve: listen, reports: true},
		methodGetTask:              {modern: true, operation: translate.OperationFollow, serve: getTask, reports: true, tasks: true},
		methodUpdateTask:           {modern: true, operation: translate.OperationDescribe, serve: updateTask, tasks: true},
		methodCancelTask:           {modern: true, operation: translate.OperationFollow, serve: cancelTask, reports: true, tasks: true},
	}
}

// OtherMethods are methods of MCP that this front does not have.
var OtherMethods = []string{
	"logging/setLevel", "resources/subscribe", "resources/unsubscribe", "roots/list", "sampling/createMessage", "elicitation/create", "tasks/list", "tasks/result",
}

// Methods returns the names of all methods, in no order.
func Methods() []string { return slices.Collect(maps.Keys(methods)) }

// request is one request of a method.
type request struct {
	*jsonrpc.Request
	front  *Front
	ctx    context.Context //nolint:containedctx // of this request
	caller run.Caller
	method *method // nil: there is no such method
	meta   wire.Meta
	modern bool
	// indirect says that the call is about a skill whose name is an argument of a built-in tool.
	indirect bool
	// question is what a question to the client during the call is bound to; nil: the client can't be asked, or was asked already.
	question []string
	// waited is how long the call has waited before its skill was invoked.
	waited time.Duration
	// unknown are arguments of the call that the skill does not define.
	unknown []string
	// room counts the result instead of the Request. May be nil.
	room *room
}

// ServeRPC answers one request. Notifications have no effect.
func (f *Front) ServeRPC(ctx context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
	if req.IsNotification() {
		return nil, nil
	}
	r := &request{Request: req, front: f, ctx: ctx, caller: translate.RequestOf(ctx).Caller, method: methods[req.Method]}
	r.caller.Front, r.caller.Method = Name, MethodUnknown
	if r.method != nil {
		r.caller.Method = req.Method
	}
	repeated := r.readParams()
	if failure := front.Admit(ctx, f.RequirePrincipal, &r.caller, f.Refused); failure != nil {
		r.report(failure)
		return nil, unauthorized(r, failure)
	}
	if fault := cmp.Or(repeated, r.check()); fault != nil {
		return r.refuse(fault)
	}
	result, fault := r.method.serve(r)
	if !r.method.reports {
		r.report(front.FailureOf(fault))
	}
	return result, fault
}

// readParams reads the params, and returns the error for a member of them or of their _meta that is there twice.
func (r *request) readParams() (fault *jsonrpc.Error) {
	if r.Params != nil && r.Params.Kind() != '{' {
		fault = invalid("params must be an object")
		if r.modern = r.saysModern(); r.modern {
			fault.Status = http.StatusBadRequest // it does not describe itself
		}
		return fault
	}
	name, twice := wire.RepeatedParam(r.Request)
	if inMeta, more := r.meta.Read(r.Param("_meta").Value); more {
		name, twice = inMeta, true
	}
	if twice {
		fault = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "Invalid Request: \"" + name + "\" is there more than once"}
	}
	if id := translate.TraceIDOf(r.meta.TraceParent); id != "" {
		r.caller.TraceID = id
	}
	return fault
}

// check checks what all requests have in common.
func (r *request) check() *jsonrpc.Error {
	r.modern = r.saysModern()
	if r.method == nil && r.elsewhere() != nil { // a client of another protocol knows no versions of this one
		return r.methodNotFound()
	}
	if r.modern {
		switch {
		case r.meta.Version.Kind() != '"':
			return malformed("_meta needs the text " + wire.MetaVersion)
		case r.meta.Capabilities.Kind() != '{':
			return malformed("_meta needs the object " + wire.MetaCapabilities)
		}
		if fault := r.checkHeader(); fault != nil {
			return fault
		}
	} else if version := r.legacyVersion(); r.Method != methodInitialize && (isModern(version) || !r.front.Options.serves(version)) {
		return r.unsupportedVersion(version)
	}
	switch {
	case r.Method == methodInitialize && r.InBatch():
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "Invalid Request: initialize must not be part of a batch"}
	case r.method == nil, r.method.tasks && r.front.Options.TaskAfter < 0, r.modern && !r.method.modern, !r.modern && !r.method.legacy:
		return r.methodNotFound()
	}
	return nil
}

// recovered reports a panic of a goroutine.
func (f *Front) recovered(ctx context.Context) {
	if value := recover(); value != nil && f.Panicked != nil {
		f.Panicked(ctx, value, debug.Stack())
	}
}
