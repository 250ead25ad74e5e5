package translate

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Execution is a call after [Bridge.Start] or [Bridge.Resume]: it has a run, or a failure. Exactly one of
// Wait, Watch and Leave has to be called, once: that ends the call and reports it to the [Observer].
//
// An execution lives as long as its context. To let it outlive the request that it came with, start it with
// [context.WithoutCancel], without a [Call.Answer], and call Detach when the request ends.
type Execution interface {
	// Wait waits for the end of the run and for its output, until the deadline or the Wait of the call. All who wait for
	// the same run share its polls.
	Wait() run.Run
	// Watch yields each state of the run: first, for a run that Start has submitted and that has not ended, the state in which
	// it was accepted, then each new state, and last what Wait would return. So a run that ended with its submission, and a call
	// without a run, yield one value. After the Wait of the call, the last value has the last state, and no failure. When a
	// [Stop] ends the call, the last value has the last state, and a failure of the kind [run.Stopped]. A loop body that leaves
	// early ends the call, and a slow one delays no other watcher of the run. The call ends, and is reported, after the last
	// loop body: what a front has to do with the end before the process exits belongs there.
	Watch() iter.Seq[run.Run]
	// Leave does not wait. It returns the Run as it was when it was accepted or found.
	Leave() run.Run
	// Skill returns the skill of the call; nil: none was found. It may also be called after the call has ended.
	Skill() *Skill
	// Unknown returns names of inputs of the call that the skill does not define, at most 8: they are likely to be misspelt.
	Unknown() []string
	// Detach says that no caller waits for the end of the run any more: the limits of the [Config] do not count the call from
	// now on, but [Bridge.InProgress] does. Any goroutine may call it at any time, also while another one waits or watches.
	// Further calls have no effect.
	Detach()
}

// execution is a call in progress. It implements [Execution].
type execution struct {
	bridge  *Bridge
	call    Call
	ctx     context.Context    // caller, with a deadline once that is known
	cancel  context.CancelFunc // of the deadline; nil: there is none yet
	stop    stoppable
	listed  *catalog.Listed // once the name is resolved
	found   *catalog.Found  // once the descriptor is read
	timeout time.Duration   // that applies to the call
	outcome run.Run
	figures Statistics

	known     document.Response // the newest about the run; no state: none was accepted
	failure   *run.Failure
	operation Operation
	begun     bool   // Start or Resume returns it, so that one of its methods will end it
	letGo     func() // ends the hold of the call; nil: it needs none

	caller callContext
	accepted
	admission
}

// accepted is the run of a call.
type accepted struct {
	ref    run.Ref  // once it is accepted
	kept   *run.Run // how it has ended, from its record; nil: that is not known
	record Record
}

func (b *Bridge) begin(ctx context.Context, o Operation, call Call) *execution {
	if call.Arrived.IsZero() {
		call.Arrived = time.Now()
	}
	if call.TraceID == "" {
		call.TraceID = NewTraceID()
	}
	x := &execution{bridge: b, call: call, operation: o}
	x.caller = callContext{b.config.Observer.Begin(ctx, &x.call), x}
	x.ctx, x.stop.cancel = context.WithCancelCause(&x.caller)
	x.timeout = b.config.MaxTimeout
	if call.Timeout > 0 {
		x.timeout = min(max(call.Timeout, minTimeout), b.config.MaxTimeout)
	}
	x.stop.call, x.stop.bridge = &x.call, b
	b.config.Stop.add(&x.stop)
	return x
}

// end releases what the call holds, and reports the call.
func (x *execution) end() {
	if x.cancel != nil {
		x.cancel()
	}
	x.bridge.config.Stop.remove(&x.stop)
	x.release()
	endQuota(x)
	s := &x.figures
	s.Operation, s.Duration = x.operation, time.Since(x.call.Arrived)
	if x.found != nil {
		s.Descriptor = x.found.State
	}
	s.Source = cmp.Or(sourceOf(x), s.Source)
	if x.call.isNews(&x.outcome) {
		x.bridge.config.Observer.Called(x.ctx, &x.call, &x.outcome, s)
	}
	if x.found != nil && x.outcome.State.Ended() {
		x.bridge.rereading[x.found.Invoker.Index].ranSkill(x.caller.Context)
	}
	x.known.Output, x.outcome.Output = nil, nil // a front may keep the execution
	if room, ok := x.call.Answer.(exchange.PatientBudget); ok {
		room.Release()
	}
	x.stop.cancel(nil)
	if x.letGo != nil {
		x.letGo()
	}
}

