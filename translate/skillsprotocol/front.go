package skillsprotocol

import (
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

// Bridge is what a [Front] needs to answer. Implementations must be safe for
// concurrent use.
type Bridge interface {
	// Start invokes a skill. The arguments are not used any more when it returns.
	Start(ctx context.Context, call translate.Call) translate.Execution
	// Resume finds a run that was accepted before.
	Resume(ctx context.Context, ref run.Ref, call translate.Call) translate.Execution
	// Report tells of a call that was answered without any of these; a nil failure means that it was answered well.
	Report(ctx context.Context, call translate.Call, o translate.Operation, failure *run.Failure)
	// List returns the skills that the query selects, in the byte order of their names.
	List(ctx context.Context, q translate.Query) translate.Listing
	// Describe tells all about the skill that the call's Name, Version and Principal select, or why it can't:
	// exactly one of the two is not nil.
	Describe(ctx context.Context, call translate.Call) (*translate.Description, *run.Failure)
	// Namespaces lists the configured ones in byte order.
	Namespaces() []string
}

// Front answers the methods of the Skills Protocol. Its fields must not change
// once it serves.
type Front struct {
	// Bridge does the work. It is required.
	Bridge Bridge
	// RequirePrincipal refuses anonymous callers, in every method, with AUTH_REQUIRED.
	RequirePrincipal bool
	// Tokens makes the run tokens by which agents come back to runs. It is required.
	Tokens Tokens
	// Refused is called for each caller that was refused for its principal, with the reason; nil: nothing is.
	Refused func(ctx context.Context, method, reason string)
}

var _ jsonrpc.Handler = (*Front)(nil)

// Tokens makes and reads run tokens: what an agent gets about a run that it may
// come back to, and what nobody else can use. Implementations must be safe for
// concurrent use.
type Tokens interface {
	// Ready returns an error if no token can be made at the moment.
	Ready(ctx context.Context) error
	// Seal makes the token of a run for a principal.
	Seal(ctx context.Context, ref run.Ref, principal string) (string, error)
	// Open returns the run that a token was made for. The error is [runtoken.ErrInvalid] for whatever is not a token that
	// was made here for this principal and is still valid. Any other means that this can't be told at the moment.
	Open(ctx context.Context, token, principal string) (run.Ref, error)
}

// Caller says who is asking and since when.
type Caller struct {
	run.Caller

	// Ambiguous says why a principal can be mistaken for another; empty: it can't. Such a caller is refused, in every
	// method, and Principal is empty.
	Ambiguous string
}

// request is what the calls of one HTTP request share.
type request struct {
	caller Caller
	checks inputs.Checks
}

type requestKey struct{}

// WithCaller returns a context that tells [Front.ServeRPC] who is asking.
// Without it a caller is anonymous.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, requestKey{}, &request{caller: c})
}

// requestOf never returns nil.
func requestOf(ctx context.Context) *request {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		return r
	}
	return new(request)
}

// callerFor is who calls a method.
func callerFor(ctx context.Context, method string) run.Caller {
	who := requestOf(ctx).caller.Caller
	who.Front, who.Method = frontName, method
	return who
}

// Profile is how the Skills Protocol wants the JSON-RPC envelope treated:
// batches of up to maxBatch elements, and null as an id like any other.
func Profile(maxBatch int) jsonrpc.Profile {
	return jsonrpc.Profile{
		MaxBatch:  maxBatch,
		NullID:    true,
		Methods:   methods,
		ErrorData: envelopeData,
		TooLarge:  tooLarge,
		// As the operator writes them.
		LimitNames: jsonrpc.LimitNames{
			Depth: "limits depth", Batch: "max_batch", Request: "max_request_size", Answer: "answer_size", Answers: "answers",
		},
	}
}

// frontName is what this front is called in reports.
const frontName = "skills_protocol"

const (
	methodExecute  = "execute_skill"
	methodGetRun   = "get_run"
	methodList     = "list_skills"
	methodDescribe = "describe_skill"
	methodReadFile = "read_skill_file"
	methodGuide    = "load_skills_protocol_guide"

	methodUnknown = "unknown" // stands in reports for what is none
)

// methods are those that exist here.
var methods = []string{methodExecute, methodGetRun, methodList, methodDescribe, methodReadFile, methodGuide}

// unsupported are the methods of the Skills Protocol for which the Skill Sharing
// Protocol has nothing.
var unsupported = []string{"run_code", "create_blob", "read_blob"}

// ServeRPC answers one request. A notification of execute_skill starts a run
// without following it; other notifications have no effect.
func (f *Front) ServeRPC(ctx context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
	if !slices.Contains(methods, req.Method) {
		fault, failure := methodNotFound(req.Method)
		f.report(ctx, methodUnknown, failure)
		return nil, fault
	}
	if reason, failure := f.admit(&requestOf(ctx).caller); failure != nil {
		if f.Refused != nil {
			f.Refused(ctx, req.Method, reason)
		}
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
		fault = p.refusal()
	case req.IsNotification():
		fault = f.submitSkill(ctx, &p)
	default:
		result, fault = f.serve(ctx, &p)
	}
	if !p.called {
		f.report(ctx, req.Method, p.failure)
	}
	return result, fault
}

