package a2a_test

import (
	"context"
	"encoding/json" // for invalid UTF-8
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/deliverytest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// hook is what a webhook got.
type hook struct {
	header http.Header
	body   string
}

// kind returns the kind of the event and the state in it.
func (h *hook) kind() string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(h.body, `{"`), `"`)
	if _, state, ok := strings.Cut(h.body, `"state":"`); ok {
		state, _, _ = strings.Cut(state, `"`)
		kind += " " + strings.TrimPrefix(state, "TASK_STATE_")
	}
	return kind
}

// hooks is a transport to webhooks.
type hooks struct {
	*delivery.Deliverer

	rows *deliverytest.Database
	key  key

	mu       sync.Mutex
	down     bool // it answers 503
	got      []hook
	attempts []delivery.Attempt
}

// RoundTrip implements [http.RoundTripper].
func (h *hooks) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.got = append(h.got, hook{r.Header, string(body)})
	status := http.StatusOK
	if h.down {
		status = http.StatusServiceUnavailable
	}
	return &http.Response{StatusCode: status, Body: http.NoBody}, err
}

func (h *hooks) set(down bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = down
}

func (h *hooks) all() []hook {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got)
}

// kinds returns the kinds of the events.
func (h *hooks) kinds() string {
	var all []string
	for _, got := range h.all() {
		all = append(all, got.kind())
	}
	return strings.Join(all, ", ")
}

func (h *hooks) given() []delivery.Attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.attempts)
}

// key is the only key of secrets, until it is removed.
type key struct {
	runtoken.Key

	removed *bool
}

func (k key) Current(context.Context) (runtoken.Key, error) { return k.Key, nil }
func (k key) Find(context.Context, runtoken.KeyID) (runtoken.Key, bool, error) {
	return k.Key, !*k.removed, nil
}

// withWebhooks lets clients set webhooks.
func withWebhooks(tb testing.TB, a *agent) *hooks {
	tb.Helper()
	h := &hooks{rows: deliverytest.NewDatabase(), key: key{runtoken.RestoreKey(runtoken.KeyID{1}, runtoken.Secret{2}, time.Time{}), new(bool)}}
	rows := h.rows.Instance()
	a.db.Received = h.rows.Claimed
	a.front.Ledger.Subscribe(h.rows.Store)
	h.Deliverer = delivery.New(rows, a.front.Ledger.Subscribe, rows)
	a.front.Push = &a2a.Webhooks{
		Sender: delivery.Sender{
			Client: &webhook.Client{Transport: h, Judge: func(context.Context, *url.URL) error { return nil }}, Served: delivery.Served{Realm: "main", Front: task.Front},
			Attempted: func(a *delivery.Attempt) {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.attempts = append(h.attempts, *a)
			},
			Panicked: a.front.Panicked,
		},
		Deliverer: h.Deliverer, Ledger: a.front.Ledger, Sealer: runtoken.New(h.key, runtoken.Lifetime, nil),
	}
	a.front.Push.Deliverer.Begin(a.front.Push.Events())
	tb.Cleanup(func() {
		a.front.Push.Deliverer.End(&a.front.Push.Sender)
		h.Close(context.Background())
	})
	return h
}

// tokenHeader is a name as the specification spells it.
var tokenHeader = "X-A2A-Notification-Token"

// pushed are the params that set a webhook in a message, by versions.
func pushed(version, config string) string {
	switch version {
	case "0.3":
		return `"configuration":{"pushNotificationConfig":` + config + `}`
	case "0.1":
		return `"pushNotification":` + config
	}
	return `"configuration":{"taskPushNotificationConfig":` + config + `}`
}