// sourceOf returns the namespace of the source of a call; empty: it is not known.
func sourceOf(x *execution) string {
	switch {
	case x.listed != nil:
		return x.listed.Section.Namespace
	case x.source != nil:
		return x.source.Namespace
	case x.kept != nil:
		return x.ref.Source
	}
	return ""
}

// Start finds a skill, checks the inputs and invokes it. The timeout of the call counts from its arrival: it is
// the agent's, else the descriptor's, else the default, and at most the configured maximum.
func (b *Bridge) Start(ctx context.Context, call Call) Execution {
	x := b.begin(ctx, OperationExecute, call)
	x.letGo = b.config.Hold()
	defer x.endIfPanicking()
	x.failure = x.submit()
	x.call.Inputs, x.call.Prepare = jsonrpc.Object{}, nil
	x.begun = true
	return x
}

// Resume finds the skill of a run that was accepted before, by this bridge or another. The front has to
// check before that the caller may ask about the run. The call needs no Name and no Inputs; its Wait is the default
// timeout if it has none, but see [Call.Detached].
func (b *Bridge) Resume(ctx context.Context, ref run.Ref, call Call) Execution {
	call.Name = ref.SkillID
	switch {
	case call.Wait != nil:
	case call.Detached:
		call.Wait = &b.config.MaxTimeout
	default:
		call.Wait = &b.config.DefaultTimeout
	}
	record := Record{Asking: ctx}
	if b.config.Kept != nil {
		record = b.config.Kept(ctx, &ref, &call)
	}
	x := b.begin(record.Asking, OperationFollow, call)
	x.letGo = b.config.Hold()
	x.ref, x.hold.detached, x.kept, x.record = ref, call.Detached, record.Ended, record
	defer x.endIfPanicking()
	x.stop.noteRun(ref)
	x.setDeadline(b.config.MaxTimeout)
	if call.Detached {
		b.config.Quotas.Follow(call.Principal, &ref, countUntil(x))
	}
	x.known = document.Response{ExecutionID: ref.ExecutionID, State: run.Accepted}
	x.failure = x.findRun(ref)
	x.begun = true
	return x
}

// endIfPanicking ends a call if Start or Resume panics.
func (x *execution) endIfPanicking() {
	if !x.begun {
		x.end()
	}
}

// Wait implements [Execution].
func (x *execution) Wait() run.Run {
	defer x.end()
	x.await(nil)
	return x.outcome
}

// Watch implements [Execution].
func (x *execution) Watch() iter.Seq[run.Run] {
	return func(yield func(run.Run) bool) {
		defer x.end()
		left, shown := false, run.State(0)
		show := func(r *document.Response) bool {
			shown = r.State
			left = !yield(x.judge(r, nil))
			return !left
		}
		if x.failure == nil && !x.known.State.Ended() && x.operation == OperationExecute && !show(&x.known) {
			x.outcome = x.judge(&x.known, nil)
			return
		}
		x.await(show)
		if o := &x.outcome; o.Failure != nil && !o.State.Ended() {
			o.State = max(o.State, shown)
		}
		if !left {
			yield(x.outcome)
		}
	}
}

// Leave implements [Execution].
func (x *execution) Leave() run.Run {
	if x.operation == OperationExecute {
		x.operation = OperationSubmit
	}
	defer x.end()
	x.conclude(&x.known, x.failure)
	return x.outcome
}

