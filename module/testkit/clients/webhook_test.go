package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// webhook takes events at /hook/<name>. /events/<name> answers with them when the task has ended.
type webhook struct {
	server *httptest.Server
	mux    *http.ServeMux

	mu  sync.Mutex
	got map[string][]event // by name
}

// event is one request of the bridge.
type event struct{ token, authorization, contentType, body string }

func newWebhook(t *testing.T) *webhook {
	t.Helper()
	h := &webhook{mux: http.NewServeMux(), got: map[string][]event{}}
	h.server = httptest.NewServer(h.mux)
	t.Cleanup(h.server.Close)
	h.handle("/hook/{name}", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a part fails the test
		h.mu.Lock()
		defer h.mu.Unlock()
		name := r.PathValue("name")
		h.got[name] = append(h.got[name], event{r.Header.Get("X-A2A-Notification-Token"), r.Header.Get("Authorization"), r.Header.Get("Content-Type"), string(body)})
	})
	h.handle("/events/{name}", func(w http.ResponseWriter, r *http.Request) {
		for _, e := range h.await(t, r.PathValue("name")) {
			_, _ = fmt.Fprintln(w, e.token, e.body) // the program may be gone
		}
	})
	return h
}

func (h *webhook) handle(pattern string, handler http.HandlerFunc) {
	h.mux.HandleFunc(pattern, handler)
}

// options are the Caddyfile's options that let the bridge call the webhook.
func (h *webhook) options() string {
	u, _ := url.Parse(h.server.URL) // it is valid
	return "webhooks {\n\t\tallow_http\n\t\tallow_networks 127.0.0.0/8\n\t\tallow_ports " + u.Port() + "\n\t}"
}

// await returns the events of a name when one has told that the task is completed.
func (h *webhook) await(t *testing.T, name string) (events []event) {
	t.Helper()
	testbed.Eventually(t, time.Minute, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		events = h.got[name]
		return len(events) > 0 && strings.Contains(strings.ToLower(events[len(events)-1].body), "completed")
	}, "the webhook gets the end of the task")
	return events
}

func TestPush(t *testing.T) {
	for _, version := range versions {
		t.Run(string(version), func(t *testing.T) {
			hook := newWebhook(t)
			a := startAgent(t, hook.options())
			c := a.client(t, version, "")
			task := send(t, c, invoke("acme.ask", nil), a2a.TaskStateInputRequired)
			config := &a2a.PushConfig{
				TaskID: task.ID, ID: "mine", URL: hook.server.URL + "/hook/x", Token: "tok-en", Auth: &a2a.PushAuthInfo{Scheme: "Bearer", Credentials: "cre-dentials"},
			}
			created, err := c.CreateTaskPushConfig(t.Context(), config)
			if err != nil || created.ID != "mine" || created.TaskID != task.ID || created.URL != config.URL {
				t.Fatalf("%+v: %v", created, err)
			}
			got, err := c.GetTaskPushConfig(t.Context(), &a2a.GetTaskPushConfigRequest{TaskID: task.ID, ID: "mine"})
			if err != nil || got.URL != config.URL || got.Auth != nil && got.Auth.Credentials != "" {
				t.Errorf("%+v: %v", got, err)
			}
			listed, err := c.ListTaskPushConfigs(t.Context(), &a2a.ListTaskPushConfigRequest{TaskID: task.ID})
			if err != nil || len(listed) != 1 || listed[0].ID != "mine" {
				t.Errorf("%+v: %v", listed, err)
			}
			inputs := a2a.NewDataPart(map[string]any{"text": "hip", "count": 3})
			send(t, c, &a2a.SendMessageRequest{Message: a2a.NewMessageForTask(a2a.MessageRoleUser, task, inputs)}, a2a.TaskStateCompleted)
			for _, e := range hook.await(t, "x") {
				if e.token != "tok-en" || e.authorization != "Bearer cre-dentials" {
					t.Errorf("the header of an event: %+v", e)
				}
				var response a2a.StreamResponse
				if err := json.Unmarshal([]byte(e.body), &response); version == a2a.Version && (err != nil || response.TaskInfo().TaskID != task.ID) {
					t.Errorf("%s: %v", e.body, err)
				}
			}
			if err := c.DeleteTaskPushConfig(t.Context(), &a2a.DeleteTaskPushConfigRequest{TaskID: task.ID, ID: "mine"}); err != nil {
				t.Error(err)
			}
			if listed, err := c.ListTaskPushConfigs(t.Context(), &a2a.ListTaskPushConfigRequest{TaskID: task.ID}); err != nil || len(listed) != 0 {
				t.Errorf("after its deletion: %+v: %v", listed, err)
			}
		})
	}
}
