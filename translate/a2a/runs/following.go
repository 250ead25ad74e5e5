package runs

import (
	"context"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/message"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// following follows the run of a task that was accepted before: by a call that ended before the run, or by another process.
type following struct {
	runs   *Runs
	task   *task.Task
	caller run.Caller
	// skew is how much later than the deadline of the task its time is up, because the deadline may be of another clock.
	skew time.Duration
	// tell is called as soon as something is known about the run. May be nil.
	tell func()
}

// run follows the run until it ends or its time is up. Without a webhook that waits for the end, it leaves earlier, after the time
// for which runs are followed without a request.
//
// If the state can't be read for the moment, it leaves, too. The Retries try again, and so does each request about the task. So the
// task ends when its time is up, with a failure that says why the state can't be read.
//
// A run that is followed takes about 42 KB and one poll each few seconds, for at most the maximum timeout. There are
// no more than the tasks that may be open, in all and of one owner.
func (w *following) run(ctx context.Context) {
	begun := time.Now()
	for {
		goesOn := w.once(ctx, w.end(begun))
		if now, err := w.runs.Tasks.Get(ctx, w.task.Owner, w.task.ID); err == nil {
			w.task = now // a client may have set a webhook
		}
		switch {
		case !IsOpen(w.task), ctx.Err() != nil, !time.Now().Before(w.end(begun)):
			return
		case !goesOn:
			w.runs.Retries.Later(w.runs.Tasks, w.task, w.skew)
			return
		}
		w.caller.Method = MethodFollow // only the first call has the method of the client
	}
}

// end returns the time until which the run is followed. since is when this process began to follow it.
func (w *following) end(begun time.Time) time.Time {
	end := begun.Add(w.runs.Follow)
	if w.task.Deadline.IsZero() {
		return end
	}
	if last := w.task.Deadline.Add(w.skew); last.Before(end) || w.runs.IsAwaited(w.task) {
		return last
	}
	return end
}

// once follows the run until a time, for as long as a call may last. It reports whether the run goes on.
func (w *following) once(ctx context.Context, end time.Time) (goesOn bool) {
	w.caller.Arrived = time.Now()
	wait, id := max(0, time.Until(end)), w.task.ID
	execution := w.runs.Resume(ctx, w.task.Ref, translate.Call{
		Caller: w.caller, Detached: true, Wait: &wait, Task: func() string { return id }, Answer: w.runs.Server.Room(w.caller.Principal),
	})
	for r := range execution.Watch() {
		goesOn = r.Failure == nil && !r.State.Ended()
		if w.isNews(&r) {
			w.task = w.runs.Update(ctx, w.task, &r)
		}
		if w.tell != nil {
			w.tell()
		}
	}
	return goesOn
}

// isNews reports whether a state of the run is one of its task. That the state can't be read for the moment is none, until the time
// of the task is up.
func (w *following) isNews(r *run.Run) bool {
	t := w.task
	isLate := !t.Deadline.IsZero() && time.Since(t.Deadline) >= w.skew
	if r.Failure == nil {
		if !r.State.Ended() && isLate {
			r.Failure = message.TimeIsUp(t, nil)
		}
		return true
	}
	switch failure := r.Failure; {
	case failure.Kind == run.RunFailed, failure.Lost, failure.Kind == run.AuthRequired, failure.Kind == run.PermissionDenied:
		return true
	case failure.Kind == run.Stopped, failure.Kind == run.CallerGone, failure.Kind == run.CallerCanceled, !isLate:
		return false
	default:
		r.Failure = message.TimeIsUp(t, failure)
		return true
	}
}