// serve answers a request of a method that exists. Functions in a table would have the
// params of every call take memory of their own.
func (f *Front) serve(ctx context.Context, p *params) (jsontext.Value, *jsonrpc.Error) {
	switch p.request.Method {
	case methodExecute:
		return f.executeSkill(ctx, p)
	case methodGetRun:
		return f.getRun(ctx, p)
	case methodList:
		return f.listSkills(ctx, p)
	case methodDescribe:
		return f.describeSkill(ctx, p)
	case methodReadFile:
		return f.readSkillFile(ctx, p)
	case methodGuide:
		return f.loadGuide(ctx, p)
	}
	fault, _ := methodNotFound(p.request.Method)
	return nil, fault
}

// bridge is for calling the bridge, which reports the call then.
func (f *Front) bridge(p *params) Bridge {
	p.called = true
	return f.Bridge
}

// report has the bridge report a request that was answered without calling it; a nil
// failure means that it was answered well.
func (f *Front) report(ctx context.Context, method string, failure *run.Failure) {
	operation := translate.OperationDescribe
	switch method {
	case methodExecute:
		operation = translate.OperationExecute
	case methodGetRun:
		operation = translate.OperationFollow
	case methodList:
		operation = translate.OperationList
	}
	f.Bridge.Report(ctx, translate.Call{Caller: callerFor(ctx, method)}, operation, failure)
}

// methodNotFound tells a method that the bridge can't offer from one that does
// not exist.
func methodNotFound(method string) (*jsonrpc.Error, *run.Failure) {
	name := safetext.Line(method, maxName)
	reason, next, message := reasonUnknown, run.NextFixParams,
		"Method not found: load_skills_protocol_guide tells which methods exist"
	if slices.Contains(unsupported, method) {
		reason, next = run.Unsupported, run.NextNone
		message = "Method not found: this bridge executes remote skills only and does not support " + name
	}
	var b builder
	b.open()
	b.text("method", name)
	b.text("reason", string(reason))
	b.advice(run.Bridge, run.ExecutedNo, next)
	b.close()
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: message, Data: b.buf}, invalidParam("", reason, message, nil)
}

// envelopeData is the data of errors that are found before a method is known,
// or after it broke down.
func envelopeData(code int, reason string, limit *jsonrpc.Limit) jsontext.Value {
	executed, next := run.ExecutedNo, run.NextFixParams
	if code == jsonrpc.CodeInternalError {
		executed, next = run.ExecutedMaybe, run.NextNone
	}
	var b builder
	b.open()
	b.text("reason", reason)
	if limit != nil && limit.Name != "" {
		b.raw("details", limitDetails(strings.TrimPrefix(limit.Name, "limits "), limit.Max))
	}
	b.advice(run.Bridge, executed, next)
	b.close()
	return b.buf
}

// tooLarge answers where there is no room for an answer, in that to its batch or among all. Of an
// error the details are left out, of which alone there can be much.
func tooLarge(req *jsonrpc.Request, fault *jsonrpc.Error) *jsonrpc.Error {
	if fault != nil {
		return withoutDetails(fault, req)
	}
	executed := run.ExecutedNo
	switch req.Method { // whose outputs are reserved before
	case methodExecute:
		executed = run.ExecutedMaybe
	case methodGetRun:
		executed = run.ExecutedYes
	}
	return failureError(exchange.NoRoom(req, "", "", executed, executed == run.ExecutedYes), subject{})
}

// withoutDetails is an error that has the limit, instead of its details, and nothing
// else that is long.
func withoutDetails(fault *jsonrpc.Error, req *jsonrpc.Request) *jsonrpc.Error {
	var b builder
	b.open()
	members, _ := membersOf(fault.Data) // which was made here
	for _, m := range members {
		name := string(unquoted(m.Name))
		if name != "details" && name != "details_source" && len(m.Value) <= maxMessage {
			b.raw(name, m.Value)
		}
	}
	b.raw("details", limitDetails(req.AnswerLimit()))
	b.close()
	return &jsonrpc.Error{Code: fault.Code, Message: fault.Message, Data: b.buf}
}

// Why a caller is refused, for the operator.
const (
	NoPrincipal        = "require_principal is set and the principal is empty"
	AmbiguousPrincipal = "the principal begins or ends with a space or an invisible character, or contains control characters"
	SeveralPrincipals  = "the header that names the principal has several values"
)

// admit says why a caller is refused for its principal, to the operator and to the
// caller; a nil failure admits it.
func (f *Front) admit(caller *Caller) (reason string, refused *run.Failure) {
	switch {
	case caller.Ambiguous != "":
		return caller.Ambiguous, principalFailure(&run.Demand{By: run.Bridge, Reason: caller.Ambiguous},
			"This bridge refuses callers whose identity is ambiguous: "+caller.Ambiguous+"; ask its operator")
	case f.RequirePrincipal && caller.Principal == "":
		return NoPrincipal, principalFailure(run.NoPrincipal(),
			"This bridge answers authenticated callers only: authenticate the HTTP request as its operator has told you")
	}
	return "", nil
}

// principalFailure refuses a caller for its principal.
func principalFailure(demand *run.Demand, message string) *run.Failure {
	return &run.Failure{
		Kind: run.AuthRequired, Message: message, Phase: run.PhaseAuth, By: run.Bridge, Executed: run.ExecutedNo, Demand: demand,
	}
}
