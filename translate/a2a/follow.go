package a2a

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/message"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// firstAnswer bounds how long a request about a task waits for the first state of a run that was not followed.
	firstAnswer = 2 * time.Second
	// firstRefresh is the time until a waiting request reads its task again. It doubles each time, up to keepAlive.
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

// refresh reads the task of a waiting request again, and follows its run unless this process already does: another process may
// have changed the task, or may have ended.
func (r *request) refresh(t *task.Task) {
	f := r.front
	if now, err := f.Tasks.Get(r.ctx, t.Owner, t.ID); err == nil {
		r.followLater(now)
	}
}

// repeat calls a function at growing intervals until a context ends.
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

// follow makes sure that the run of a task is followed, and returns the current task. The run may not be followed any more, since the
// process that began it has ended, or since the time of following without a request is over.
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

// followLater is follow without waiting. The channel is closed when the state of the run is known; nil: there is nothing to wait for.
func (r *request) followLater(t *task.Task) <-chan struct{} {
	f := r.front
	if !isOpen(t) {
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.ctx))
	release, ok := f.Tasks.Claim(t.Owner, t.ID, func() { cancel(run.ErrCallerCanceled) })
	if !ok {
		cancel(nil)
		return nil // this process follows it
	}
	news := make(chan struct{})
	if t.Ref.ExecutionID == "" {
		_, _ = f.Tasks.Change(ctx, t.Owner, t.ID, f.loses) // a failure is reported
		release()
		cancel(nil)
		close(news)
		return news
	}
	skew := task.ClockSkew
	if last, ok := f.Retries.Take(t); ok {
		skew = last
	}
	w := following{front: f, task: t, caller: r.caller, skew: skew, tell: sync.OnceFunc(func() { close(news) })}
	w.caller.Method = MethodFollow
	go func() {
		defer cancel(nil)
		defer w.tell()
		defer release()
		defer f.recovered(ctx)
		w.run(ctx)
	}()
	return news
}

// loses ends a task whose invocation another process began, if that process must have ended. The skill is not invoked again, since it may
// have been executed.
func (f *Front) loses(t *task.Task) error {
	if at := t.LostAt(); at.IsZero() || time.Now().Before(at) {
		return errors.New("the invocation may go on")
	}
	f.advance(t, &run.Run{Failure: &run.Failure{
		Kind: run.Stopped, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedMaybe,
		Message: "The bridge was stopped while it invoked the skill, so it does not know whether the skill was executed.",
	}})
	return nil
}

// following follows the run of a task that was accepted before: by a call that ended before the run, or by another process.
type following struct {
	front  *Front
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
		if now, err := w.front.Tasks.Get(ctx, w.task.Owner, w.task.ID); err == nil {
			w.task = now // a client may have set a webhook
		}
		switch {
		case !isOpen(w.task), ctx.Err() != nil, !time.Now().Before(w.end(begun)):
			return
		case !goesOn:
			w.front.Retries.Later(w.front.Tasks, w.task, w.skew)
			return
		}
		w.caller.Method = MethodFollow // only the first call has the method of the client
	}
}

// end returns the time until which the run is followed. since is when this process began to follow it.
func (w *following) end(begun time.Time) time.Time {
	end := begun.Add(w.front.Options.Follow)
	if w.task.Deadline.IsZero() {
		return end
	}
	if last := w.task.Deadline.Add(w.skew); last.Before(end) || w.front.isAwaited(w.task) {
		return last
	}
	return end
}

// once follows the run until a time, for as long as a call may last. It reports whether the run goes on.
func (w *following) once(ctx context.Context, end time.Time) (goesOn bool) {
	w.caller.Arrived = time.Now()
	wait, id := max(0, time.Until(end)), w.task.ID
	execution := w.front.Bridge.Resume(ctx, w.task.Ref, translate.Call{
		Caller: w.caller, Detached: true, Wait: &wait, Task: func() string { return id }, Answer: w.front.Server.Room(w.caller.Principal),
	})
	for r := range execution.Watch() {
		goesOn = r.Failure == nil && !r.State.Ended()
		if w.isNews(&r) {
			w.task = w.front.update(ctx, w.task, &r)
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
	case failure.Kind == run.Stopped, failure.Kind == run.ClientGone, failure.Kind == run.CallerCanceled, !isLate:
		return false
	default:
		r.Failure = message.TimeIsUp(t, failure)
		return true
	}
}

// follow follows the run of the task as a call of its own.
func (s *submission) follow(ctx context.Context, t *task.Task, method string, skew time.Duration) {
	w := following{front: s.front, task: t, caller: s.request.caller, skew: skew}
	w.caller.Method = method
	w.run(ctx)
}

// resume follows the run of a task that waited for a credential.
func (s *submission) resume(ctx context.Context) {
	err := s.make(ctx, func(t *task.Task) { t.SetStatus(task.Working, nil, time.Now()) })
	if err != nil {
		s.fault = s.request.failureError(notKept(err))
		return
	}
	s.invoked = true
	s.done()
	s.follow(ctx, s.task, s.request.caller.Method, task.ClockSkew)
}

// isAwaited reports whether a webhook waits for the events of a task.
func (f *Front) isAwaited(t *task.Task) bool {
	return f.Push != nil && slices.ContainsFunc(t.Push, func(p task.PushConfig) bool { return p.Lost < task.MaxLost })
}

// isOpen reports whether a task has a run that may go on.
func isOpen(t *task.Task) bool {
	return t.Status.State == task.Working || t.Status.State == task.Submitted
}

// isOutage reports whether a failure of a run that was accepted says only that its provider can't be reached for the moment.
func isOutage(r *run.Run) bool {
	f := r.Failure
	return f != nil && r.State != 0 && r.ExecutionID != "" && f.Executed == run.ExecutedYes && !f.Lost && !f.Permanent() &&
		f.Kind != run.Stopped && f.Kind != run.ClientGone && f.Kind != run.CallerCanceled
}

// recovered reports a panic of a goroutine.
func (f *Front) recovered(ctx context.Context) {
	if value := recover(); value != nil && f.Panicked != nil {
		f.Panicked(ctx, value, debug.Stack())
	}
}
