package a2a

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

// stateOf is the state of a task whose call failed.
var stateOf = map[run.Kind]task.State{
	run.AuthRequired:        task.AuthRequired,
	run.PermissionDenied:    task.Rejected,
	run.InvalidDocument:     task.Rejected,
	run.VersionIncompatible: task.Rejected,
	run.SkillNotFound:       task.Rejected,
	// The state for all other kinds is Failed.
}

// change changes a task, unless another instance or a cancellation has ended it, and returns the task.
func (f *Front) change(ctx context.Context, t *task.Task, change func(*task.Task)) (*task.Task, error) {
	changed, err := f.Tasks.Change(ctx, t.Owner, t.ID, func(t *task.Task) error {
		if t.Status.State.Terminal() {
			return errEnded
		}
		change(t)
		return nil
	})
	switch {
	case errors.Is(err, errEnded):
		return t, nil
	case err != nil:
		return t, err
	}
	return changed, nil
}

// update gives a task the state of its run, and returns the task. It ignores that the task may have been removed.
func (f *Front) update(ctx context.Context, t *task.Task, r *run.Run) *task.Task {
	if goesOn(r) && t.Status.State == task.Working {
		return t // nothing has changed, and each change would be stored
	}
	t, _ = f.change(ctx, t, func(t *task.Task) { f.advance(t, r) })
	return t
}

// goesOn reports whether a run has neither ended nor failed.
func goesOn(r *run.Run) bool { return r.Failure == nil && !r.State.Ended() }

// advance gives a task that is being changed the state of its run.
func (f *Front) advance(t *task.Task, r *run.Run) {
	now := time.Now()
	if r.State != 0 && r.ExecutionID != "" {
		t.Ref = r.Ref
		t.Inputs = nil // they are needed only until the run is accepted
		if t.Status.State != task.Working {
			t.SetStatus(task.Working, nil, now)
		}
	}
	switch {
	case r.Failure != nil && r.Failure.Kind == run.Stopped && r.State != 0:
		// The run goes on at the provider. This or another instance will follow it.
	case r.Failure != nil:
		t.SetStatus(cmp.Or(stateOf[r.Failure.Kind], task.Failed), f.say(message.Failed(r.Failure)), now)
	case r.State == run.Completed:
		if parts := message.Output(r.Output, t.OutputType); len(parts) > 0 {
			t.SetArtifact(parts)
		}
		t.SetStatus(task.Completed, nil, now)
	}
}

// say returns a message of the bridge.
func (f *Front) say(text string, data jsontext.Value) *task.Message {
	return &task.Message{ID: f.Tasks.NewID(), Role: task.Agent, Parts: []task.Part{
		{Part: front.Part{Kind: front.PartText, Text: text}},
		{Part: front.Part{Kind: front.PartData, Data: data}},
	}}
}
