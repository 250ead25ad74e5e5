package mcp

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// newTask answers a call with a task, since its run goes on. The id of the task is the run token, so that no instance has to store
// tasks.
func newTask(r *request, o *run.Run) (jsontext.Value, *jsonrpc.Error) {
	token := r.tokenOf(o)
	if token == "" {
		return stillRunning(r, o), nil
	}
	w := r.open(resultTask)
	w.Task(token, &o.Ref, r.front.Tokens.Lifetime(), wire.TaskState{Status: wire.TaskWorking, RetryAfter: o.RetryAfter})
	return w.end(), nil
}

// canceledTask returns a task that was canceled as an object.
func canceledTask(r *request, id string, ref *run.Ref, at time.Time) jsontext.Value {
	w := result{request: r}
	w.Open()
	w.Task(id, ref, r.front.Tokens.Lifetime(), wire.TaskState{Status: wire.TaskCancelled, Message: abandoned, Since: at})
	w.Close()
	return w.Buf
}

// withoutTasks returns the error for a request about tasks of a client that does not declare that it knows them.
func withoutTasks() *jsonrpc.Error {
	return &jsonrpc.Error{
		Code: codeMissingCapability, Message: "Missing required client capability: the extension " + wire.ExtensionTasks, Status: http.StatusBadRequest,
		Data: jsontext.Value(`{"requiredCapabilities":{"extensions":{"` + wire.ExtensionTasks + `":{}}}}`),
	}
}

// openTask returns the run of the task that a request is about.
func openTask(r *request) (id string, ref run.Ref, fault *jsonrpc.Error) {
	if !r.meta.Tasks {
		return "", ref, withoutTasks()
	}
	if id, fault = r.text("taskId"); fault != nil {
		return "", ref, fault
	}
	ref, err := r.front.Tokens.Open(r.ctx, id, r.caller.Principal)
	switch {
	case errors.Is(err, runtoken.ErrInvalid):
		return "", ref, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Task not found"}
	case err != nil:
		return "", ref, tokensUnavailable()
	}
	r.ctx = r.front.Canceled.Read(r.ctx, r.caller.Principal, &ref)
	return id, ref, nil
}

// getTask answers tasks/get. The provider is asked at most once a second for each run of a caller.
func getTask(r *request) (jsontext.Value, *jsonrpc.Error) {
	id, ref, fault := openTask(r)
	if fault != nil {
		return r.refuse(fault)
	}
	if !canceledAt(r, &ref).IsZero() {
		canceled := run.Run{Ref: ref, State: run.Canceled}
		r.reportRun(&canceled)
		return detailed(r, id, &ref, nil, &canceled)
	}
	if known, ok := r.front.ended.said.Find(keyOf(r, &ref)); ok {
		r.reportRun(&known.outcome)
		return detailed(r, id, &ref, known.skill, &known.outcome)
	}
	if known, ok := r.front.polled.Find(keyOf(r, &ref)); ok {
		r.reportRun(&run.Run{Ref: ref, State: run.Working})
		return working(r, id, &ref, known)
	}
	p, _ := poll(r, r.ctx, &ref)
	return detailed(r, id, &ref, p.skill, &p.outcome)
}

// poll asks the provider once about a run. What it says of a run that has ended is kept, unless it is long.
func poll(r *request, ctx context.Context, ref *run.Ref) (endedRun, bool) { //nolint:revive // the context may end before that of the request
	execution := r.front.Bridge.Resume(ctx, *ref, translate.Call{Caller: r.caller, Answer: r.Request, Wait: new(time.Duration)})
	p := endedRun{outcome: execution.Wait()}
	p.skill = execution.Skill()
	if isOpen(&p.outcome) || isGone(&p.outcome) {
		return p, false
	}
	r.front.ended.add(keyOf(r, ref), p)
	return p, true
}

// keyOf returns the key of a run of the caller.
func keyOf(r *request, ref *run.Ref) run.Key { return run.KeyOf(r.caller.Principal, ref) }

// working answers tasks/get for a run that goes on, or whose state can't be read. It is an error if the run has ended: the states of
// tasks that have ended do not change, and the client can ask again for the result.
func working(r *request, id string, ref *run.Ref, said polledRun) (jsontext.Value, *jsonrpc.Error) {
	if _, ended := r.front.ended.since.Find(keyOf(r, ref)); ended {
		return nil, failureError(&run.Failure{
			Kind: run.Unreachable, Phase: run.PhaseResult, By: run.Bridge, Ref: *ref, Executed: run.ExecutedYes, Retry: run.RetryIn(max(said.retryAfter, wire.ShortestPoll), taskReadings),
			Message: strings.TrimSpace("The task has ended, but its result can't be read at the moment; call tasks/get again later. " + said.message),
		}, "")
	}
	w := r.open(resultComplete)
	w.Task(id, ref, r.front.Tokens.Lifetime(), wire.TaskState{Status: wire.TaskWorking, Message: said.message, RetryAfter: said.retryAfter})
	return w.end(), nil
}

