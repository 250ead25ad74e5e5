package a2a_test

import (
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Section 9: a list, too, says that a task has failed whose instance has ended while it invoked the skill, once its time is over. It does not say so of a
// task whose time is not over, whose run was accepted, or whose skill this process still invokes.
func TestListOfLostTasks(t *testing.T) {
	a := newAgent(t)
	over, soon := time.Now().Add(-task.ClockSkew-time.Minute), time.Now().Add(-task.ClockSkew+time.Minute)
	add := func(state task.State, deadline time.Time, ref run.Ref) string {
		made := &task.Task{ID: a.front.Tasks.NewID(), Owner: "ada", Skill: "acme.echo", Deadline: deadline, Ref: ref}
		made.SetStatus(state, nil, time.Now().Add(-time.Hour))
		if err := a.front.Tasks.Add(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		return made.ID
	}
	add(task.Submitted, soon, run.Ref{})
	add(task.Working, over, run.Ref{ExecutionID: "e"})
	claimed := add(task.Submitted, over, run.Ref{})
	release, _ := a.front.Tasks.Claim("ada", claimed, nil)
	defer release()
	lost, again := add(task.Submitted, over, run.Ref{}), add(task.Working, over, run.Ref{}) // again: a later message has invoked the skill
	for range 2 {
		got := a.post(t, "/a2a", request("ListTasks", `{"status":"TASK_STATE_FAILED"}`), by("ada"))
		got.check(t, "result.totalSize=2;result.tasks.0.status.message.parts.1.data.executed=maybe;result.tasks.1.status.message.parts.1.data.executed=maybe")
		if first, second := got.at("result.tasks.0.id"), got.at("result.tasks.1.id"); max(first, second) != again || min(first, second) != lost {
			t.Errorf("%s and %s have failed, not %s and %s", first, second, lost, again)
		}
		a.post(t, "/a2a", request("ListTasks", `{"status":"TASK_STATE_SUBMITTED"}`), by("ada")).check(t, "result.totalSize=2")
		a.post(t, "/a2a", request("ListTasks", `{"status":"TASK_STATE_WORKING"}`), by("ada")).check(t, "result.totalSize=1")
	}
	if got, err := a.front.Tasks.Get(t.Context(), "ada", lost); err != nil || got.Status.State != task.Failed {
		t.Errorf("%+v, %v", got, err)
	}
}
