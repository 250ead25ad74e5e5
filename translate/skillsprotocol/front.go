package skillsprotocol

import (
	"context"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/callbacks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptcalls"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Bridge executes calls for a [Front]. Implementations must be safe for concurrent use.
type Bridge interface {
	keptcalls.Bridge
	// List returns the skills that the query selects, in the byte order of their names.
	List(ctx context.Context, q translate.Query) translate.Listing
	// Search returns the skills that the query selects and that have words of a text, best first, at most limit.
	Search(ctx context.Context, q translate.Query, words string, limit int) translate.Listing
	// Tools returns the tool names of skills that the principal may see; of a skill without one, its name.
	Tools(ctx context.Context, skills []string, principal string) []string
	// Describe describes the skill that the call's Name, Version and Principal select. Exactly one of its values is
	// not nil.
	Describe(ctx context.Context, call translate.Call) (*translate.Description, *run.Failure)
	// Namespaces returns the configured namespaces that a principal may know, in byte order.
	Namespaces(principal string) []string
}

// Front answers the methods of the Skills Protocol. Its fields must not be changed
// while it serves.
type Front struct {
	// Bridge executes the calls. It is required.
	Bridge Bridge
	// RequirePrincipal refuses anonymous callers with AUTH_REQUIRED, whatever the method.
	RequirePrincipal bool
	// Tokens makes and opens run tokens. It is required.
	Tokens front.Tokens
	// Kept are the runs of calls with idempotency keys, and of those that ask for a call-back; nil: such calls are refused.
	Kept *KeptRuns
	// Callbacks tell callers the ends of runs; nil: calls that ask for that are refused.
	Callbacks *callbacks.Sender
	// Canceled are the runs that callers have canceled, also with other fronts. It is required.
	Canceled *ledger.Cancellations
	// Files says that skills may have other files than SKILL.md and descriptor.json, because a site publishes them.
	Files bool
	// Version is that of the bridge, for rpc.discover.
	Version string
	// Refused is called for each call that was refused because of its principal, with the reason. May be nil.
	Refused func(ctx context.Context, method, reason string)
	// Elsewhere knows the methods of other protocols. May be nil.
	Elsewhere *front.Elsewhere
	// Page returns the SKILL.md of a skill; nil, or with an error: the front renders its own.
	Page func(ctx context.Context, d *translate.Description) (string, error)
}

// callerFor returns the caller of a method, for the bridge.
func callerFor(ctx context.Context, method string) run.Caller {
	who := translate.RequestOf(ctx).Caller
	who.Front, who.Method = Name, method
	return who
}

// Profile returns the JSON-RPC profile of the Skills Protocol: batches have up to maxBatch
// elements, and null is a valid id.
func Profile(maxBatch int) jsonrpc.Profile {
	return jsonrpc.Profile{
		MaxBatch:  maxBatch,
		NullID:    true,
		ErrorData: envelopeData,
		Refuse:    refuse,
		TooLarge:  tooLarge,
	}
}

// Name is the name of this front in [run.Caller], for reports.
const Name = "skills_protocol"

const (
	methodExecute  = "execute_skill"
	methodGetRun   = "get_run"
	methodListRuns = "list_runs"
	methodCancel   = "cancel_run"
	methodList     = "list_skills"
	methodDescribe = "describe_skill"
	methodReadFile = "read_skill_file"
	methodGuide    = "load_skills_protocol_guide"
	methodDiscover = "rpc.discover"

	methodUnknown = "unknown" // any other method, in reports
)

// method is a method of the Skills Protocol.
type method struct {
	operation translate.Operation // in reports
	params    []string
	serve     func(*Front, context.Context, *params) (jsontext.Value, *jsonrpc.Error)
	index     *near.Index // of the names of the params
}

// methods are the supported methods by name, and methodIndex finds their names by similar ones.
var (
	methods     map[string]*method
	methodIndex *near.Index
)

func init() { // else they would refer to themselves
	methods = map[string]*method{
		methodExecute: {operation: translate.OperationExecute, serve: (*Front).executeSkill, params: []string{
			paramName, paramArgs, paramVersion, paramTimeout, paramPriority, paramWait, paramKey, paramNotify, paramBlobs,
		}},
		methodGetRun:   {operation: translate.OperationFollow, serve: (*Front).getRun, params: []string{paramRunToken, paramWait}},
		methodCancel:   {operation: translate.OperationTask, serve: (*Front).cancelRun, params: []string{paramRunToken}},
		methodListRuns: {operation: translate.OperationTask, serve: (*Front).listRuns, params: []string{paramStatus, paramSkill, paramLimit, paramCursor}},
		methodList: {operation: translate.OperationList, serve: (*Front).listSkills, params: []string{
			paramNamespace, paramType, paramQuery, paramUsable, paramDetail, paramFormat, paramLimit, paramCursor,
		}},
		methodDescribe: {operation: translate.OperationDescribe, serve: (*Front).describeSkill, params: []string{paramName, paramVersion, paramDetail}},
		methodReadFile: {operation: translate.OperationDescribe, serve: (*Front).readSkillFile, params: []string{paramName, paramPath, paramVersion}},
		methodGuide:    {operation: translate.OperationDescribe, serve: (*Front).loadGuide},
		methodDiscover: {operation: translate.OperationDescribe, serve: (*Front).discover},
	}
	for _, m := range methods {
		m.index = near.NewIndex(slices.Sorted(slices.Values(m.params)))
	}
	methodIndex = near.NewIndex(methodNames())
}

func methodNames() []string { return slices.Sorted(maps.Keys(methods)) }

// Methods returns the names of the methods of the Skills Protocol, also of those without a counterpart here.
func Methods() []string { return slices.Concat(methodNames(), unsupported) }

// otherMethods are names that agents write for methods, beside misspelt ones, and methods of other protocols.
var otherMethods = map[string]string{
	"execute": methodExecute, "run_skill": methodExecute, "call_skill": methodExecute, "invoke_skill": methodExecute, "exec_skill": methodExecute, "tools/call": methodExecute, "message/send": methodExecute, "SendMessage": methodExecute,
	"list": methodList, "search_skills": methodList, "find_skills": methodList, "tools/list": methodList,
	"describe": methodDescribe, "get_skill": methodDescribe, "wait_run": methodGetRun, "run_status": methodGetRun, "tasks/get": methodGetRun, "GetTask": methodGetRun, "runs": methodListRuns, "get_runs": methodListRuns, "tasks/list": methodListRuns, "ListTasks": methodListRuns, "cancel": methodCancel, "stop_run": methodCancel, "tasks/cancel": methodCancel, "CancelTask": methodCancel, "discover": methodDiscover,
}

// unsupported are the methods of the Skills Protocol without a counterpart in the Skill
// Sharing Protocol.
var unsupported = []string{"run_code", "create_blob", "read_blob"}

// ServeRPC answers one request, whose caller [translate.WithCaller] sets. A notification of execute_skill starts a run
// without following it; other notifications have no effect.
func (f *Front) ServeRPC(ctx context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
	m := methods[req.Method]
	if m == nil {
		fault, failure := methodNotFound(req.Method, f.Elsewhere.Of(req.HTTP, Name, req.Method))
		f.report(ctx, methodUnknown, failure)
		return nil, fault
	}
	caller := callerFor(ctx, req.Method)
	if failure := front.Admit(ctx, f.RequirePrincipal, &caller, f.Refused); failure != nil {
		f.report(ctx, req.Method, failure)
		return nil, failureError(failure, subject{})
	}
	if req.IsNotification() && req.Method != methodExecute {
		return nil, nil
	}
	var result jsontext.Value
	var fault *jsonrpc.Error
	p := readParams(req)
	switch {
	case p.failure != nil:
		_, fault = p.withRemarks(nil, p.refusal())
	case req.IsNotification():
		fault = f.submitSkill(ctx, &p)
	default:
		result, fault = p.withRemarks(m.serve(f, ctx, &p))
	}
	if !p.called {
		f.report(ctx, req.Method, p.failure)
	}
	return result, fault
}

// toolsOf returns the tool names of the skills that were probably meant by a name that means none.
func (f *Front) toolsOf(ctx context.Context, failure *run.Failure) []string {
	if a := failure.Argument; a != nil && a.Field == run.FieldSkill && len(a.Candidates) > 0 {
		return f.Bridge.Tools(ctx, a.Candidates, translate.RequestOf(ctx).Principal)
	}
	return nil
}

// bridge returns the bridge for a call, which the bridge will report.
func (f *Front) bridge(p *params) Bridge {
	p.called = true
	return f.Bridge
}

// report reports a call that was answered without the bridge; a nil failure means success.
func (f *Front) report(ctx context.Context, method string, failure *run.Failure) {
	operation := translate.OperationNone
	if m := methods[method]; m != nil {
		operation = m.operation
	}
	f.Bridge.ReportRun(ctx, translate.Call{Caller: callerFor(ctx, method)}, operation, &run.Run{Failure: failure})
}

// methodNotFound returns the error and the failure for a method that is unsupported or
// unknown. place is where it is as a method of another protocol; nil: it is none.
func methodNotFound(method string, place *front.Place) (*jsonrpc.Error, *run.Failure) {
	name := safetext.Field(method, maxName)
	reason, next, message := reasonUnknown, run.NextFixParams,
		"Method not found: load_skills_protocol_guide tells which methods exist"
	similar := near.Find(name, methodIndex)
	if other := otherMethods[method]; other != "" {
		similar = []string{other}
	}
	if len(similar) > 0 {
		message = "Method not found: did you mean " + similar[0] + "? load_skills_protocol_guide tells which methods exist"
	}
	if place != nil {
		message = "Method not found: this is the endpoint of the Skills Protocol. " + place.Text
		if len(similar) > 0 {
			message += "; here, " + similar[0] + " is the method for it"
		}
	}
	if slices.Contains(unsupported, method) {
		reason, next = run.Unsupported, run.NextNone
		message = "Method not found: this bridge executes remote skills only and does not support " + name
	}
	var b builder
	b.Open()
	b.Text("method", name)
	b.Text("reason", string(reason))
	b.Place(place)
	if len(similar) > 0 && next == run.NextFixParams {
		b.Texts("candidates", similar)
	}
	b.advice(run.Bridge, run.ExecutedNo, next)
	b.Close()
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: message, Data: b.Buf}, invalidParam("", reason, message, nil)
}

