package faults_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R72: what a client does with a task through another instance than the one that follows its run is kept: a message, a webhook, and
// a cancellation, which also ends the streams at the follower.
func TestR72ChangesThroughAnotherInstance(t *testing.T) {
	t.Parallel()
	p, gate := later(t)
	h := newWebhook(t)
	h.start()
	folder := t.TempDir()
	config := withWebhooks(withAgents(p, "cancel abandon"))
	first := testbed.StartProcess(t, testbed.Limits{}, config, storage(folder))
	second := testbed.StartProcess(t, testbed.Limits{}, config, storage(folder))
	follower, other := agentOf(first.Client, "ann"), agentOf(second.Client, "ann")
	begin := func() (testbed.Answer, hostile.Object) {
		a := follower.Invoke("acme.later", true)
		id := a.Task().ID
		testbed.Eventually(t, patience, func() bool { return follower.GetTask(id).Task().State() == "WORKING" }, "the run was accepted")
		return a, hostile.Object{"id": id}
	}
	kept, id := begin()
	canceled, canceledID := begin()
	if a := other.Call("SendMessage", hostile.Object{
		"message":       hostile.Object{"messageId": "through-the-other", "taskId": id["id"], "role": "ROLE_USER", "parts": []hostile.Object{{"text": "hurry"}}},
		"configuration": hostile.Object{"returnImmediately": true},
	}); a.Task().State() != "WORKING" {
		t.Fatalf("a message through the other instance: %s", a)
	}
	if a := other.Call("CreateTaskPushNotificationConfig", hostile.Object{"taskId": id["id"], "id": "hook", "url": h.URL}); a.Code != 0 {
		t.Fatalf("a webhook through the other instance: %s", a)
	}
	stream := follower.Stream("SubscribeToTask", canceledID)
	if e, _ := stream.Next(patience); e.String() != "task WORKING" {
		t.Errorf("the first event is %s", e)
	}
	if a := other.Call("CancelTask", canceledID); a.Task().State() != "CANCELED" {
		t.Errorf("a cancellation through the other instance: %s", a)
	}
	if events := stream.Rest(patience); !slices.Equal(events, []string{"CANCELED"}) {
		t.Errorf("events at the follower: %q", events)
	}
	gate.Open()
	testbed.Eventually(t, patience, func() bool { states, _ := h.taken(); return slices.Contains(states, "COMPLETED") }, "the webhook gets the end")
	for name, ann := range map[string]*testbed.Client{"the follower": follower, "the other": other} {
		testbed.Eventually(t, patience, func() bool { return ann.Call("GetTask", id).Task().State() == "COMPLETED" }, "the run has ended")
		if a := ann.Call("GetTask", id); !strings.Contains(string(a.Body), `"messageId":"through-the-other"`) || len(a.Task().Artifacts) != 1 {
			t.Errorf("at %s: %s", name, a)
		}
		if a := ann.Call("ListTaskPushNotificationConfigs", hostile.Object{"taskId": id["id"]}); !strings.Contains(string(a.Body), `"id":"hook"`) {
			t.Errorf("webhooks at %s: %s", name, a)
		}
		if a := ann.Call("GetTask", canceledID); a.Task().State() != "CANCELED" {
			t.Errorf("the canceled task at %s: %s", name, a)
		}
	}
	checkOnce(t, p, kept)
	checkOnce(t, p, canceled)
	checkNoPanic(t, first.Log)
	checkNoPanic(t, second.Log)
}
