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

	"github.com/google/uuid"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// toldEnds is a server that is told the ends of runs.
type toldEnds struct {
	*httptest.Server
	mu  sync.Mutex
	up  bool     // it takes them
	got []string // the ids of requests that it took, and their statuses
	ids []string // those of all requests
}

func newToldEnds(t *testing.T) *toldEnds {
	t.Helper()
	h := new(toldEnds)
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *toldEnds) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, status, ok := strings.Cut(string(body), `"status":"`)
	if !ok {
		_, status, _ = strings.Cut(string(body), `"executed":"`)
	}
	status, _, _ = strings.Cut(status, `"`)
	h.mu.Lock()
	defer h.mu.Unlock()
	id := r.Header.Get("Webhook-Id")
	h.ids = append(h.ids, id)
	if !h.up {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if !slices.Contains(h.got, id+" "+status) { // a request can come twice
		h.got = append(h.got, id+" "+status)
	}
}

func (h *toldEnds) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.up = true
}

func (h *toldEnds) all() (got, ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got), slices.Clone(h.ids)
}

// R92: a process that ends while a run goes on whose end a caller is to be told, and while another end can't be told. The next one tells both,
// and that a call that was only claimed has perhaps been executed.
func TestR92Callbacks(t *testing.T) {
	t.Parallel()
	longtest.Need(t, longtest.Long)
	for name, stop := range map[string]os.Signal{"SIGTERM": syscall.SIGTERM, "kill -9": os.Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, gate := later(t)
			p.Publish(hostile.Skill{ID: "acme/unread"})
			p.On("acme/unread", hostile.Descriptor, hostile.NewGate(t).Then(hostile.Usual()))
			h := newToldEnds(t)
			options := []string{storage(t.TempDir()), "grace_period 2s"}
			config := testbed.Bridge("allow_anonymous", "poll_interval 100ms 200ms",
				"provider "+p.URL()+" {", "\tnamespace acme", "}", "webhooks {", "\tallow_http", "\tallow_networks 127.0.0.1", "\tallow_ports any", "}")
			first := testbed.StartProcess(t, testbed.Limits{}, config, options...)
			const token = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
			notified := first.With(testbed.Param("wait_ms", 0), testbed.Param("notify", hostile.Object{"url": h.URL, "token": token}))
			if a := notified.Execute("acme.later", hostile.Object{"call": "later"}); a.Outcome() != "running" {
				t.Fatal(a)
			}
			if a := notified.Execute("acme.now", hostile.Object{"call": "now"}); a.Outcome() != "completed" && a.Outcome() != "running" {
				t.Fatal(a)
			}
			testbed.Eventually(t, patience, func() bool { _, ids := h.all(); return len(ids) > 0 }, "an end was sent")
			want := 2
			if stop == os.Kill { // whose claim is not submitted yet
				want++
				go notified.With(testbed.Param("idempotency_key", uuid.NewString())).Execute("acme.unread", hostile.Object{})
				testbed.Eventually(t, patience, func() bool {
					return strings.Contains(string(first.Send("GET", first.Admin()+"/skill_bridge/runs", "").Body), "acme.unread")
				}, "a call was claimed")
			}
			first.Signal(stop)
			first.Wait(patience)
			h.start()
			gate.Open()
			second := testbed.StartProcess(t, testbed.Limits{}, config, options...)
			testbed.Eventually(t, 3*patience, func() bool { got, _ := h.all(); return len(got) == want }, "all ends were sent")
			got, ids := h.all()
			completed := slices.DeleteFunc(slices.Clone(got), func(of string) bool { return !strings.HasSuffix(of, " completed") })
			maybe := slices.DeleteFunc(slices.Clone(got), func(of string) bool { return !strings.HasSuffix(of, " maybe") })
			if len(completed) != 2 || !slices.Contains(got, ids[0]+" completed") || len(maybe) != want-2 {
				t.Errorf("%q, %q", got, ids)
			}
			for _, c := range []*testbed.Log{first.Log, second.Log} {
				c.MustNotShow(token[6:])
				checkNoPanic(t, c)
			}
		})
	}
}
