package a2a_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/internal/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// hooks is a transport to webhooks, which take all events.
type hooks struct {
	mu  sync.Mutex
	got []string
}

// RoundTrip implements [http.RoundTripper].
func (h *hooks) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.got = append(h.got, string(body))
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, err
}

// last returns the newest event.
func (h *hooks) last() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.got) == 0 {
		return ""
	}
	return h.got[len(h.got)-1]
}

// key is the only key of secrets.
type key struct{ runtoken.Key }

func (k key) Current(context.Context) (runtoken.Key, error) { return k.Key, nil }
func (k key) Find(context.Context, runtoken.KeyID) (runtoken.Key, bool, error) {
	return k.Key, true, nil
}

type taskObserver struct{ *push.Deliverer }

func (taskObserver) StoreFailed(error) {}

// withWebhooks lets clients set webhooks.
func withWebhooks(tb testing.TB, to *hooks) setup {
	tb.Helper()
	return func(a *agent) {
		d := push.New(nil)
		a.front.Tasks = tasks.New(tasks.Config{Observer: taskObserver{d}})
		d.Bind(a.front.Tasks)
		a.front.Push = &push.Webhooks{
			Deliverer: d, Client: webhook.Client{Transport: to, Judge: func(context.Context, *url.URL) error { return nil }}, Sealer: runtoken.New(key{runtoken.RestoreKey(runtoken.KeyID{1}, runtoken.Secret{2}, time.Time{})}, runtoken.Lifetime, nil),
			Owns: a.front.Owns, Continue: a.front.Continue,
		}
		a.front.Push.Begin()
		tb.Cleanup(func() {
			a.front.Push.End()
			d.Close(context.Background())
			a.front.Tasks.Close(context.Background())
		})
	}
}

// accepted adds a task whose run another process began.
func (a *agent) accepted(tb testing.TB, deadline time.Time, webhooks ...task.PushConfig) *task.Task {
	tb.Helper()
	t := &task.Task{
		ID: a.front.Tasks.NewID(), Context: "c", Skill: "acme.slow", Deadline: deadline, Push: webhooks,
		Ref: run.Ref{Source: "acme", SkillID: "acme/slow", Version: "1.2.3", ExecutionID: "x-slow"},
	}
	t.SetStatus(task.Working, nil, time.Now())
	if err := a.front.Tasks.Add(tb.Context(), t); err != nil {
		tb.Fatal(err)
	}
	return t
}

// A run with a webhook is followed until it ends, whenever the webhook was set; without one, for the time for which runs are followed.
func TestWebhookGetsTheEnd(t *testing.T) {
	for name, set := range map[string]time.Duration{"never": -1, "with the message": 0, "while it is followed": 30 * time.Second, "later": 3 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := new(hooks)
				a := newAgent(t, inBubble, func(a *agent) { a.front.Follow = time.Minute }, withWebhooks(t, to))
				end := a.Accept("slow")
				webhook, inline := `{"url":"https://example.com/hook"}`, ""
				if set == 0 {
					inline = `,"taskPushNotificationConfig":` + webhook
				}
				id := a.send10(t, text("", "x"), `"metadata":{"skill":"acme.slow"}`, `"configuration":{"returnImmediately":true`+inline+`}`).at("result.task.id")
				if set > 0 {
					time.Sleep(set)
					a.call(t, "CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"url":"https://example.com/hook"}`, id)).check(t, "200;result.id")
				}
				time.Sleep(10*time.Minute - max(0, set))
				end("ok")
				time.Sleep(time.Minute)
				if calls, _ := a.bridge.InProgress(); calls != 0 {
					t.Errorf("%d calls in progress", calls)
				}
				got := strings.Contains(to.last(), "TASK_STATE_COMPLETED")
				if want := set >= 0; got != want {
					t.Errorf("the webhook got the end: %v, want %v: %.300s", got, want, to.last())
				}
				a.Received(t, "POST /run/slow", 1)
			})
		})
	}
}

// A run with a webhook whose state can't be read is followed on, until its time is up.
func TestWebhookWhileProviderIsDown(t *testing.T) {
	for name, recovers := range map[string]bool{"it recovers": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := new(hooks)
				a := newAgent(t, inBubble, withWebhooks(t, to))
				end := a.Accept("slow")
				a.On("GET /status/x-slow", providertest.Refused(http.StatusServiceUnavailable, "INTERNAL_ERROR"))
				webhook := task.PushConfig{ID: "p", URL: "https://example.com/hook", Version: "1.0"}
				a.front.Continue(t.Context(), a.accepted(t, time.Now().Add(20*time.Minute), webhook))
				time.Sleep(10 * time.Minute)
				if recovers {
					end("ok")
				}
				time.Sleep(17 * time.Minute)
				want := map[bool]string{true: "TASK_STATE_COMPLETED", false: "TASK_STATE_FAILED"}[recovers]
				if !strings.Contains(to.last(), want) {
					t.Errorf("%.300s, want %s", to.last(), want)
				}
				if n := len(a.Requests("GET /status/x-slow")); n > 300 {
					t.Errorf("%d requests", n)
				}
			})
		})
	}
}

