package clients

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// versions are the versions of A2A that a2a-go speaks.
var versions = []a2a.ProtocolVersion{a2a.Version, a2av0.Version}

// resolve reads the card below a path of the agent.
func (a *agent) resolve(t *testing.T, version a2a.ProtocolVersion, path string) *a2a.AgentCard {
	t.Helper()
	resolver := agentcard.NewResolver(&http.Client{Transport: withAccount{}})
	if version == a2av0.Version {
		resolver.CardParser = a2av0.NewAgentCardParser()
	}
	card, err := resolver.Resolve(t.Context(), a.origin+path, agentcard.WithRequestHeader(a2a.SvcParamVersion, string(version)))
	if err != nil {
		t.Fatal(err)
	}
	return card
}

// client is a client of a2a-go that speaks one version.
type client struct {
	*a2aclient.Client
	version a2a.ProtocolVersion
}

// client returns a client that speaks only this version, from the card below a path.
func (a *agent) client(t *testing.T, version a2a.ProtocolVersion, path string) *client {
	t.Helper()
	account := &http.Client{Transport: withAccount{}, Timeout: time.Minute}
	transport := a2aclient.WithJSONRPCTransport(account)
	if version == a2av0.Version {
		transport = a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{Client: account})
	}
	made, err := a2aclient.NewFromCard(t.Context(), a.resolve(t, version, path), a2aclient.WithDefaultsDisabled(), transport)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Destroy() }) // it closes idle connections
	return &client{made, version}
}

// invoke returns a request that invokes a skill.
func invoke(skill string, inputs map[string]any) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewDataPart(map[string]any{"skill": skill, "input": inputs}))}
}

// immediately makes a request return before the run has ended.
func immediately(r *a2a.SendMessageRequest) *a2a.SendMessageRequest {
	r.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
	return r
}

// send sends a message, and fails the test unless the answer is a task in this state.
func send(t *testing.T, c *client, r *a2a.SendMessageRequest, want a2a.TaskState) *a2a.Task {
	t.Helper()
	result, err := c.SendMessage(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	task, ok := result.(*a2a.Task)
	if !ok || task.Status.State != want {
		t.Fatalf("%T %+v, want a task in %s", result, result, want)
	}
	return task
}

// call returns what the output of a task says of its call.
func call(t *a2a.Task) any {
	if len(t.Artifacts) != 1 || len(t.Artifacts[0].Parts) != 1 {
		return nil
	}
	output, _ := t.Artifacts[0].Parts[0].Data().(map[string]any)
	return output["call"]
}

// describe returns an event in one word.
func describe(event a2a.Event) string {
	switch e := event.(type) {
	case *a2a.Task:
		return "task " + strings.TrimPrefix(string(e.Status.State), "TASK_STATE_")
	case *a2a.TaskStatusUpdateEvent:
		return strings.TrimPrefix(string(e.Status.State), "TASK_STATE_")
	case *a2a.TaskArtifactUpdateEvent:
		return "artifact"
	default:
		return "message"
	}
}

// read reads events until the stream ends, or until one that is described like that.
func read(t *testing.T, events iter.Seq2[a2a.Event, error], until string) (words []string, task a2a.TaskID) {
	t.Helper()
	for event, err := range events {
		if err != nil {
			t.Fatalf("after %q: %v", words, err)
		}
		task = event.TaskInfo().TaskID
		if words = append(words, describe(event)); words[len(words)-1] == until {
			break
		}
	}
	return words, task
}

// isError reports whether an error of a client of this version is that of A2A. For 0.3, a2a-go v2.4.0 expects
// error.data as 1.0 has it, an array, and does not decode the error otherwise; [TestErrorsOf03] tests these
// errors with the client of a2a-go v0.3.15, which expects an object.
func isError(version a2a.ProtocolVersion, err, want error) bool {
	if version == a2av0.Version && err != nil && strings.Contains(err.Error(), "Error.error.data of type []*errordetails.Typed") {
		return true
	}
	return errors.Is(err, want)
}

func TestSend(t *testing.T) {
	for _, version := range versions {
		t.Run(string(version), func(t *testing.T) {
			a := startAgent(t, "")
			c := a.client(t, version, "")
			task := send(t, c, invoke("acme.echo", map[string]any{"call": "one"}), a2a.TaskStateCompleted)
			got, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task.ID})
			if err != nil || call(task) != "one" || call(got) != "one" || got.ContextID != task.ContextID || len(got.History) != 1 {
				t.Errorf("sent: %+v, got: %+v: %v", task, got, err)
			}
			none := 0
			if got, err = c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task.ID, HistoryLength: &none}); err != nil || len(got.History) != 0 {
				t.Errorf("without history: %+v: %v", got, err)
			}
			failed := send(t, c, invoke("acme.fails", nil), a2a.TaskStateFailed)
			if failed.Status.Message == nil || !strings.Contains(failed.Status.Message.Parts[0].Text(), "It is broken.") {
				t.Errorf("failed: %+v", failed.Status.Message)
			}
			result, err := c.SendMessage(t.Context(), invoke("acme.reply", map[string]any{"call": "two"}))
			if message, ok := result.(*a2a.Message); err != nil || !ok || message.Role != a2a.MessageRoleAgent {
				t.Errorf("a reply: %T %+v: %v", result, result, err)
			}
		})
	}
}

