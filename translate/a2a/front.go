package a2a

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// Name is the name of this front in reports.
const Name = task.Front

// Front answers the methods of A2A. Its fields must not be changed while it is used.
type Front struct {
	// Bridge executes the calls. It is required.
	Bridge *translate.Bridge
	// Tasks are the tasks. Its Ledger is required.
	task.Tasks
	// Owner returns the owner of the tasks of a principal. It is required.
	Owner func(principal string) ledger.Owner
	// Server has the memory for outputs while they are read. Nil: there is no bound.
	Server *jsonrpc.Server
	// Push delivers events to webhooks; nil: clients can't set any.
	Push *Webhooks
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
	// Stopping is closed when all calls have to end because the process will exit. May be nil.
	Stopping <-chan struct{}
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

var _ ledger.View = (*Front)(nil)

// method is a method of A2A in one or several versions.
type method struct {
	generation generation
	operation  translate.Operation
	serve      func(*request) (jsontext.Value, *jsonrpc.Error)
	streams    bool
}

// methods are the methods by name.
var methods = map[string]*method{
	"SendMessage":                      {methodsOf10, translate.OperationExecute, send, false},
	"SendStreamingMessage":             {methodsOf10, translate.OperationExecute, send, true},
	"GetTask":                          {methodsOf10, translate.OperationTask, getTask, false},
	"ListTasks":                        {methodsOf10, translate.OperationList, listTasks, false},
	"CancelTask":                       {methodsOf10, translate.OperationTask, cancelTask, false},
	"SubscribeToTask":                  {methodsOf10, translate.OperationTask, subscribe, true},
	"GetExtendedAgentCard":             {methodsOf10, translate.OperationDescribe, extendedCard, false},
	"CreateTaskPushNotificationConfig": {methodsOf10, translate.OperationDescribe, setWebhook, false},
	"GetTaskPushNotificationConfig":    {methodsOf10, translate.OperationDescribe, getWebhook, false},
	"ListTaskPushNotificationConfig":   {methodsOf10, translate.OperationDescribe, listWebhooks, false},
	"ListTaskPushNotificationConfigs":  {methodsOf10, translate.OperationDescribe, listWebhooks, false},
	"DeleteTaskPushNotificationConfig": {methodsOf10, translate.OperationDescribe, deleteWebhook, false},

	"message/send":                        {methodsOf03, translate.OperationExecute, send, false},
	"message/stream":                      {methodsOf03, translate.OperationExecute, send, true},
	"agent/getAuthenticatedExtendedCard":  {methodsOf03, translate.OperationDescribe, extendedCard, false},
	"tasks/pushNotificationConfig/set":    {methodsOf03, translate.OperationDescribe, setWebhook, false},
	"tasks/pushNotificationConfig/get":    {methodsOf03, translate.OperationDescribe, getWebhook, false},
	"tasks/pushNotificationConfig/list":   {methodsOf03, translate.OperationDescribe, listWebhooks, false},
	"tasks/pushNotificationConfig/delete": {methodsOf03, translate.OperationDescribe, deleteWebhook, false},

	"tasks/send":                 {methodsOf01, translate.OperationExecute, send, false},
	"tasks/sendSubscribe":        {methodsOf01, translate.OperationExecute, send, true},
	"tasks/pushNotification/set": {methodsOf01, translate.OperationDescribe, setWebhook, false},
	"tasks/pushNotification/get": {methodsOf01, translate.OperationDescribe, getWebhook, false},

	"tasks/get":         {shared, translate.OperationTask, getTask, false},
	"tasks/cancel":      {shared, translate.OperationTask, cancelTask, false},
	"tasks/resubscribe": {shared, translate.OperationTask, subscribe, true},
}

// Methods returns the names of all methods, in no order.
func Methods() []string { return slices.Collect(maps.Keys(methods)) }

// request is one request of a method.
type request struct {
	*jsonrpc.Request
	front    *Front
	ctx      context.Context //nolint:containedctx // of this request
	caller   run.Caller
	version  wire.Version // the dialect
	method   *method
	skill    string        // the skill in the URL; empty: the URL is that of all skills
	tenant   string        // the name of the skill whose tasks the params are about; empty: they are about those of all skills
	task     *task.Task    // that the call is about, for its report; nil: none, or a new one
	failed   *run.Failure  // that the call is answered with; nil: none is known
	reported bool          // the call was reported, or the bridge reports it
	room     *jsonrpc.Room // for long outputs that are read from the database; nil: none was read
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
	r := &request{Request: req, front: f, ctx: ctx, caller: translate.RequestOf(ctx).Caller, method: methods[req.Method]}
	r.caller.Front, r.caller.Method = Name, MethodUnknown
	if r.method != nil {
		r.caller.Method = req.Method
	}
	if r.caller.TraceID == "" {
		r.caller.TraceID = translate.NewTraceID()
	}
	r.skill, _ = ctx.Value(skillKey{}).(string)
	result, fault := r.serve()
	if !r.reported {
		r.report(r.failureOf(fault))
	}
	if fault != nil {
		return nil, r.asEvent(fault)
	}
	return result, nil
}

// serve checks a request, and serves its method.
func (r *request) serve() (jsontext.Value, *jsonrpc.Error) {
	f := r.front
	said, text := SaidVersion(r.HTTP)
	r.version = dialectOf(said, r.method, r.Method)
	served := &f.Options.Versions
	switch {
	case text != "" && (said == 0 || !served[said]):
		return nil, versionNotSupported(r.version, text, served)
	case r.method == nil:
		return nil, methodNotFound(r.version, r.Method, f.Elsewhere.Of(r.HTTP, Name, r.Method))
	case r.method.generation.dialect(said) == 0:
		return nil, methodNotFound(r.version, r.Method, nil)
	case !served[r.version] && (r.method.generation != shared || !served[wire.V01]):
		return nil, versionNotSupported(r.version, r.version.String(), served)
	}
	if failure := front.Admit(r.ctx, f.RequirePrincipal, &r.caller, f.Refused); failure != nil {
		return nil, r.failureError(failure)
	}
	if r.skill != "" {
		if _, failure := f.Bridge.Find(r.ctx, r.skill, r.caller.Principal); failure != nil && failure.Kind == run.SkillNotFound {
			return nil, r.failureError(failure)
		}
	}
	if r.Params.Kind() == '[' {
		return nil, r.invalid("params", "must be an object")
	}
	if r.method.streams && !r.IsNotification() {
		if r.InBatch() {
			return nil, unsupported(r.version, "a streaming method can't be part of a batch")
		}
		if fault := r.StreamFault(); fault != nil {
			return nil, fault
		}
		leave, full := f.enterStream(r.caller.Principal)
		if full != nil {
			return nil, r.failureError(full)
		}
		defer leave()
	}
	return r.method.serve(r)
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

// VersionHeader is the name of the header field and of the query parameter with the client's version of A2A (A2A 1.0, section 3.6).
const VersionHeader = "A2a-Version" // in the canonical form of package http

// Versions is the set of versions of A2A that are served.
type Versions [wire.V10 + 1]bool

// AllVersions are all versions that the front supports.
var AllVersions = Versions{wire.V01: true, wire.V03: true, wire.V10: true}

// names returns the names of the versions, the newest first.
func (s *Versions) names() (names []string) {
	for v := wire.V10; v >= wire.V01; v-- {
		if s[v] {
			names = append(names, v.String())
		}
	}
	return names
}

// SaidVersion returns the version that a request states, and its text; 0: the request states none, or one that the front does not support.
func SaidVersion(r *http.Request) (v wire.Version, text string) {
	if r == nil {
		return 0, ""
	}
	text = strings.TrimSpace(r.Header.Get(VersionHeader))
	if text == "" && r.URL != nil && r.URL.RawQuery != "" {
		text = strings.TrimSpace(r.URL.Query().Get("A2A-Version"))
	}
	return ParseVersion(text), text
}

// ParseVersion returns the version that a text means, without the patch number; 0: the front does not support it.
func ParseVersion(text string) wire.Version {
	major, rest, _ := strings.Cut(text, ".")
	minor, _, _ := strings.Cut(rest, ".")
	switch major + "." + minor {
	case "1.0":
		return wire.V10
	case "0.3", "0.2":
		return wire.V03
	case "0.1":
		return wire.V01
	}
	return 0
}

// generation is a set of methods that belong to the same versions.
type generation uint8

const (
	methodsOf10 generation = iota // PascalCase
	methodsOf03                   // message/*, tasks/pushNotificationConfig/*, agent/*
	methodsOf01                   // tasks/send*, tasks/pushNotification/*
	shared                        // tasks/get, tasks/cancel and tasks/resubscribe, in 0.3 and 0.1
)

// dialectOf returns the version whose form an error about a method has, whether or not the method is served: the version that the
// client states, or else that of the method's name.
func dialectOf(said wire.Version, m *method, name string) wire.Version {
	if m != nil {
		if v := m.generation.dialect(said); v != 0 {
			return v
		}
	}
	switch {
	case said != 0:
		return said
	case strings.Contains(name, "/"):
		return wire.V03
	}
	return wire.V10
}

// dialect returns the version in which a method is served to a client. said is the version that the client states; 0: none. The
// result is 0 if that version has no such method. For the shared methods it is 0.3, unless the client states 0.1; query later
// replaces it by the version of the task.
func (g generation) dialect(said wire.Version) wire.Version {
	switch {
	case said == wire.V10 && g != methodsOf10:
		return 0
	case said == wire.V01:
		if g == methodsOf01 || g == shared {
			return wire.V01
		}
		return 0
	case g == methodsOf10:
		return wire.V10
	case g == methodsOf01:
		return wire.V01
	}
	return wire.V03
}

// Profile returns the JSON-RPC profile of A2A: batches have up to maxBatch elements, null is a valid id, and errors have the HTTP
// status 200, malformed JSON too, since the clients of 0.1 read nothing else.
func Profile(maxBatch int) jsonrpc.Profile {
	messages := map[int]string{}
	for _, code := range []int{jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeInternalError} {
		messages[code] = wire.Message(code)
	}
	return jsonrpc.Profile{
		MaxBatch:    maxBatch,
		NullID:      true,
		ParseStatus: http.StatusOK,
		Messages:    messages,
		MediaTypes:  []string{"application/json", "application/a2a+json"},
		Allow:       "GET, HEAD, POST",
		ErrorData:   envelopeData,
		ErrorForm:   errorForm,
		Refuse:      refuse,
		TooLarge:    tooLarge,
	}
}

// errorForm converts an error of package jsonrpc for a client that states a version before 1.0: its data becomes one object.
func errorForm(r *http.Request, e *jsonrpc.Error) *jsonrpc.Error {
	said, _ := SaidVersion(r)
	return wire.Older(cmp.Or(said, wire.V10), e)
}

// envelopeData returns the data of errors of package jsonrpc, in the form of A2A 1.0, since the version is not known there.
func envelopeData(code int, reason string, limit *jsonrpc.Limit) jsontext.Value {
	facts := map[string]string{"detail": reason}
	if limit != nil && limit.Name != "" {
		facts["limit"] = limit.Name
	}
	return wire.Error(wire.V10, code, "", facts).Data
}

// tooLarge returns the error for an answer that exceeds the memory for answers. The client can read fewer tasks at a time.
func tooLarge(req *jsonrpc.Request, _ *jsonrpc.Error) *jsonrpc.Error {
	r := &request{Request: req, front: new(Front)}
	said, _ := SaidVersion(req.HTTP)
	r.version = dialectOf(said, methods[req.Method], req.Method)
	limit, most := req.AnswerLimit()
	return r.failureError(&run.Failure{
		Kind: run.RateLimited, Phase: run.PhaseResult, By: run.Bridge, Executed: run.ExecutedMaybe,
		Message: "There is no room for this answer (at most " + strconv.FormatInt(most, 10) + " bytes): read the task again, or fewer tasks at once.",
		Limit:   &run.Limit{Name: limit, Max: most}, Retry: run.RetryIn(time.Second, 3),
	})
}

// refuse returns the error for an HTTP request whose body is not read.
func refuse(status int, reason string) *jsonrpc.Error {
	if status == http.StatusUnsupportedMediaType {
		return contentTypeNotSupported(wire.V10, reason)
	}
	if failure := front.RefusedCaller(status, reason); failure != nil {
		return wire.BridgeError(wire.V10, codeOf(failure), task.Text(failure), failure, false)
	}
	return nil
}
