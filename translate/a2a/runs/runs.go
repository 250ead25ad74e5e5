package runs

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// MethodFollow is the method in reports of calls that follow a run without a request: for a task that a client has asked about, or
// that has a webhook.
const MethodFollow = "follow"

// firstAnswer bounds how long a request about a task waits for the first state of a run that was not followed.
const firstAnswer = 2 * time.Second

// Runs follows the runs of the tasks of a front.
type Runs struct {
	// Tasks stores the tasks. It is required. Fronts may share it.
	Tasks *tasks.Tasks
	// Resume finds a run that was accepted before. It is required.
	Resume func(ctx context.Context, ref run.Ref, call translate.Call) translate.Execution
	// Follow is the time that a run is followed without a request.
	Follow time.Duration
	// Server has the memory for outputs of runs while they are read. Nil: there is no bound.
	Server *jsonrpc.Server
	// Retries tries again to follow runs whose provider can't be reached for the moment.
	// Nil: only requests about their tasks do.
	Retries *Retries
	// Push delivers events to webhooks; nil: clients can't set any.
	Push *push.Webhooks
	// Panicked is called after a panic in the background, with its stack. May be nil.
	Panicked func(ctx context.Context, value any, stack []byte)
}

// Follows reports whether this process follows the run of a task.
func (r *Runs) Follows(t *task.Task) bool {
	release, ok := r.Tasks.Claim(t.Owner, t.ID, nil)
	if ok {
		release()
	}
	return !ok
}

// Current makes sure that the run of a task is followed, and returns the current task. The run may not be followed any more, since the
// process that began it has ended, or since the time of following without a request is over.
func (r *Runs) Current(ctx context.Context, t *task.Task, caller run.Caller) *task.Task {
	news := r.FollowLater(ctx, t, caller)
	if news == nil {
		return t
	}
	wait, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	select {
	case <-news:
	case <-wait.Done():
	}
	if now, err := r.Tasks.Get(ctx, t.Owner, t.ID); err == nil {
		return now
	}
	return t
}

// FollowLater is [Runs.Current] without waiting. The channel is closed when the state of the run is known; nil: there is nothing to wait for.
func (r *Runs) FollowLater(ctx context.Context, t *task.Task, caller run.Caller) <-chan struct{} {
	if !IsOpen(t) {
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	release, ok := r.Tasks.Claim(t.Owner, t.ID, func() { cancel(run.ErrCallerCanceled) })
	if !ok {
		cancel(nil)
		return nil // this process follows it
	}
	news := make(chan struct{})
	if t.Ref.ExecutionID == "" {
		_, _ = r.Tasks.Change(ctx, t.Owner, t.ID, r.Loses) // a failure is reported
		release()
		cancel(nil)
		close(news)
		return news
	}
	skew := task.ClockSkew
	if last, ok := r.Retries.Take(t); ok {
		skew = last
	}
	w := following{runs: r, task: t, caller: caller, skew: skew, tell: sync.OnceFunc(func() { close(news) })}
	w.caller.Method = MethodFollow
	go func() {
		defer cancel(nil)
		defer w.tell()
		defer release()
		defer r.recovered(ctx)
		w.run(ctx)
	}()
	return news
}

// FollowNow follows the run of a task as a call of its own, until its end or for as long as [Runs.Follow] says. skew is how much later than
// the deadline of the task its time is up, because the deadline may be of another clock. The caller of FollowNow holds the claim of the task.
func (r *Runs) FollowNow(ctx context.Context, t *task.Task, caller run.Caller, skew time.Duration) {
	w := following{runs: r, task: t, caller: caller, skew: skew}
	w.run(ctx)
}

// Loses ends a task whose invocation another process began, if that process must have ended. The skill is not invoked again, since it may
// have been executed.
func (r *Runs) Loses(t *task.Task) error {
	if at := t.LostAt(); at.IsZero() || time.Now().Before(at) {
		return errors.New("the invocation may go on")
	}
	r.Advance(t, &run.Run{Failure: &run.Failure{
		Kind: run.Stopped, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedMaybe,
		Message: "The bridge was stopped while it invoked the skill, so it does not know whether the skill was executed.",
	}})
	return nil
}

// IsAwaited reports whether a webhook waits for the events of a task.
func (r *Runs) IsAwaited(t *task.Task) bool {
	return r.Push != nil && slices.ContainsFunc(t.Push, func(p task.PushConfig) bool { return p.Lost < task.MaxLost })
}

// recovered reports a panic of a goroutine.
func (r *Runs) recovered(ctx context.Context) {
	if value := recover(); value != nil && r.Panicked != nil {
		r.Panicked(ctx, value, debug.Stack())
	}
}
