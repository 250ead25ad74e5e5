package publish

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
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
	secret  string // the part of the id of its run that can't be guessed
	began   time.Time
	notes   notes
	memory  *share.Part             // for the answer
	cancel  context.CancelCauseFunc // ends the request to the API
	done    chan *publish.Result    // gets the result
	entry   *ledger.Entry           // nil: the run is not kept
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
	place := &share.Part{Pool: &h.shared.places, Owner: q.source(), Most: maxInvocations}
	if !place.Set(1) {
		q.failForNow(http.StatusTooManyRequests, document.RateLimited, "Too many invocations are in progress; nothing was sent to the API", time.Second)
		return
	}
	leave := func() { place.Set(0) }
	in := q.read(s)
	if in == nil {
		leave()
		return
	}
	timeout := time.Duration(h.Timeout)
	if own := document.Milliseconds(in.Context.TimeoutMS); own > 0 {
		timeout = min(timeout, own)
	}
	stopping, cancel := context.WithCancelCause(context.WithoutCancel(q.Context()))
	ctx, end := context.WithTimeoutCause(stopping, timeout, errLate)
	x := &execution{request: q, catalog: c, skill: s, began: time.Now(), secret: rand.Text(), memory: q.memory(), cancel: cancel, done: make(chan *publish.Result, 1)}
	release := func() {
		end()
		cancel(nil)
		x.memory.Set(0)
		leave()
	}
	headers := q.forwarded(s.Operation)
	x.notes = credentialsOf(s.Operation, headers, x.secret)
	r, fault := s.Operation.Request(ctx, in.Inputs, headers)
	if fault != nil {
		release()
		q.invalid(fault)
		return
	}
	if key := q.Header.Get("Idempotency-Key"); key != "" && !x.claim(key, in.Inputs) {
		release()
		return
	}
	h.use.Acquire()
	lifetime.BeginRun()
	ended := observe.Publishing()
	go func() { x.done <- x.ask(ctx, r) }()
	x.answer(func() {
		release()
		ended()
		h.use.EndRun()
	})
}

// answer waits for the result, and answers with it. After async_after, it answers that the run goes on. finished is called when the run has ended.
func (x *execution) answer(finished func()) {
	var late <-chan time.Time // never
	if async, _ := x.handler.asyncAfter(); async > 0 {
		late = time.After(async - time.Since(x.began))
	}
	gone := x.Context().Done()
	for {
		select {
		case result := <-x.done:
			defer finished()
			x.respond(result)
			return
		case <-gone:
			if x.entry != nil {
				go x.finish(finished)
				return
			}
			gone, late = nil, nil
			x.cancel(errLeft) // no one could learn the result
		case <-late:
			if late = nil; x.entry != nil || x.keep() { // otherwise the caller waits for the result
				go x.finish(finished)
				x.w.Header().Set("Retry-After", "1")
				x.write(http.StatusAccepted, x.state(x.executionID(), x.skill.ID, run.Run{State: run.Accepted}, x.began, time.Now()))
				return
			}
		}
	}
}

// respond answers with a result.
func (x *execution) respond(result *publish.Result) {
	o := runOf(result)
	x.report(&o)
	header := x.w.Header()
	maps.Copy(header, result.Header)
	if result.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int((result.RetryAfter+time.Second-1)/time.Second)))
	}
	if result.Status == "" {
		x.free(result.HTTPStatus, o)
		x.refuse(result.HTTPStatus, errorOf(&o))
		return
	}
	o = x.settle(o)
	ended := time.Now()
	if x.entry == nil {
		x.handler.shared.remember(&quick{x.secret, x.catalog.namespace, x.skill.ID, x.caller, x.notes, o, x.began, ended})
	}
	x.write(http.StatusOK, x.state(x.executionID(), x.skill.ID, o, x.began, ended))
}

// finish waits for the result of a run whose caller asks for it later.
func (x *execution) finish(finished func()) {
	defer finished()
	o := runOf(<-x.done)
	x.report(&o)
	x.settle(o)
}

// report counts and logs the end of an invocation.
func (x *execution) report(o *run.Run) {
	x.count(document.ErrorCode(o.Failure.ProviderSaid().Code))
	x.handler.logger.Debug("invocation", zap.String("skill_id", x.skill.ID), zap.String("execution_id", x.executionID()), zap.String("status", statusOf(o.State)),
		zap.String("code", o.Failure.ProviderSaid().Code), zap.Duration("duration", time.Since(x.began)))
}

// forwarded returns the headers of which the API may get the credential. A password that basic_auth in front has read is never for the API. One of a caller
// whom something else has established, such as forward_auth, which may have read it, is for operations that need HTTP Basic only.
func (q *request) forwarded(o *publish.Operation) http.Header {
	user, _ := callers.PrincipalBy(q.Request, callers.DefaultPrincipal)
	if user == "" && (q.caller == "" || o.Basic) || !strings.HasPrefix(strings.ToLower(q.Header.Get("Authorization")), "basic ") {
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
	body, err := q.readBody()
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return invalid(http.StatusRequestEntityTooLarge, "The request is larger than 1 MiB", nil)
	}
	if err != nil {
		return invalid(http.StatusBadRequest, "The request is incomplete", nil)
	}
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
		return invalid(http.StatusBadRequest, "The request is for another skill than its URL", []run.Violation{{Path: "/skill_id", Message: "must be the id of the skill at this URL", Expected: detail(s.ID)}})
	}
	if fault := s.Inputs.Check(q.Context(), share.Line{Principal: q.source(), SkillID: s.ID}, jsonrpc.Object{Text: in.Inputs}, nil); fault != nil {
		q.invalid(fault)
		return nil
	}
	return in
}

// readBody reads the body of the request, for no longer than the server or patience lets it take.
func (q *request) readBody() ([]byte, error) {
	if server, ok := q.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ReadTimeout <= 0 {
		control := http.NewResponseController(q.w)
		_ = control.SetReadDeadline(time.Now().Add(patience)) // not supported: then the server has its own ways
		defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	}
	return io.ReadAll(http.MaxBytesReader(q.w, q.Body, maxRequest))
}

// invalid answers that the inputs are invalid.
func (q *request) invalid(fault *run.Failure) {
	path := "/inputs"
	if fault.Argument != nil {
		path += fault.Argument.Pointer
	}
	q.fail(http.StatusBadRequest, document.ValidationError, "Invalid inputs: "+fault.Message, []run.Violation{{Path: path, Message: fault.Message}})
}
