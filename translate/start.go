package translate

import (
	"context"
	"iter"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Execution is a call that has started a run, or has found one, or says why it could not. One of
// its methods has to be called, once. That ends the call, which is then reported to the [Observer].
type Execution interface {
	// Wait waits for the end of the run, and for its output: until the deadline of the call, or for as long as its Wait
	// says. However many wait for the same run, the provider is asked as often as for one of them.
	Wait() run.Run
	// Watch is Wait, and yields each state of the run: first that in which it was accepted, last what Wait returns. Other
	// calls that wait for the run do not depend on how long a state is looked at.
	Watch() iter.Seq[run.Run]
	// Leave does not wait. The Run is as it was when it was accepted or found.
	Leave() run.Run
}

// Start finds a skill, checks the arguments and invokes it. The deadline of the call is its timeout,
// or else the descriptor's, or else the default; never longer than the configured maximum. The clock
// starts when the call arrives.
func (b *Bridge) Start(ctx context.Context, call Call) Execution {
	x := b.begin(ctx, OperationExecute, call)
	defer x.endIfPanicking()
	x.failure = x.submit()
	x.call.Inputs = jsonrpc.Object{}
	x.begun = true
	return x
}

// Resume finds the skill of a run that was accepted before, here or elsewhere. Whether the caller may
// ask about the run has to be judged before. Of the call, the name and the arguments are not needed. If
// it does not say for how long it waits, that is the default timeout; that the run has not ended by then
// is no failure.
func (b *Bridge) Resume(ctx context.Context, ref run.Ref, call Call) Execution {
	call.Name = ref.SkillID
	if call.Wait == nil {
		call.Wait = &b.config.DefaultTimeout
	}
	x := b.begin(ctx, OperationFollow, call)
	x.ref = ref
	defer x.endIfPanicking()
	x.stop.noteRun(ref)
	x.setDeadline(b.config.MaxTimeout)
	x.known = document.Response{ExecutionID: ref.ExecutionID, State: run.Accepted}
	x.failure = x.findRun(ref)
	x.begun = true
	return x
}

// endIfPanicking ends a call that will not be waited for.
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
		left := false
		show := func(r *document.Response) bool {
			left = !yield(x.judge(r, nil))
			return !left
		}
		if x.failure == nil && !x.known.State.Ended() && x.operation == OperationExecute && !show(&x.known) {
			x.outcome = x.judge(&x.known, nil)
			return
		}
		x.await(show)
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
	x.outcome = x.judge(&x.known, x.failure)
	return x.outcome
}

// await waits for the end of the run, or for as long as the agent does, and has each state
// before it shown; show may be nil.
func (x *execution) await(show func(*document.Response) bool) {
	r, failure := &x.known, x.failure
	switch {
	case failure != nil:
	case !r.State.Ended():
		r, failure = x.follow(show)
	case r.State == run.Completed && r.Output == nil && r.ExecutionID != "" && x.found.Skill.Endpoint.ResultURL != "":
		r, failure = x.fetchResult()
	}
	if x.operation == OperationFollow {
		failure = withoutTimeout(x.ctx, failure, x.ref.ExecutionID)
	}
	x.outcome = x.judge(x.fit(r, failure))
}

// follow asks about the run until it has ended.
func (x *execution) follow(show func(*document.Response) bool) (*document.Response, *run.Failure) {
	x.bridge.config.Following()
	awaited := skillsharing.FollowOptions{
		ExecutionID: x.known.ExecutionID, RetryAfter: x.known.RetryAfter, Until: x.until(), TraceParent: x.call.TraceParent, Show: show,
	}
	if x.operation == OperationFollow {
		awaited.Resumed, awaited.Accepted, awaited.NotBefore = true, x.ref.Accepted, x.ref.NotBefore
	} else {
		awaited.Known = x.known.State
	}
	r, failure := x.found.Invoker.Client.Follow(x.ctx, x.found.Skill, &awaited, &x.figures.Stats)
	x.figures.Followed = time.Now()
	if failure != nil {
		return &document.Response{ExecutionID: x.known.ExecutionID, State: run.Accepted}, failure
	}
	return r, nil
}

// fetchResult fetches the output of a run that completed in the first answer, which had none.
func (x *execution) fetchResult() (*document.Response, *run.Failure) {
	x.bridge.config.Following()
	r, failure := x.found.Invoker.Client.Result(x.ctx, x.found.Skill, &x.known, &skillsharing.FollowOptions{
		Until: x.until(), TraceParent: x.call.TraceParent,
	}, &x.figures.Stats)
	if failure != nil {
		return &x.known, failure
	}
	return r, nil
}