// conclude sets the outcome of the call.
func (x *execution) conclude(r *document.Response, failure *run.Failure) {
	if x.kept != nil && failure == nil {
		x.outcome = *x.kept
		return
	}
	x.outcome = x.judge(r, failure)
	if x.record.Settle != nil {
		x.outcome = x.record.Settle(x.outcome)
	}
}

// Skill implements [Execution].
func (x *execution) Skill() *Skill {
	if x.found == nil {
		return nil
	}
	return skillOf(x)
}

// Unknown implements [Execution].
func (x *execution) Unknown() []string { return x.figures.Unknown }

// maxUnknown bounds the unknown inputs that are named.
const maxUnknown = 8

// skillOf returns the skill that a call has found.
func skillOf(x *execution) *Skill {
	f := x.found
	s := &Skill{Name: f.Name, Ref: refOf(f), Descriptor: f.Skill.Descriptor, execution: x}
	if timeout := toldTimeout(x); timeout > 0 {
		s.Deadline = x.call.deadline(timeout)
	}
	return s
}

// await waits for the end of the run, or of the agent's wait. It calls show, which may be nil, with each state before the
// last.
func (x *execution) await(show func(*document.Response) bool) {
	r, failure := &x.known, x.failure
	switch {
	case failure != nil, x.kept != nil:
	case !r.State.Ended():
		if r = x.wait(); r == nil {
			r, failure = x.follow(show)
		}
	case r.State == run.Completed && r.Output == nil && r.ExecutionID != "" && x.found.Skill.Endpoint.ResultURL != "":
		r, failure = x.fetchResult()
	}
	if failure != nil && x.found != nil {
		x.found.NoteCall(x.call.Principal, failure)
	}
	if x.operation == OperationFollow {
		failure = withoutTimeout(x.ctx, failure, x.ref.ExecutionID)
	}
	if x.kept == nil {
		r, failure = x.fit(r, failure)
	}
	x.conclude(r, failure)
	endQuota(x) // before the caller learns of the end, so that its next call has a place
}

// wait waits for the end of a run about which another instance asks. It returns nil if this one has to ask.
func (x *execution) wait() *document.Response {
	if x.record.Wait == nil {
		return nil
	}
	x.bridge.config.Following()
	ctx, cancel := context.WithDeadline(x.ctx, x.call.until(x.timeout))
	defer cancel()
	again, goesOn := x.record.Wait(ctx)
	if !goesOn || x.ctx.Err() != nil {
		return nil
	}
	return &document.Response{ExecutionID: x.known.ExecutionID, State: run.Working, RetryAfter: again}
}

// pollPatience is how long a call with a Poll waits for the answer.
const pollPatience = 10 * time.Second

// follow polls the run until it has ended.
func (x *execution) follow(show func(*document.Response) bool) (*document.Response, *run.Failure) {
	x.bridge.config.Following()
	options := skillsharing.FollowOptions{
		ExecutionID: x.known.ExecutionID, RetryAfter: x.known.RetryAfter, Until: x.call.until(x.timeout), TraceParent: x.call.TraceParent, Show: show,
	}
	if x.call.Poll != nil {
		options.Patience = pollPatience
	}
	if x.operation == OperationFollow {
		options.Resumed, options.Accepted, options.NotBefore = true, x.ref.Accepted, x.ref.NotBefore
	} else {
		options.Known = x.known.State
	}
	r, failure := x.found.Invoker.Client.Follow(x.ctx, x.found.Skill, &options, &x.figures.Stats)
	x.figures.Followed = time.Now()
	if failure != nil {
		return &document.Response{ExecutionID: x.known.ExecutionID, State: run.Accepted}, failure
	}
	return r, nil
}

// fetchResult fetches the output of a run that completed in the first answer, where that had no output.
func (x *execution) fetchResult() (*document.Response, *run.Failure) {
	x.bridge.config.Following()
	r, failure := x.found.Invoker.Client.Result(x.ctx, x.found.Skill, &x.known, &skillsharing.FollowOptions{
		Until: x.call.until(x.timeout), TraceParent: x.call.TraceParent,
	}, &x.figures.Stats)
	if failure != nil {
		return &x.known, failure
	}
	return r, nil
}