// envelopeData returns the data of errors of package jsonrpc: invalid requests and panics.
func envelopeData(code int, reason string, limit *jsonrpc.Limit) jsontext.Value {
	executed, next := run.ExecutedNo, run.NextFixParams
	if code == jsonrpc.CodeInternalError {
		executed, next = run.ExecutedMaybe, run.NextNone
	}
	var b builder
	b.Open()
	b.Text("reason", reason)
	if limit != nil && limit.Name != "" {
		b.Raw("details", front.LimitDetails(limit.Name, limit.Max))
	}
	b.advice(run.Bridge, executed, next)
	b.Close()
	return b.Buf
}

// refuse returns the error for an HTTP request whose body is not read.
func refuse(status int, reason string) *jsonrpc.Error {
	if failure := front.RefusedCaller(status, reason); failure != nil {
		return failureError(failure, subject{})
	}
	return nil
}

// tooLarge returns the error for an answer that exceeds a limit. If the answer is an error, it is
// that error without its details, which can be long.
func tooLarge(req *jsonrpc.Request, fault *jsonrpc.Error) *jsonrpc.Error {
	if fault != nil {
		return withoutDetails(fault, req)
	}
	executed := run.ExecutedNo
	switch req.Method {
	case methodExecute:
		executed = run.ExecutedMaybe
	case methodGetRun, methodCancel:
		executed = run.ExecutedYes
	}
	return failureError(exchange.NoRoom(req, "", "", executed, executed == run.ExecutedYes), subject{})
}

// withoutDetails returns an error with the limit in place of its details, and without other
// long members.
func withoutDetails(fault *jsonrpc.Error, req *jsonrpc.Request) *jsonrpc.Error {
	var b builder
	b.Open()
	for quoted, value := range jsonrpc.Members(fault.Data) {
		name := string(jsonrpc.Unquote(quoted))
		if name != "details" && name != "details_source" && len(value) <= maxMessage {
			b.Raw(name, value)
		}
	}
	b.Raw("details", front.LimitDetails(req.AnswerLimit()))
	b.Close()
	return &jsonrpc.Error{Code: fault.Code, Message: fault.Message, Data: b.Buf}
}