// A webhook of a message gets each event of the task, in the form of its version, with its secrets, and stays.
func TestWebhook(t *testing.T) {
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			a := newAgent(t, inBubble)
			h := withWebhooks(t, a)
			scheme := `"schemes":["Bearer"]`
			if d.version == "1.0" {
				scheme = `"scheme":"Bearer"`
			}
			config := `{"url":"https://hook.example/x?q=1","token":"tok-1","authentication":{` + scheme + `,"credentials":"cred-1"}}`
			got := a.post(t, "/a2a", request(d.send, d.params("", text(d.version, "x"), `"metadata":{"skill":"acme.echo"},`+pushed(d.version, config))), by("ada"))
			got.check(t, d.task+".status.state="+d.state("completed"))
			synctest.Wait()
			want, media := "id submitted, id working, id working, id completed", "application/json"
			if d.version == "1.0" {
				want, media = "task SUBMITTED, statusUpdate WORKING, artifactUpdate, statusUpdate COMPLETED", "application/a2a+json"
			}
			if got := h.kinds(); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			for _, got := range h.all() {
				if got.header.Get("Content-Type") != media || got.header.Get("Authorization") != "Bearer cred-1" || got.header[tokenHeader][0] != "tok-1" {
					t.Errorf("%v", got.header)
				}
			}
			if rows, err := h.Of(t.Context(), h.given()[0].Delivery.Run); err != nil || len(rows) != 1 || rows[0].Cursor != delivery.Over ||
				strings.Contains(string(rows[0].Target), "tok-1") || strings.Contains(string(rows[0].Target), "cred-1") {
				t.Errorf("%v %+v", err, rows)
			}
		})
	})
}

// A webhook that is set later gets the later events, up to the end of a run that nobody waits for; one that is deleted gets none. Deleting, and setting one
// for a task that has ended, work at any time.
func TestWebhookSetLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble)
		h := withWebhooks(t, a)
		end := a.Accept("slow")
		id := a.send10(t, text("", "x"), `"metadata":{"skill":"acme.slow"}`, `"configuration":{"returnImmediately":true}`).at("result.task.id")
		time.Sleep(3 * time.Minute)
		for _, name := range []string{"b", "a", "gone"} {
			a.call(t, "CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"id":%q,"url":"https://%[2]s.example/"}`, id, name)).check(t, "result.id="+name)
			time.Sleep(time.Second)
		}
		a.call(t, "DeleteTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"id":"gone"}`, id)).check(t, "result")
		list := func(want string) {
			t.Helper()
			a.call(t, "ListTaskPushNotificationConfigs", fmt.Sprintf(`{"taskId":%q}`, id)).check(t, want)
		}
		list("result.configs.0.id=b;result.configs.1.id=a;!result.configs.2") // in the order in which they were set
		a.send10(t, text("", "more"), fmt.Sprintf(`"taskId":%q`, id), `"configuration":{"returnImmediately":true}`).check(t, "result.task.history.1")
		time.Sleep(time.Minute)
		if got := h.kinds(); got != "" {
			t.Errorf("a message is no event: %s", got)
		}
		end("ok")
		time.Sleep(10 * time.Minute)
		if got := h.kinds(); strings.Count(got, "artifactUpdate") != 2 || strings.Count(got, "statusUpdate COMPLETED") != 2 || len(h.all()) != 4 {
			t.Error(got)
		}
		list("result.configs.0.id=b;result.configs.1.id=a;!result.configs.2")
		a.call(t, "CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"id":"late","url":"https://late.example/"}`, id)).check(t, "result.id=late")
		list("result.configs.2.id=late")
		time.Sleep(time.Hour)
		if len(h.all()) != 4 {
			t.Error(h.kinds())
		}
	})
}

// Tasks without webhooks cost the deliverer nothing.
func TestNoWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble)
		h := withWebhooks(t, a)
		a.send10(t, text("", "x"), `"metadata":{"skill":"acme.echo"}`, "").check(t, "result.task.status.state=TASK_STATE_COMPLETED")
		synctest.Wait()
		if h.rows.Rows() != 0 || len(h.all()) != 0 {
			t.Error(h.kinds())
		}
	})
}

