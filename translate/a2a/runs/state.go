package runs

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/message"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// ErrEnded means that a task can't be changed any more.
var ErrEnded = errors.New("the task has ended")

// stateOf is the state of a task whose call failed.
var stateOf = map[run.Kind]task.State{
	run.AuthRequired:        task.AuthRequired,
	run.PermissionDenied:    task.Rejected,
	run.InvalidDocument:     task.Rejected,
	run.NotSupported:        task.Rejected,
	run.VersionIncompatible: task.Rejected,
	run.SkillNotFound:       task.Rejected,
	// The state for all other kinds is Failed.
}

// Change changes a task, unless another instance or a cancellation has ended it, and returns the task.
func (r *Runs) Change(ctx context.Context, t *task.Task, change func(*task.Task)) (*task.Task, error) {
	changed, err := r.Tasks.Change(ctx, t.Owner, t.ID, func(t *task.Task) error {
		if t.Status.State.Terminal() {
			return ErrEnded
		}
		change(t)
		return nil
	})
	switch {
	case errors.Is(err, ErrEnded):
		return t, nil
	case err != nil:
		return t, err
	}
	return changed, nil
}

// Update gives a task the state of its run, and returns the task. It ignores that the task may have been removed.
func (r *Runs) Update(ctx context.Context, t *task.Task, now *run.Run) *task.Task {
	if GoesOn(now) && t.Status.State == task.Working {
		return t // nothing has changed, and each change would be stored
	}
	t, _ = r.Change(ctx, t, func(t *task.Task) { r.Advance(t, now) })
	return t
}

// GoesOn reports whether a run has neither ended nor failed.
func GoesOn(r *run.Run) bool { return r.Failure == nil && !r.State.Ended() }

// Advance gives a task that is being changed the state of its run.
func (r *Runs) Advance(t *task.Task, now *run.Run) {
	at := time.Now()
	t.Warnings = now.Warnings
	if now.State != 0 && now.ExecutionID != "" {
		t.Ref = now.Ref
		t.Inputs = nil // they are needed only until the run is accepted
		if t.Status.State != task.Working {
			t.SetStatus(task.Working, nil, at)
		}
	}
	switch {
	case now.Failure != nil && now.Failure.Kind == run.Stopped && now.State != 0:
		// The run goes on at the provider. This or another instance will follow it.
	case now.Failure != nil:
		t.SetStatus(cmp.Or(stateOf[now.Failure.Kind], task.Failed), r.Say(message.Failed(now.Failure)), at)
	case now.State == run.Completed:
		if parts := message.Output(now.Output, t.OutputType); len(parts) > 0 {
			t.SetArtifact(parts)
		}
		t.SetStatus(task.Completed, nil, at)
	}
}

// Say returns a message of the bridge.
func (r *Runs) Say(text string, data jsontext.Value) *task.Message {
	return &task.Message{ID: r.Tasks.NewID(), Role: task.Agent, Parts: []task.Part{
		{Part: front.Part{Kind: front.PartText, Text: text}},
		{Part: front.Part{Kind: front.PartData, Data: data}},
	}}
}

// IsOpen reports whether a task has a run that may go on.
func IsOpen(t *task.Task) bool {
	return t.Status.State == task.Working || t.Status.State == task.Submitted
}

// IsOutage reports whether a failure of a run that was accepted says only that its provider can't be reached for the moment.
func IsOutage(r *run.Run) bool {
	f := r.Failure
	return f != nil && r.State != 0 && r.ExecutionID != "" && f.Executed == run.ExecutedYes && !f.Lost && !f.Permanent() &&
		f.Kind != run.Stopped && f.Kind != run.CallerGone && f.Kind != run.CallerCanceled
}