func TestReturnImmediately(t *testing.T) {
	for _, version := range versions {
		t.Run(string(version), func(t *testing.T) {
			a := startAgent(t, "")
			c := a.client(t, version, "")
			result, err := c.SendMessage(t.Context(), immediately(invoke("acme.later", map[string]any{"call": "one"})))
			task, ok := result.(*a2a.Task)
			if err != nil || !ok || task.Status.State.Terminal() {
				t.Fatalf("%+v: %v", result, err)
			}
			a.gate.Open()
			testbed.Eventually(t, time.Minute, func() bool {
				got, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task.ID})
				return err == nil && got.Status.State == a2a.TaskStateCompleted && call(got) == "one"
			}, "the task is completed")
		})
	}
}

func TestStream(t *testing.T) {
	for _, version := range versions {
		t.Run(string(version), func(t *testing.T) {
			a := startAgent(t, "")
			c := a.client(t, version, "")
			words, _ := read(t, c.SendStreamingMessage(t.Context(), invoke("acme.echo", map[string]any{"call": "one"})), "")
			if want := []string{"task SUBMITTED", "WORKING", "artifact", "COMPLETED"}; !slices.Equal(words, want) {
				t.Errorf("%q, want %q", words, want)
			}
		})
	}
}

// TestSubscribe: a client whose stream broke subscribes to the task, and the skill is invoked once.
func TestSubscribe(t *testing.T) {
	for _, version := range versions {
		t.Run(string(version), func(t *testing.T) {
			a := startAgent(t, "")
			c := a.client(t, version, "")
			ctx, breakOff := context.WithCancel(t.Context())
			words, id := read(t, c.SendStreamingMessage(ctx, invoke("acme.later", map[string]any{"call": "one"})), "WORKING")
			breakOff()
			if want := []string{"task SUBMITTED", "WORKING"}; !slices.Equal(words, want) {
				t.Fatalf("%q, want %q", words, want)
			}
			next, stop := iter.Pull2(c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: id}))
			defer stop()
			words = nil
			for event, err, ok := next(); ok; event, err, ok = next() {
				if err != nil {
					t.Fatalf("after %q: %v", words, err)
				}
				words = append(words, describe(event))
				a.gate.Open() // the client is subscribed
			}
			if want := []string{"task WORKING", "artifact", "COMPLETED"}; !slices.Equal(words, want) {
				t.Errorf("%q, want %q", words, want)
			}
			if n := len(a.invocations("acme/later")); n != 1 {
				t.Errorf("the skill was invoked %d times", n)
			}
			for _, err := range c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: id}) {
				if err == nil {
					t.Error("a subscription to an ended task has events")
				}
			}
		})
	}
}

