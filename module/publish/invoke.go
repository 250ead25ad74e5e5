package publish

import (
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

const (
	maxRequest = 1 << 20
	maxKey     = 256 // bytes of an idempotency key
	// patience is for how long the publisher waits for a whole request, and for a client to read a part of maxPart bytes of its answer.
	patience = 30 * time.Second
	maxPart  = 64 << 10
)

// invocation is the part of an InvocationRequest that is used (section 5.3).
type invocation struct {
	SkillID string         `json:"skill_id"`
	Inputs  jsontext.Value `json:"inputs"`
	Context struct {
		TimeoutMS float64 `json:"timeout_ms"`
	} `json:"context"`
}

// execution is an invocation that the API executes.
type execution struct {
	*request
	catalog *catalog
	skill   *publish.Skill
	began   time.Time
	memory  *share.Part
	size    int64                   // of the memory without the answer
	cancel  context.CancelCauseFunc // ends the request to the API
	done    chan *publish.Result    // gets the result
	entry   *ledger.Entry           // of its run
	kept    bool                    // the entry is in the database
}

// The causes of a request to the API that is ended.
var (
	errLeft  = errors.New("the caller has left")
	errLate  = errors.New("the time of the operation is over")
	errLost  = errors.New("the process exits")
	errLarge = errors.New("the answer is too large")
)

// invoke answers an invocation.
func (q *request) invoke(c *catalog, s *publish.Skill) {
	h := q.handler
	x := &execution{request: q, catalog: c, skill: s, began: time.Now(), memory: q.memory(), size: ofInvocation + maxRequest, done: make(chan *publish.Result, 1)}
	if q.ContentLength >= 0 {
		x.size = ofInvocation + min(q.ContentLength, maxRequest)
	}
	if !x.memory.Set(x.size) {
		body, end := q.body()
		_, _ = io.Copy(io.Discard, body) // a client that still writes would be disconnected before it reads the answer
		end()
		q.busy()
		return
	}
	in := q.read(s)
	if in == nil || q.Context().Err() != nil { // a caller who has left does not learn the result, and perhaps the inputs were not checked
		x.memory.Set(0)
		return
	}
	timeout := time.Duration(h.Timeout)
	if own := document.Milliseconds(in.Context.TimeoutMS); own > 0 {
		timeout = min(timeout, own)
	}
	stopping, cancel := context.WithCancelCause(context.WithoutCancel(q.Context()))
	ctx, end := context.WithTimeoutCause(stopping, timeout, errLate)
	x.cancel = cancel
	release := func() {
		end()
		cancel(nil)
		x.memory.Set(0)
	}
	r, fault := s.Operation.Request(ctx, in.Inputs, q.forwarded(s.Operation))
	if fault != nil {
		release()
		q.invalid(fault)
		return
	}
	if x.size += r.ContentLength + int64(len(r.RequestURI)); !x.memory.Set(x.size) {
		release()
		q.busy()
		return
	}
	x.entry = x.newEntry("")
	if key := q.Header.Get("Idempotency-Key"); key != "" && !x.claim(key, in.Inputs) {
		release()
		return
	}
	h.use.Acquire()
	lifetime.BeginRun()
	ended := observe.Publishing()
	go func() {
		result := publish.Failed("INTERNAL_ERROR", "The publisher failed because of a bug; the operation may have been executed", nil)
		_ = x.guarded(func() error {
			result = x.ask(ctx, r)
			return nil
		})
		x.done <- result
	}()
	x.answer(func() {
		release()
		ended()
		h.use.EndRun()
	})
}

// busy answers that there is no memory for the invocation.
func (q *request) busy() {
	q.failForNow(http.StatusTooManyRequests, document.RateLimited, "Too many invocations are in progress; nothing was sent to the API", time.Second)
}

// answer waits for the result, and answers with it. After async_after, it answers that the run goes on. finished is called when the run has ended.
func (x *execution) answer(finished func()) {
	var late <-chan time.Time // never
	if async, _ := x.handler.asyncAfter(); async > 0 {
		late = time.After(async - time.Since(x.began))
	}
	gone := x.Context().Done()
	follow := func() {
		defer finished()
		result := <-x.done
		_ = x.guarded(func() error { x.settle(result.Run); return nil }) // no request would recover a panic
	}
	for {
		select {
		case result := <-x.done:
			defer finished()
			x.respond(result)
			return
		case <-gone:
			if x.kept {
				go follow()
				return
			}
			gone, late = nil, nil
			x.cancel(errLeft) // no one could learn the result
		case <-late:
			if late = nil; x.kept || x.keep() { // otherwise the caller waits for the result
				go follow()
				x.w.Header().Set("Retry-After", "1")
				x.write(http.StatusAccepted, x.state(x.entry, run.Run{State: run.Accepted}))
				return
			}
		}
	}
}

// respond answers with a result.
func (x *execution) respond(result *publish.Result) {
	maps.Copy(x.w.Header(), result.Header)
	switch result.Refused {
	case 0:
		o, e := x.settle(result.Run), *x.entry
		if e.Changed = time.Now(); !x.kept {
			x.handler.shared.remember(&quick{e, o})
		}
		x.write(http.StatusOK, x.state(&e, o))
		return
	case http.StatusRequestTimeout: // it may have been executed
		x.settle(result.Run)
	default: // a key is free again
		x.settle(run.Run{Failure: &run.Failure{Kind: run.ProviderFault, Executed: run.ExecutedNo, Provider: result.Failure.Provider}})
	}
	x.refuse(result.Refused, errorOf(&result.Run))
}

// settle counts how an invocation has ended, and stores it if the run is kept. It returns the outcome that was stored first.
func (x *execution) settle(o run.Run) run.Run {
	code := o.Failure.ProviderSaid().Code
	x.count(o.State, document.ErrorCode(code))
	x.handler.logger.Debug("invocation", zap.String("skill_id", x.skill.ID), zap.String("execution_id", idOf(x.entry)), zap.String("status", statusOf(&o)),
		zap.String("code", code), zap.Duration("duration", time.Since(x.began)))
	if x.kept {
		o, _ = x.handler.kept.Agree(context.WithoutCancel(x.Context()), x.entry, o, ledger.Settling{First: true}, nil)
	}
	return o
}

// forwarded returns the headers of which the API may get the credential. A password that basic_auth in front has read is never for the API. One of a caller
// whom something else has established, such as forward_auth, which may have read it, is for operations that need HTTP Basic only.
func (q *request) forwarded(o *publish.Operation) http.Header {
	user, unclear := callers.PrincipalBy(q.Request, callers.DefaultPrincipal)
	if user+unclear == "" && (q.caller == "" || o.Basic) || !strings.HasPrefix(strings.ToLower(q.Header.Get("Authorization")), "basic ") {
		return q.Header
	}
	headers := q.Header.Clone()
	headers.Del("Authorization")
	return headers
}

// read returns the InvocationRequest. Otherwise it answers, and returns nil.
func (q *request) read(s *publish.Skill) *invocation {
	invalid := func(status int, message string, details any) *invocation {
		q.fail(status, document.ValidationError, message, details)
		return nil
	}
	if media, _, err := mime.ParseMediaType(q.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return invalid(http.StatusUnsupportedMediaType, "The request has to be an InvocationRequest of the type application/json", nil)
	}
	if keys := q.Header.Values("Idempotency-Key"); len(keys) > 1 || len(keys) == 1 && (keys[0] == "" || len(keys[0]) > maxKey) {
		return invalid(http.StatusBadRequest, "The header Idempotency-Key has to be one text of 1 to 256 bytes", nil)
	}
	if key := q.Header.Get("Idempotency-Key"); key != "" && q.caller == "" && len(s.Operation.Credential(q.forwarded(s.Operation))) == 0 && !front.IsRandomUUID(strings.Trim(key, `"`)) {
		if s.Operation.Demand.Type != "" { // as the API would say, which is not asked: an invocation with a key is executed once
			q.fail(http.StatusUnauthorized, document.AuthRequired, "The operation needs a credential; without one, an Idempotency-Key has to be a random UUID (version 4 or 7)", s.Operation.Demand)
			return nil
		}
		return invalid(http.StatusBadRequest, "The Idempotency-Key of a caller without a credential has to be a random UUID (version 4 or 7): who repeats an invocation with its key gets its outcome", nil)
	}
	text, end := q.body()
	body, err := io.ReadAll(text)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		q.w.Header().Set("Connection", "close") // so that the rest is not awaited
		return invalid(http.StatusRequestEntityTooLarge, "The request is larger than 1 MiB", nil)
	}
	if err != nil {
		return invalid(http.StatusBadRequest, "The request is incomplete", nil)
	}
	end() // not before: the server reads what is left
	if newer := document.CheckVersion(body); newer != nil {
		q.fail(http.StatusUnprocessableEntity, document.VersionIncompatible, "The protocol version of the request is too new; the publisher speaks "+document.ConsumerVersion, map[string]any{
			"consumer_version": newer.Violations[0].Actual, "descriptor_version": document.ConsumerVersion, "supported_major": document.ConsumerMajor,
		})
		return nil
	}
	in := new(invocation)
	if violations := document.CheckRequest(body); violations != nil {
		return invalid(http.StatusBadRequest, "Invalid InvocationRequest document", violations)
	}
	if err := json.Unmarshal(body, in); err != nil {
		return invalid(http.StatusBadRequest, "Invalid InvocationRequest document: it can't be read", nil)
	}
	if in.SkillID != s.ID {
		return invalid(http.StatusBadRequest, "The request is for another skill than its URL", []run.Violation{{Path: "/skill_id", Message: "must be the id of the skill at this URL", Expected: jsonvalue.Quoted(s.ID), Actual: jsonvalue.Shown(in.SkillID)}})
	}
	if fault := s.Inputs.Check(q.Context(), share.Line{Principal: q.source(), SkillID: s.ID}, jsonrpc.Object{Text: in.Inputs}, nil); fault != nil {
		q.invalid(fault)
		return nil
	}
	return in
}

// body returns the body of the request, which can be read for no longer than the server or patience lets it take, until end is called.
func (q *request) body() (body io.Reader, end func()) {
	end = func() {}
	if server := q.w.server; server == nil || server.ReadTimeout <= 0 {
		control := http.NewResponseController(q.w)
		_ = control.SetReadDeadline(time.Now().Add(patience)) // not supported: then the server has its own ways
		end = func() { _ = control.SetReadDeadline(time.Time{}) }
	}
	return http.MaxBytesReader(q.w, q.Body, maxRequest), end
}

// invalid answers that the inputs are invalid.
func (q *request) invalid(fault *run.Failure) {
	v := run.Violation{Path: "/inputs", Message: fault.Message}
	if a := fault.Argument; a != nil {
		v.Path, v.Expected, v.Actual = v.Path+a.Pointer, a.Expected, a.Actual
	}
	q.fail(http.StatusBadRequest, document.ValidationError, "Invalid inputs: "+fault.Message, []run.Violation{v})
}
