package faults_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// webhook is a server that takes events, once it is up.
type webhook struct {
	*httptest.Server
	mu     sync.Mutex
	up     bool
	states []string // of the events that it took
	missed int
}

func newWebhook(t *testing.T) *webhook {
	t.Helper()
	h := new(webhook)
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, state, _ := strings.Cut(string(body), `"state":"TASK_STATE_`)
	state, _, _ = strings.Cut(state, `"`)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.up {
		h.missed++
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	h.states = append(h.states, state)
}

// taken returns the states that the webhook took, and how many events it did not take.
func (h *webhook) taken() ([]string, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.states), h.missed
}

func (h *webhook) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.up = true
}

// R70: a process that ends while a webhook does not answer. The next one follows the run without being asked, and the webhook
// gets the newest state and all that follows.
func TestR70Webhooks(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]os.Signal{"SIGTERM": syscall.SIGTERM, "kill -9": os.Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "kill -9" { // whose claims are over after half a minute
				longtest.Need(t, longtest.Long)
			}
			p, gate := later(t)
			h := newWebhook(t)
			options := []string{storage(t.TempDir()), "grace_period 2s"}
			config := withWebhooks(withAgents(p))
			first := testbed.StartProcess(t, testbed.Limits{}, config, options...)
			params, call := testbed.Message("acme.later", true)
			params["configuration"] = hostile.Object{
				"returnImmediately":          true,
				"taskPushNotificationConfig": hostile.Object{"url": h.URL, "token": "a secret token"},
			}
			ann := agentOf(first.Client, "ann")
			sent := ann.Call("SendMessage", params)
			id := sent.Task().ID
			testbed.Eventually(t, patience, func() bool {
				_, missed := h.taken()
				return missed > 0 && ann.GetTask(id).Task().State() == "WORKING"
			}, "an event was sent, and the run was accepted")
			first.Signal(stop)
			first.Wait(patience)
			h.start()
			second := testbed.StartProcess(t, testbed.Limits{}, config, options...)
			testbed.Eventually(t, 2*patience, func() bool { states, _ := h.taken(); return len(states) > 0 }, "the newest state was sent")
			gate.Open()
			testbed.Eventually(t, patience, func() bool { states, _ := h.taken(); return slices.Contains(states, "COMPLETED") }, "the end was sent")
			if states, _ := h.taken(); !slices.Equal(slices.Compact(states), []string{"WORKING", "", "COMPLETED"}) {
				t.Errorf("the webhook has got %q", states)
			}
			if n := p.Posts(call); n != 1 {
				t.Errorf("%d invocations", n)
			}
			for _, c := range []*testbed.Log{first.Log, second.Log} {
				c.MustNotShow("a secret token")
				checkNoPanic(t, c)
			}
		})
	}
}