func TestList(t *testing.T) {
	a := startAgent(t, "")
	c := a.client(t, a2a.Version, "")
	var sent []a2a.TaskID
	for range 3 {
		sent = append(sent, send(t, c, invoke("acme.echo", nil), a2a.TaskStateCompleted).ID)
	}
	slices.Reverse(sent)
	var listed []a2a.TaskID
	for request := new(a2a.ListTasksRequest{PageSize: 2, Status: a2a.TaskStateCompleted}); ; {
		page, err := c.ListTasks(t.Context(), request)
		if err != nil || page.TotalSize != 3 || page.PageSize != 2 {
			t.Fatalf("%+v: %v", page, err)
		}
		for _, task := range page.Tasks {
			if listed = append(listed, task.ID); len(task.Artifacts) > 0 {
				t.Errorf("artifacts without a request for them: %+v", task)
			}
		}
		if request.PageToken = page.NextPageToken; request.PageToken == "" {
			break
		}
	}
	if !slices.Equal(listed, sent) {
		t.Errorf("%q, want %q", listed, sent)
	}
	page, err := c.ListTasks(t.Context(), &a2a.ListTasksRequest{IncludeArtifacts: true, PageSize: 1})
	if err != nil || len(page.Tasks) != 1 || len(page.Tasks[0].Artifacts) != 1 {
		t.Errorf("with artifacts: %+v: %v", page, err)
	}
	if _, err := c.ListTasks(t.Context(), &a2a.ListTasksRequest{PageSize: 101}); !errors.Is(err, a2a.ErrInvalidParams) {
		t.Errorf("a page of 101: %v", err)
	}
}

func TestCancel(t *testing.T) {
	for _, version := range versions {
		t.Run(string(version), func(t *testing.T) {
			a := startAgent(t, "")
			c := a.client(t, version, "")
			asking := send(t, c, invoke("acme.ask", nil), a2a.TaskStateInputRequired)
			canceled, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: asking.ID})
			if err != nil || canceled.Status.State != a2a.TaskStateCanceled {
				t.Errorf("a task that asks: %+v: %v", canceled, err)
			}
			_, id := read(t, c.SendStreamingMessage(t.Context(), invoke("acme.later", nil)), "WORKING")
			if _, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: id}); !isError(c.version, err, a2a.ErrTaskNotCancelable) {
				t.Errorf("an accepted run: %v", err)
			}
		})
	}
}

