package clients

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
	"github.com/a2aproject/a2a-go/a2aclient/agentcard"
)

// legacy returns a client of a2a-go v0.3.15, which only speaks A2A 0.3, from the combined card.
func (a *agent) legacy(t *testing.T) *a2aclient.Client {
	t.Helper()
	account := &http.Client{Transport: withAccount{}, Timeout: time.Minute}
	card, err := agentcard.NewResolver(account).Resolve(t.Context(), a.origin)
	if err != nil {
		t.Fatal(err)
	}
	made, err := a2aclient.NewFromCard(t.Context(), card, a2aclient.WithDefaultsDisabled(), a2aclient.WithJSONRPCTransport(account))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Destroy() }) // it closes idle connections
	return made
}

// invoke03 returns params of 0.3 that invoke a skill.
func invoke03(skill string, inputs map[string]any) *a2a.MessageSendParams {
	return &a2a.MessageSendParams{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.DataPart{Data: map[string]any{"skill": skill, "input": inputs}})}
}

func TestErrorsOf03(t *testing.T) {
	a := startAgent(t, "")
	c := a.legacy(t)
	const unknown = "01a20712-b61f-735b-bbde-fe94ff813b8e"
	result, err := c.SendMessage(t.Context(), invoke03("acme.echo", nil))
	ended, ok := result.(*a2a.Task)
	if err != nil || !ok || ended.Status.State != a2a.TaskStateCompleted {
		t.Fatalf("%+v: %v", result, err)
	}
	result, err = c.SendMessage(t.Context(), invoke03("acme.ask", nil))
	asking, ok := result.(*a2a.Task)
	if err != nil || !ok || asking.Status.State != a2a.TaskStateInputRequired {
		t.Fatalf("%+v: %v", result, err)
	}
	for name, test := range map[string]struct {
		call func() error
		want error
	}{
		"unknown task": {func() error {
			_, err := c.GetTask(t.Context(), &a2a.TaskQueryParams{ID: unknown})
			return err
		}, a2a.ErrTaskNotFound},
		"unknown skill": {func() error {
			_, err := c.SendMessage(t.Context(), invoke03("acme.eccho", nil))
			return err
		}, a2a.ErrInvalidParams},
		"message to an ended task": {func() error {
			_, err := c.SendMessage(t.Context(), &a2a.MessageSendParams{Message: a2a.NewMessageForTask(a2a.MessageRoleUser, ended, a2a.TextPart{Text: "more"})})
			return err
		}, a2a.ErrUnsupportedOperation},
		"webhooks are off": {func() error {
			_, err := c.SetTaskPushConfig(t.Context(), &a2a.TaskPushConfig{TaskID: asking.ID, Config: a2a.PushConfig{URL: "https://example.com/"}})
			return err
		}, a2a.ErrPushNotificationNotSupported},
		"stream of an unknown task": {func() error {
			for _, err := range c.ResubscribeToTask(t.Context(), &a2a.TaskIDParams{ID: unknown}) {
				return err
			}
			return errors.New("no event")
		}, a2a.ErrTaskNotFound},
		"stream of an unknown skill": {func() error {
			for _, err := range c.SendStreamingMessage(t.Context(), invoke03("acme.eccho", nil)) {
				return err
			}
			return errors.New("no event")
		}, a2a.ErrInvalidParams},
	} {
		if err := test.call(); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

func TestStreamOf03(t *testing.T) {
	a := startAgent(t, "")
	var states []a2a.TaskState
	artifacts, isFinal := 0, false
	for event, err := range a.legacy(t).SendStreamingMessage(t.Context(), invoke03("acme.echo", map[string]any{"call": "one"})) {
		switch e := event.(type) {
		case *a2a.Task:
			states = append(states, e.Status.State)
		case *a2a.TaskStatusUpdateEvent:
			states, isFinal = append(states, e.Status.State), e.Final
		case *a2a.TaskArtifactUpdateEvent:
			artifacts++
		default:
			t.Fatalf("%T: %v", event, err)
		}
	}
	if len(states) != 3 || states[2] != a2a.TaskStateCompleted || artifacts != 1 || !isFinal {
		t.Errorf("the states %q, %d artifacts, final: %v", states, artifacts, isFinal)
	}
}
