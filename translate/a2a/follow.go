package a2a

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// clockSkew is how much the clocks of two instances may differ. A deadline may be of another clock: as long after it, the
	// run of a task that this process did not begin has time to end.
	clockSkew = 5 * time.Minute
	// firstAnswer bounds how long a request for a task waits for the first news of a run that was not followed.
	firstAnswer = 2 * time.Second
	// firstRefresh is the time until a waiting request reads its task again, which grows to keepAlive.
	firstRefresh = time.Second
)

// follows reports whether this process follows the run of a task.
func (f *Front) follows(t *task.Task) bool {
	release, ok := f.Tasks.Claim(t.Owner, t.ID, nil)
	if ok {
		release()
	}
	return !ok
}

// refresh reads a task again that a request waits for, and follows its run if no one does in this process. Another process may
// have changed the task, or may have ended.
func (r *request) refresh(t *task.Task) {
	f := r.front
	if now, err := f.Tasks.Refresh(r.ctx, t.Owner, t.ID, firstRefresh/2); err == nil {
		r.followLater(now)
	}
}

// repeat calls a function from time to time until a context ends.
func repeat(ctx context.Context, what func()) {
	pause := firstRefresh
	again := time.NewTimer(pause)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			what()
			pause = min(2*pause, keepAlive)
			again.Reset(pause)
		}
	}
}

// follow makes sure that somebody follows the run of a task that a client asks about, and returns the task as it is then. Another
// process may have begun the task, or the time for which runs are followed without a request may be over.
func (r *request) follow(t *task.Task) *task.Task {
	f := r.front
	news := r.followLater(t)
	if news == nil {
		return t
	}
	wait, cancel := context.WithTimeout(r.ctx, firstAnswer)
	defer cancel()
	select {
	case <-news:
	case <-wait.Done():
	}
	if now, err := f.Tasks.Get(r.ctx, t.Owner, t.ID); err == nil {
		return now
	}
	return t
}

// followLater is follow without waiting: it returns a channel that is closed once there are news; nil: there is nothing to wait
// for.
func (r *request) followLater(t *task.Task) <-chan struct{} {
	f := r.front
	if t.Status.State != task.Working && t.Status.State != task.Submitted {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	release, ok := f.Tasks.Claim(t.Owner, t.ID, cancel)
	if !ok {
		cancel()
		return nil // this process follows it
	}
	news := make(chan struct{})
	if t.Ref.ExecutionID == "" {
		f.giveUp(ctx, t)
		release()
		cancel()
		close(news)
		return news
	}
	caller := r.caller
	caller.Method = MethodFollow
	go func() {
		defer cancel()
		defer release()
		defer f.recovered(ctx)
		f.resume(ctx, t, caller, news)
	}()
	return news
}

// giveUp ends a task whose invocation another process began, if that process must have ended: nobody knows whether the skill
// was executed, so it is not invoked again.
func (f *Front) giveUp(ctx context.Context, t *task.Task) {
	deadline := t.Deadline
	if deadline.IsZero() { // the task was made to tell something, not for a run
		deadline = t.Status.At
	}
	if time.Since(deadline) < clockSkew {
		return
	}
	f.update(ctx, t, &run.Run{Failure: &run.Failure{
		Kind: run.Stopped, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedMaybe,
		Message: "The bridge was stopped while it invoked the skill, so it does not know whether the skill was executed.",
	}})
}

// resume follows the run of a task until it ends, or for the time for which runs are followed without a request. It closes
// news, which may be nil, once something is known about the run.
func (f *Front) resume(ctx context.Context, t *task.Task, caller run.Caller, news chan struct{}) {
	told := news == nil
	tell := func() {
		if !told {
			told = true
			close(news)
		}
	}
	defer tell()
	end := time.Now().Add(f.Options.Follow)
	if last := t.Deadline.Add(clockSkew); !t.Deadline.IsZero() && last.Before(end) {
		end = last
	}
	for f.resumeOnce(ctx, t, caller, end, tell) && time.Now().Before(end) && ctx.Err() == nil { // each lasts as long as a call may last
		caller.Method = MethodFollow // the first call is the client's
	}
}

// resumeOnce follows the run of a task until a time, for as long as a call may last. It reports whether the run goes on.
func (f *Front) resumeOnce(ctx context.Context, t *task.Task, caller run.Caller, end time.Time, tell func()) (goesOn bool) {
	caller.Arrived = time.Now()
	wait := max(0, time.Until(end))
	execution := f.Bridge.Resume(ctx, t.Ref, translate.Call{
		Caller: caller, Detached: true, Wait: &wait, Task: func() string { return t.ID },
	})
	for r := range execution.Watch() {
		if f.isNews(t, &r) {
			t = f.update(ctx, t, &r)
		}
		goesOn = r.Failure == nil && !r.State.Ended()
		tell()
	}
	return goesOn
}

// isNews reports whether a state of a resumed run is one of the task. A provider that can't be reached for the moment is none.
func (f *Front) isNews(t *task.Task, r *run.Run) bool {
	failure := r.Failure
	switch {
	case failure == nil:
		if !r.State.Ended() && !t.Deadline.IsZero() && time.Since(t.Deadline) >= clockSkew {
			r.Failure = timeIsUp(t)
		}
		return true
	case failure.Kind == run.RunFailed, failure.Lost, failure.Kind == run.AuthRequired, failure.Kind == run.PermissionDenied:
		return true
	}
	return false
}

// timeIsUp is the failure of a run that has not ended at the deadline of its task.
func timeIsUp(t *task.Task) *run.Failure {
	return &run.Failure{
		Kind: run.DeadlineExceeded, Phase: run.PhasePoll, By: run.Bridge, Executed: run.ExecutedYes, Ref: t.Ref,
		Message: "The skill had not finished when its time was up. The run may still be going on.",
	}
}

// recovered reports a panic of a goroutine.
func (f *Front) recovered(ctx context.Context) {
	if value := recover(); value != nil && f.Panicked != nil {
		f.Panicked(ctx, value, debug.Stack())
	}
}