// TestDialogue: a client that only sends text selects a skill and gives its inputs, one after the other.
func TestDialogue(t *testing.T) {
	for _, version := range versions {
		t.Run(string(version), func(t *testing.T) {
			a := startAgent(t, "")
			c := a.client(t, version, "")
			task := send(t, c, &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("Hello!"))}, a2a.TaskStateInputRequired)
			if task.Status.Message == nil || !strings.Contains(task.Status.Message.Parts[0].Text(), "acme.ask") {
				t.Fatalf("it asks %+v", task.Status.Message)
			}
			for _, step := range []struct {
				text  string
				state a2a.TaskState
			}{
				{"acme.ask", a2a.TaskStateInputRequired},
				{"hip", a2a.TaskStateInputRequired},
				{"many", a2a.TaskStateInputRequired},
				{"3", a2a.TaskStateCompleted},
			} {
				task = send(t, c, &a2a.SendMessageRequest{Message: a2a.NewMessageForTask(a2a.MessageRoleUser, task, a2a.NewTextPart(step.text))}, step.state)
			}
			if sent := a.invocations("acme/ask"); len(sent) != 1 || !strings.Contains(sent[0], `"text":"hip"`) || !strings.Contains(sent[0], `"count":3`) {
				t.Errorf("the provider got %q", sent)
			}
			got, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task.ID})
			if err != nil || len(got.History) != 9 {
				t.Errorf("%d messages in the history, want 5 of the user and 4 of the agent: %v", len(got.History), err)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for _, version := range versions {
		t.Run(string(version), func(t *testing.T) {
			a := startAgent(t, "")
			c := a.client(t, version, "")
			const unknown = "01a20712-b61f-735b-bbde-fe94ff813b8e"
			ended := send(t, c, invoke("acme.echo", nil), a2a.TaskStateCompleted)
			for name, test := range map[string]struct {
				call func() error
				want error
			}{
				"unknown task": {func() error {
					_, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: unknown})
					return err
				}, a2a.ErrTaskNotFound},
				"unknown skill": {func() error {
					_, err := c.SendMessage(t.Context(), invoke("acme.eccho", nil))
					return err
				}, a2a.ErrInvalidParams},
				"wrong input": {func() error {
					_, err := c.SendMessage(t.Context(), invoke("acme.ask", map[string]any{"count": "three"}))
					return err
				}, a2a.ErrInvalidParams},
				"message to an ended task": {func() error {
					_, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: a2a.NewMessageForTask(a2a.MessageRoleUser, ended, a2a.NewTextPart("more"))})
					return err
				}, a2a.ErrUnsupportedOperation},
				"webhooks are off": {func() error {
					_, err := c.CreateTaskPushConfig(t.Context(), &a2a.PushConfig{TaskID: ended.ID, URL: "https://example.com/"})
					return err
				}, a2a.ErrPushNotificationNotSupported},
			} {
				if err := test.call(); !isError(c.version, err, test.want) {
					t.Errorf("%s: %v, want %v", name, err, test.want)
				}
			}
			for _, err := range c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: unknown}) {
				if err == nil {
					t.Error("a subscription to an unknown task has events")
				}
			}
		})
	}
}

func TestCards(t *testing.T) {
	for _, version := range versions {
		t.Run(string(version), func(t *testing.T) {
			pemFile, _ := newKey(t)
			a := startAgent(t, "", "url http://127.0.0.1:{$PORT}/a2a", "sign "+pemFile, "extended_card")
			for path, want := range map[string]int{"": 5, "/a2a": 5, "/a2a/acme.echo": 1} {
				card := a.resolve(t, version, path)
				if len(card.Skills) != want || !card.Capabilities.Streaming || card.Capabilities.PushNotifications || len(card.SupportedInterfaces) == 0 {
					t.Errorf("the card at %q: %+v", path, card)
				}
				if isSigned := len(card.Signatures) > 0; isSigned != (version == a2a.Version) {
					t.Errorf("the card at %q is signed: %v", path, isSigned)
				}
				task := send(t, a.client(t, version, path), invoke("acme.echo", map[string]any{"call": "one"}), a2a.TaskStateCompleted)
				if call(task) != "one" {
					t.Errorf("the agent at %q: %+v", path, task)
				}
			}
			extended, err := a.client(t, version, "").GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{})
			if err != nil || len(extended.Skills) != 5 {
				t.Errorf("the extended card: %+v: %v", extended, err)
			}
		})
	}
}

// TestDefaults: an anonymous client with the SDK's defaults speaks 1.0, from the combined card.
func TestDefaults(t *testing.T) {
	a := startAgent(t, "")
	card, err := agentcard.DefaultResolver.Resolve(t.Context(), a.origin)
	if err != nil {
		t.Fatal(err)
	}
	made, err := a2aclient.NewFromCard(t.Context(), card)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Destroy() }) // it closes idle connections
	c := &client{made, a2a.Version}
	if task := send(t, c, invoke("acme.echo", map[string]any{"call": "one"}), a2a.TaskStateCompleted); call(task) != "one" {
		t.Errorf("%+v", task)
	}
	if page, err := c.ListTasks(t.Context(), &a2a.ListTasksRequest{}); err != nil || len(page.Tasks) != 0 {
		t.Errorf("an anonymous caller lists %+v: %v", page, err)
	}
}