// A task whose provider can't be reached ends when its time is up, with what is known, and not before.
func TestProviderIsGone(t *testing.T) {
	for _, c := range []struct{ about, route string }{
		{"status", "GET /status/x-slow"},
		{"index", "GET /.well-known/skill-sharing"},
	} {
		t.Run(c.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAgent(t, inBubble, func(a *agent) { a.On(c.route, providertest.Refused(http.StatusServiceUnavailable, "INTERNAL_ERROR")) })
				get := request("GetTask", fmt.Sprintf(`{"id":%q}`, a.accepted(t, time.Now().Add(time.Minute)).ID))
				for range 5 {
					time.Sleep(59 * time.Second)
					a.post(t, "/a2a", get, nil).check(t, "200;result.status.state=TASK_STATE_WORKING")
				}
				time.Sleep(time.Minute)
				a.post(t, "/a2a", get, nil)
				time.Sleep(time.Minute) // the first try goes on after the answer
				a.post(t, "/a2a", get, nil).check(t, "200;result.status.state=TASK_STATE_FAILED;result.status.message.parts.1.data.code=INVOCATION_TIMEOUT;"+
					"result.status.message.parts.1.data.executed=yes;result.status.message.parts.1.data.message~time of the run is up;result.metadata.EXT.executionId=x-slow")
			})
		})
	}
}

// A run whose provider can't be reached for a while is followed until its time is up by the process that submitted it, too, whether or
// not a client asks about it. A request that waits goes on waiting.
func TestOutageAfterSubmission(t *testing.T) {
	for name, recovers := range map[string]bool{"it ends": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAgent(t, inBubble)
				end := a.Accept("slow")
				a.On("GET /status/x-slow", providertest.Refused(http.StatusServiceUnavailable, "INTERNAL_ERROR"))
				begun := time.Now()
				more := fmt.Sprintf(`"metadata":{"skill":"acme.slow",%q:{"timeoutMs":%d}}`, wire.Extension, 20*time.Minute/time.Millisecond)
				got := a.send10(t, text("", "x"), more, "")
				got.check(t, "result.task.status.state=TASK_STATE_WORKING;!result.task.status.message")
				if waited := time.Since(begun); waited != a2a.DefaultWait {
					t.Errorf("the request waited for %v", waited)
				}
				state := func(t *testing.T, want string) {
					t.Helper() // without a request, which would read the state of the run
					id := got.at("result.task.id")
					if now, err := a.front.Tasks.Get(t.Context(), "", id); err != nil || now.Status.State.String() != want {
						t.Errorf("%v, %v, want %s", now.Status.State, err, want)
					}
				}
				time.Sleep(15*time.Minute - time.Since(begun))
				state(t, "working")
				if n := len(a.Requests("GET /status/x-slow")); n < 30 || n > 300 {
					t.Errorf("%d requests", n)
				}
				if recovers {
					end("ok")
					time.Sleep(2 * time.Minute)
					state(t, "completed")
					return
				}
				time.Sleep(4 * time.Minute)
				state(t, "working")
				time.Sleep(time.Minute + 10*time.Second)
				a.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, got.at("result.task.id"))).check(t, "result.status.state=TASK_STATE_FAILED;"+
					"result.status.message.parts.0.text~time of the run is up;result.status.message.parts.1.data.executed=yes")
				requests := len(a.Requests("GET /status/x-slow"))
				time.Sleep(10 * time.Minute)
				a.Received(t, "GET /status/x-slow", requests)
			})
		})
	}
}

// A task whose run does not end in time says what helps: its own text names timeoutMs, and no method that A2A does not have.
func TestTimeout(t *testing.T) {
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			a := newAgent(t, inBubble)
			a.Accept("slow")
			more := fmt.Sprintf(`"metadata":{"skill":"acme.slow",%q:{"timeoutMs":5000}}`, wire.Extension)
			got := a.post(t, "/a2a", request(d.send, d.params("", text(d.version, "x"), more)), nil)
			status := d.task + ".status."
			got.check(t, status+"state="+d.state("failed")+";"+status+"message.parts.0.text~timeoutMs;"+status+"message.parts.1.data.code=INVOCATION_TIMEOUT;"+
				status+"message.parts.1.data.next=none;"+status+"message.parts.1.data.executed=yes")
		})
	})
}