// The webhook of a message to a task is stored before the message is taken: it is there although the instance fails then, and hears of the next message.
func TestWebhookBeforeMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble)
		h := withWebhooks(t, a)
		end := a.Accept("slow")
		id := a.send10(t, text("", "x"), `"metadata":{"skill":"acme.slow"}`, `"configuration":{"returnImmediately":true}`).at("result.task.id")
		more := func() *answer {
			return a.send10(t, text("", "more"), fmt.Sprintf(`"taskId":%q`, id), `"configuration":{"returnImmediately":true,"taskPushNotificationConfig":{"url":"https://hook.example/"}}`)
		}
		synctest.Wait() // that the run was accepted is stored
		changes := 0
		a.store.Fail(func(statement string) error {
			if statement == "change" {
				changes++
			}
			if changes > 1 { // the first one says that the task has a webhook
				return &ledger.Unavailable{Err: errors.New("down")}
			}
			return nil
		}, nil)
		more().check(t, "error")
		a.store.Fail(nil, nil)
		a.call(t, "ListTaskPushNotificationConfigs", fmt.Sprintf(`{"taskId":%q}`, id)).check(t, "result.configs.0")
		more().check(t, "result.task.id="+id)
		a.call(t, "ListTaskPushNotificationConfigs", fmt.Sprintf(`{"taskId":%q}`, id)).check(t, "result.configs.0;!result.configs.1")
		end("ok")
		time.Sleep(10 * time.Minute)
		if got := h.kinds(); !strings.HasSuffix(got, "statusUpdate COMPLETED") {
			t.Error(got)
		}
	})
}

// Of webhooks that are set at the same time, a task has no more than eight, and each keeps its place.
func TestWebhooksSetTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble)
		withWebhooks(t, a)
		a.Accept("slow")
		id := a.send10(t, text("", "x"), `"metadata":{"skill":"acme.slow"}`, `"configuration":{"returnImmediately":true}`).at("result.task.id")
		var group sync.WaitGroup
		var mu sync.Mutex
		made := 0
		for n := range 20 {
			group.Go(func() {
				got := a.call(t, "CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"id":"w%d","url":"https://hook.example/"}`, id, n))
				mu.Lock()
				defer mu.Unlock()
				if got.at("error.code") != "-32602" {
					made++
				} else {
					got.check(t, "error.code=-32602;error.data.0.fieldViolations.0.field=id")
				}
			})
		}
		group.Wait()
		if made != 8 {
			t.Errorf("%d webhooks were set", made)
		}
		a.call(t, "ListTaskPushNotificationConfigs", fmt.Sprintf(`{"taskId":%q}`, id)).check(t, "result.configs.7;!result.configs.8")
	})
}

// An event that is not taken comes again, then those that were made meanwhile. Events whose secrets can't be decrypted any more are not sent.
func TestWebhookDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble)
		h := withWebhooks(t, a)
		h.set(true)
		a.send10(t, text("", "x"), `"metadata":{"skill":"acme.echo"}`, pushed("1.0", `{"url":"https://hook.example/","token":"tok"}`)).check(t, "result.task.status.state=TASK_STATE_COMPLETED")
		time.Sleep(6 * time.Second)
		h.set(false)
		time.Sleep(time.Minute)
		if got := h.kinds(); got != "task SUBMITTED, task SUBMITTED, task SUBMITTED, task SUBMITTED, statusUpdate WORKING, artifactUpdate, statusUpdate COMPLETED" {
			t.Error(got)
		}
		*h.key.removed = true
		sent := len(h.all())
		a.send10(t, text("", "x"), `"metadata":{"skill":"acme.echo"}`, pushed("1.0", `{"url":"https://hook.example/","token":"tok"}`))
		synctest.Wait()
		given := h.given()
		if last := given[len(given)-1]; len(h.all()) != sent || !last.GivenUp || !strings.Contains(last.Problem, "decrypted") || h.rows.Rows() != 0 {
			t.Errorf("%d requests, %+v", len(h.all())-sent, last)
		}
	})
}

// Events have what was wrong with the provider's answer.
func TestWebhookWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble)
		h := withWebhooks(t, a)
		a.On("POST /run/echo", providertest.Answer(200, `{"execution_id":"e1","status":"completed","output":{"a":1,"a":2}}`))
		a.send10(t, text("", "x"), `"metadata":{"skill":"acme.echo"}`, pushed("1.0", `{"url":"https://hook.example/"}`)).check(t, "result.task.status.state=TASK_STATE_COMPLETED")
		synctest.Wait()
		all := h.all()
		if last := all[len(all)-1]; !json.Valid([]byte(last.body)) || last.kind() != "statusUpdate COMPLETED" || !strings.Contains(last.body, `"warnings":[`) {
			t.Errorf("%s", last.body)
		}
	})
}
