package a2a

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// Name is the name of this front in reports.
const Name = task.Front

// Bridge executes calls for a [Front]. Implementations must be safe for concurrent use.
type Bridge interface {
	// Start invokes a skill.
	Start(ctx context.Context, call translate.Call) translate.Execution
	// Resume finds a run that was accepted before.
	Resume(ctx context.Context, ref run.Ref, call translate.Call) translate.Execution
	// ReportRun reports a call that the other methods do not report.
	ReportRun(ctx context.Context, call translate.Call, o translate.Operation, r *run.Run)
	// List returns the skills that the query selects, in the byte order of their names.
	List(ctx context.Context, q translate.Query) translate.Listing
	// Find returns the listed name of the skill that a name means: a skill may also have aliases.
	Find(ctx context.Context, name, principal string) (listed string, failure *run.Failure)
}

// Front answers the methods of A2A. Its fields must not be changed while it is used.
type Front struct {
	// Bridge executes the calls. It is required.
	Bridge Bridge
	// Tasks are the tasks. Its Ledger is required.
	tasks.Tasks
	// Owner returns the owner of the tasks of a principal. It is required.
	Owner func(principal string) ledger.Owner
	// Server has the memory for outputs while they are read. Nil: there is no bound.
	Server *jsonrpc.Server
	// Push delivers events to webhooks; nil: clients can't set any.
	Push *push.Webhooks
	// Panicked is called after a panic in the background, with its stack. It is required.
	Panicked func(ctx context.Context, value any, stack []byte)
	// Options are the operator's options.
	Options Options
	// RequirePrincipal refuses anonymous callers, whatever the method.
	RequirePrincipal bool
	// Refused is called for each call that was refused because of its principal, with the reason. May be nil.
	Refused func(ctx context.Context, method, reason string)
	// ExtendedCard returns the card for authenticated callers in a version, as JSON; nil: there is no such card.
	ExtendedCard func(ctx context.Context, r *http.Request, v wire.Version, c *run.Caller) (jsontext.Value, *run.Failure)
	// Exiting is closed when the process begins to exit. Streams whose tasks wait for the client then end. May be nil.
	Exiting <-chan struct{}
	// Stopping ends when all calls have to end because the process will exit. It is required.
	Stopping context.Context //nolint:containedctx // of the process
	// NoDefault is called for a message that gets the default skill, if its caller sees no such skill. May be nil.
	NoDefault func(ctx context.Context)
	// Elsewhere knows the methods of other protocols. May be nil.
	Elsewhere *front.Elsewhere
	// Observer gets reports about tasks and streams. It is required.
	Observer Observer
	// Streams counts the open streams. Fronts may share it. Nil: their number has no bound.
	Streams *share.Pool

	events jsonrpc.Results[wire.Event] // and answers that are being sent
}

var (
	_ jsonrpc.Handler = (*Front)(nil)
	_ ledger.View     = (*Front)(nil)
)

// method is a method of A2A in one or several versions.
type method struct {
	generation generation
	operation  translate.Operation
	serve      func(*request) (jsontext.Value, *jsonrpc.Error)
	streams    bool
	// reports means that serve or the bridge reports the call.
	reports bool
}

// methods are the methods by name.
var methods map[string]*method

func init() {
	sends := &method{operation: translate.OperationExecute, serve: send, reports: true}
	streams := &method{operation: translate.OperationExecute, serve: send, streams: true, reports: true}
	get := &method{operation: translate.OperationTask, serve: getTask}
	cancel := &method{operation: translate.OperationTask, serve: cancelTask}
	subscribes := &method{operation: translate.OperationTask, serve: subscribe, streams: true}
	list := &method{operation: translate.OperationList, serve: listTasks}
	set := &method{operation: translate.OperationDescribe, serve: aboutPush((*push.Webhooks).Set)}
	show := &method{operation: translate.OperationDescribe, serve: aboutPush((*push.Webhooks).Get)}
	all := &method{operation: translate.OperationDescribe, serve: aboutPush((*push.Webhooks).List)}
	remove := &method{operation: translate.OperationDescribe, serve: aboutPush((*push.Webhooks).Delete)}
	card := &method{operation: translate.OperationDescribe, serve: extendedCard}
	methods = map[string]*method{}
	for g, names := range map[generation]map[string]*method{
		methodsOf10: {
			"SendMessage": sends, "SendStreamingMessage": streams, "GetTask": get, "ListTasks": list, "CancelTask": cancel,
			"SubscribeToTask": subscribes, "GetExtendedAgentCard": card,
			"CreateTaskPushNotificationConfig": set, "GetTaskPushNotificationConfig": show,
			"ListTaskPushNotificationConfig": all, "ListTaskPushNotificationConfigs": all, "DeleteTaskPushNotificationConfig": remove,
		},
		methodsOf03: {
			"message/send": sends, "message/stream": streams, "agent/getAuthenticatedExtendedCard": card,
			"tasks/pushNotificationConfig/set": set, "tasks/pushNotificationConfig/get": show,
			"tasks/pushNotificationConfig/list": all, "tasks/pushNotificationConfig/delete": remove,
		},
		methodsOf01: {
			"tasks/send": sends, "tasks/sendSubscribe": streams,
			"tasks/pushNotification/set": set, "tasks/pushNotification/get": show,
		},
		shared: {"tasks/get": get, "tasks/cancel": cancel, "tasks/resubscribe": subscribes},
	} {
		for name, m := range names {
			own := *m
			own.generation = g
			methods[name] = &own
		}
	}
}