// taskReadings is how often a client should try to read a result that can't be read at the moment.
const taskReadings = 10

// isGone reports whether a call about a run ended because its client has left.
func isGone(o *run.Run) bool { return o.Failure != nil && o.Failure.Kind == run.CallerGone }

// detailed returns a task with the result or error that the call would have been answered with.
func detailed(r *request, id string, ref *run.Ref, skill *translate.Skill, o *run.Run) (jsontext.Value, *jsonrpc.Error) {
	if isGone(o) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: messageOf(o.Failure)}
	}
	status, message, task := ofRun(r, id, ref, skill, o)
	if status == wire.TaskWorking {
		said := polledRun{message, o.RetryAfter}
		r.front.polled.Add(keyOf(r, ref), said, pollEvery)
		return working(r, id, ref, said)
	}
	w := r.open(resultComplete)
	w.Next()
	w.Buf = append(w.Buf, task[1:len(task)-1]...)
	return w.end(), nil
}

// ofRun returns a task as an object, with the result or error of a run that has ended. While there is no room for its result, it goes on.
func ofRun(r *request, id string, ref *run.Ref, skill *translate.Skill, o *run.Run) (status, message string, task jsontext.Value) {
	if o.State == run.Canceled {
		return wire.TaskCancelled, abandoned, canceledTask(r, id, ref, canceledAt(r, ref))
	}
	var ended jsontext.Value
	if o.Failure == nil && o.State.Ended() {
		var failure *run.Failure
		if ended, failure = completed(r, skill, o); failure != nil {
			o = &run.Run{Ref: o.Ref, State: o.State, Failure: failure}
		}
	}
	var fault *jsonrpc.Error
	switch failure := o.Failure; {
	case isOpen(o):
		status = wire.TaskWorking
		if failure != nil {
			message = messageOf(failure)
		}
	case failure == nil:
		status = wire.TaskCompleted
	default:
		status = wire.TaskCompleted
		if ended, fault = failed(r, o, ref.SkillID); fault != nil {
			status, message = wire.TaskFailed, fault.Message
		}
	}
	w := result{request: r}
	w.Open()
	state := wire.TaskState{Status: status, Message: message, RetryAfter: o.RetryAfter}
	if status != wire.TaskWorking {
		state.Since = r.front.ended.sinceWhen(keyOf(r, ref))
	}
	w.Task(id, ref, r.front.Tokens.Lifetime(), state)
	w.Buf = slices.Grow(w.Buf, len(ended)+4<<10) // append would reserve much more than a long result and the other members need
	w.Raw("result", ended)
	if fault != nil {
		w.Error(fault)
	}
	w.Close()
	return status, message, w.Buf
}

// isOpen reports whether a run goes on, or may go on since its state can't be read.
func isOpen(o *run.Run) bool {
	switch f := o.Failure; {
	case f == nil:
		return !o.State.Ended()
	case f.MayPass(), f.NotOffered():
		return true
	case f.Lost:
		return false
	}
	switch o.Failure.Kind {
	case run.Unreachable, run.RateLimited, run.Stopped, run.DeadlineExceeded, run.AuthRequired, run.PermissionDenied:
		return true
	}
	return false
}

// abandoned is the status message of a task that was cancelled.
const abandoned = "No longer followed; the provider may still finish it."

// cancelTask answers tasks/cancel. The Skill Sharing Protocol can't end a run, so the run is only followed no longer. A run that has
// ended stays as it is.
func cancelTask(r *request) (jsontext.Value, *jsonrpc.Error) {
	_, ref, fault := openTask(r)
	if fault != nil {
		return r.refuse(fault)
	}
	if !canceledAt(r, &ref).IsZero() {
		r.reportRun(&run.Run{Ref: ref, State: run.Canceled})
	} else if !hasEnded(r, &ref) {
		if _, failure := r.front.Canceled.Cancel(r.ctx, r.caller.Principal, &ref); failure != nil {
			return nil, failureError(failure, "")
		}
	}
	return r.open(resultComplete).end(), nil
}

// canceledAt returns when the caller has canceled a run; zero: it has not.
func canceledAt(r *request, ref *run.Ref) time.Time {
	return r.front.Canceled.When(r.ctx, r.caller.Principal, ref)
}

// cancelPoll bounds how long tasks/cancel waits to learn whether the run has ended.
const cancelPoll = 5 * time.Second

// hasEnded reports whether a run has ended. It asks the provider, unless it is known, also if the run was polled within the last second:
// a task that has ended since then is not to become a canceled one. That is one request for a task, since one that is canceled stays so.
// It reports the call.
func hasEnded(r *request, ref *run.Ref) bool {
	if _, ended := r.front.ended.since.Find(keyOf(r, ref)); ended {
		r.reportRun(&run.Run{Ref: *ref, State: run.Completed})
		return true
	}
	ctx, end := context.WithTimeout(r.ctx, cancelPoll)
	defer end()
	_, ended := poll(r, ctx, ref)
	if ended {
		r.front.ended.sinceWhen(keyOf(r, ref))
	}
	return ended
}