// Methods returns the names of all methods, in no order.
func Methods() []string { return slices.Collect(maps.Keys(methods)) }

// request is one request of a method.
type request struct {
	*jsonrpc.Request
	front   *Front
	ctx     context.Context //nolint:containedctx // of this request
	caller  run.Caller
	version wire.Version // the dialect
	method  *method
	skill   string        // the skill in the URL; empty: the URL is that of all skills
	tenant  string        // the name of the skill whose tasks the params are about; empty: they are about those of all skills
	task    *task.Task    // that the call is about, for its report; nil: none, or a new one
	failed  *run.Failure  // that the call is answered with; nil: none is known
	room    *jsonrpc.Room // for long outputs that are read from the database; nil: none was read
}

// params returns the params with their members.
func (r *request) params() jsonrpc.Object { return jsonrpc.Object{Text: r.Params, Members: r.Members} }

type skillKey struct{}

// WithSkill returns a context that limits [Front.ServeRPC] to one skill, that of the URL.
func WithSkill(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, skillKey{}, name)
}

// ServeRPC answers one request.
func (f *Front) ServeRPC(ctx context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
	r := &request{Request: req, front: f, ctx: ctx, caller: translate.RequestOf(ctx).Caller}
	r.caller.Front, r.caller.Method = Name, MethodUnknown
	if r.caller.TraceID == "" {
		r.caller.TraceID = translate.NewTraceID()
	}
	r.skill, _ = ctx.Value(skillKey{}).(string)
	said, text := saidVersion(req.HTTP)
	r.method = methods[req.Method]
	if r.method != nil {
		r.caller.Method = req.Method
	}
	r.version = dialectOf(said, r.method, req.Method)
	if text != "" && (said == 0 || !f.Options.Versions[said]) {
		return r.refused(versionNotSupported(r.version, text, f.versionNames()))
	}
	if r.method == nil {
		return r.refused(methodNotFound(r.version, req.Method, f.Elsewhere.Of(req.HTTP, Name, req.Method)))
	}
	if r.method.generation.dialect(said) == 0 {
		return r.refused(methodNotFound(r.version, req.Method, nil))
	}
	if !f.serves(r.method.generation, r.version) {
		return r.refused(versionNotSupported(r.version, r.version.String(), f.versionNames()))
	}
	if failure := front.Admit(ctx, f.RequirePrincipal, &r.caller, f.Refused); failure != nil {
		return r.refused(r.failureError(failure))
	}
	if r.skill != "" {
		if _, failure := f.Bridge.Find(ctx, r.skill, r.caller.Principal); failure != nil && failure.Kind == run.SkillNotFound {
			return r.refused(r.failureError(failure))
		}
	}
	if req.Params.Kind() == '[' {
		return r.refused(r.invalid("params", "must be an object"))
	}
	if r.method.streams && !req.IsNotification() {
		if req.InBatch() {
			return r.refused(unsupported(r.version, "a streaming method can't be part of a batch"))
		}
		if fault := req.StreamFault(); fault != nil {
			return r.refused(fault)
		}
		leave, full := f.enterStream(r.caller.Principal)
		if full != nil {
			return r.refused(r.failureError(full))
		}
		defer leave()
	}
	result, fault := r.method.serve(r)
	if !r.method.reports {
		r.report(withCode(r.failureOf(fault), fault))
	}
	return result, fault
}

// serves reports whether a method of a generation is served in a dialect. The shared methods need 0.3 or 0.1.
func (f *Front) serves(g generation, v wire.Version) bool {
	return f.Options.Versions[v] || g == shared && f.Options.Versions[wire.V01]
}

// versionNames returns the names of the served versions, the newest first.
func (f *Front) versionNames() []string {
	var names []string
	for v := wire.V10; v >= wire.V01; v-- {
		if f.Options.Versions[v] {
			names = append(names, v.String())
		}
	}
	return names
}

// Options are the operator's options for the front.
type Options struct {
	// Versions are the versions that are served.
	Versions Versions
	// DefaultSkill is the name of the skill for messages that choose none; empty: there is none.
	DefaultSkill string
	// Restricted says that access rules may deny the DefaultSkill to a caller, for whom there is none then.
	Restricted bool
	// ReplyMessage has the names of the skills whose output is the answer itself, without a task, if the client waits for it.
	ReplyMessage []string
	// Wait is the time that a request waits for the end of a task.
	Wait time.Duration
	// Abandon lets clients cancel tasks with a submitted run. The run goes on at the provider, but is no longer followed.
	Abandon bool
	// Streams is how many streams are open at most, and StreamsOfOne how many of one principal; all anonymous callers count as one.
	// 0: there is no limit.
	Streams, StreamsOfOne int
	// Challenge is the WWW-Authenticate header field in answers to callers without a principal (RFC 9110, section 11.6.1).
	Challenge string
}

const (
	// maxWait01 bounds Wait for clients of A2A 0.1, which give up after 30 seconds.
	maxWait01 = 25 * time.Second
	// keepAlive is the interval of comments in streams.
	keepAlive = 15 * time.Second
	// maxStream bounds the duration of a stream.
	maxStream = time.Hour
	// lastEvent is how much longer its client may read the last event.
	lastEvent = time.Minute
)