// updateTask answers tasks/update. Tasks never ask for input.
func updateTask(r *request) (jsontext.Value, *jsonrpc.Error) {
	if _, _, fault := openTask(r); fault != nil {
		return nil, fault
	}
	return r.open(resultComplete).end(), nil
}

// composing is how much memory it takes to make the notification of a task, as a multiple of the output of its run: the output, the
// result, which has it twice, while its buffer grows, and the task.
const composing = 6

// awaitTask waits for the end of a task, and returns the params of its notification, which are not used any more after the end of
// the context; nil: the task goes on.
func (s *subscription) awaitTask(ctx context.Context, index int) jsontext.Value {
	memory := &room{PatientBudget: s.Room()}
	return memory.read(ctx, func() jsontext.Value { return s.readTask(ctx, &s.tasks[index], memory) })
}

// readTask waits for the end of a task and returns the params of its notification, which the room counts. It returns nil if there is
// no memory for them, or if the task goes on: then the room needs nothing.
func (s *subscription) readTask(ctx context.Context, t *subscribedTask, room *room) jsontext.Value {
	r := s.request
	caller := r.caller
	caller.Arrived = time.Now()
	execution := r.front.Bridge.Resume(ctx, t.ref, translate.Call{Caller: caller, Detached: true, Answer: room})
	outcome := execution.Wait()
	own := *r
	own.Request, own.room = new(jsonrpc.Request), room
	switch f := outcome.Failure; {
	case ctx.Err() == nil && f != nil && errors.Is(f.Cause, exchange.ErrNoRoom):
		failure := noRoom(&own, &outcome, int(room.needed))
		if failure == nil || !failure.Lost {
			return nil
		}
		outcome = run.Run{Ref: outcome.Ref, State: outcome.State, Failure: failure} // there will never be room
	case ctx.Err() != nil, isOpen(&outcome):
		room.needed = 0
		return nil
	}
	size := int64(len(outcome.Output))
	_, most := room.AnswerLimit()
	if !room.Reserve(min(composing*size, max(most/2, size))) { // one caller has at most half
		return nil
	}
	status, _, task := ofRun(&own, t.id, &t.ref, execution.Skill(), &outcome)
	if status == wire.TaskWorking { // there is no room for the result
		return nil
	}
	params := s.withID(task)
	room.least = 0
	if !room.Reserve(int64(cap(params))) {
		return nil
	}
	return params
}

// polledRun is what the last poll of a run said that goes on. All calls of its caller share it.
type polledRun struct {
	message    string
	retryAfter time.Duration
}

// pollEvery is the shortest time between two polls of a run for clients that ask about its task.
const pollEvery = time.Second

// endedRuns are the runs of which it is known that they have ended: since when, and what the provider has said of some of them. The
// zero value is ready for use.
type endedRuns struct {
	since run.Memory[time.Time]
	said  run.Memory[endedRun]
}

// endedRun is a run as a poll has said, which has ended if it is kept.
type endedRun struct {
	skill   *translate.Skill
	outcome run.Run
}

const (
	mostEnded     = 200      // ends of runs that are kept
	mostEndedSize = 64 << 10 // bytes of what a provider has said of one run
)

// add keeps what the provider has said of the end of a run, unless it is long: for as long as its run token is valid, or until later ones take
// its place, so that a task that has ended stays as it is, whatever its provider says afterwards.
func (e *endedRuns) add(key run.Key, said endedRun) {
	if kept, ok := withoutAnswer(&said.outcome); ok {
		e.said.AddWithin(mostEnded, key, endedRun{said.skill, kept}, runtoken.MaxLifetime)
	}
}

// withoutAnswer returns a copy of a run that does not keep the answer from which it was read. ok is false if it is too large to be kept.
func withoutAnswer(o *run.Run) (c run.Run, ok bool) {
	c = *o
	c.Output = o.Output.Clone()
	size := len(c.Output)
	if o.Failure != nil {
		f := *o.Failure
		f.Rewrite(func(text string) string {
			size += len(text)
			return strings.Clone(text)
		}, func(v jsontext.Value) jsontext.Value {
			size += len(v)
			return v.Clone()
		})
		f.Cause, c.Failure = nil, &f
	}
	return c, size <= mostEndedSize
}

// sinceWhen returns when it was first called for a run, as far as it is remembered.
func (e *endedRuns) sinceWhen(key run.Key) time.Time {
	since, ok := e.since.Find(key)
	if !ok {
		since = time.Now()
		e.since.Add(key, since, runtoken.MaxLifetime)
	}
	return since
}
