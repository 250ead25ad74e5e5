package delivery_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/deliverytest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

const (
	realm    = "realm"
	callback = "callbacks" // each run has one event: its end
	push     = "push"      // each version is an event, the end two
)

// received is a request that a receiver has got.
type received struct {
	at        time.Time
	url, body string
}

// receiver is a transport that answers by itself.
type receiver struct {
	answer func(n int, r *http.Request) (status int, err error) // nil: 200
	header http.Header                                          // of all answers

	mu   sync.Mutex
	got  []received
	open int
}

func (t *receiver) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	t.mu.Lock()
	n := len(t.got)
	t.got = append(t.got, received{time.Now(), r.URL.String(), string(body)})
	t.open++
	t.mu.Unlock()
	defer func() { t.mu.Lock(); t.open--; t.mu.Unlock() }()
	status := http.StatusOK
	if t.answer != nil {
		var err error
		if status, err = t.answer(n, r); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: status, Header: t.header, Body: io.NopCloser(bytes.NewReader(nil))}, nil
}

func (t *receiver) all() []received {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.got)
}

// bodies returns the bodies of the requests to a host.
func (t *receiver) bodies(host string) (all []string) {
	for _, r := range t.all() {
		if strings.Contains(r.url, "//"+host+"/") {
			all = append(all, r.body)
		}
	}
	return all
}

func (t *receiver) inProgress() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open
}

// hang answers when the request is canceled.
func hang(_ int, r *http.Request) (int, error) {
	<-r.Context().Done()
	return 0, r.Context().Err()
}

// status answers always the same.
func status(code int) func(int, *http.Request) (int, error) {
	return func(int, *http.Request) (int, error) { return code, nil }
}

// instance is an instance of the bridge.
type instance struct {
	*deliverytest.Instance
	*delivery.Deliverer
	t  *testing.T
	to *receiver

	fronts []*delivery.Sender

	mu       sync.Mutex
	attempts []delivery.Attempt
}

func start(t *testing.T, d *deliverytest.Database, to *receiver) *instance {
	t.Helper()
	i := &instance{Instance: d.Instance(), t: t, to: to}
	i.Deliverer = delivery.New(i.Instance, i.Instance.Subscribe, i.Instance)
	for _, front := range []string{callback, push} {
		s := i.sender(front)
		i.fronts = append(i.fronts, s)
		i.Begin(s)
	}
	return i
}

func (i *instance) sender(front string) *delivery.Sender {
	return &delivery.Sender{
		Served: delivery.Served{Realm: realm, Front: front},
		Client: &webhook.Client{Transport: i.to, Judge: func(context.Context, *url.URL) error { return nil }},
		Hears:  func(e *ledger.Entry) bool { return front == push || e.State.Ended() },
		Event:  event,
		Attempted: func(a *delivery.Attempt) {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.attempts = append(i.attempts, *a)
		},
		Panicked: func(_ context.Context, value any, _ []byte) {
			if bug, ok := value.(*panics.Panic); !ok || bug.Value != errPanic {
				i.t.Error(value)
			}
		},
	}
}

var errPanic = errors.New("a panic")

// event makes events whose bodies are the version and what kind of event it is.
func event(_ context.Context, d *delivery.Delivery, e *ledger.Entry, part int) (*delivery.Event, error) {
	target, notes := string(d.Target), string(e.Notes)
	switch {
	case notes == "panic":
		panic(errPanic)
	case notes == "denied":
		return &delivery.Event{Never: "the access rules deny it"}, nil
	case d.Front == callback && !e.State.Ended():
		return nil, nil
	}
	text := func(kind string) webhook.Request {
		return webhook.Request{URL: target, Header: http.Header{}, Body: fmt.Appendf(nil, "%03d %s", e.Version, kind)}
	}
	switch {
	case d.Front == callback:
		return &delivery.Event{Request: text("end")}, nil
	case part == delivery.Whole:
		return &delivery.Event{Request: text("whole")}, nil
	case e.State.Ended() && part == 0:
		return &delivery.Event{Request: text("output"), More: true}, nil
	case e.State.Ended():
		return &delivery.Event{Request: text("end")}, nil
	}
	return &delivery.Event{Request: text("state")}, nil
}

func (i *instance) given() []delivery.Attempt {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.attempts)
}

// stop ends the instance.
func (i *instance) stop() {
	ctx, cancel := context.WithTimeout(i.t.Context(), time.Second)
	defer cancel()
	for _, s := range i.fronts {
		i.End(s)
	}
	i.Close(ctx)
}

// crash ends the instance as a crash does: nothing more is written, and no answer is read.
func (i *instance) crash() {
	i.Fail(func(string) (error, error) { return deliverytest.ErrDown, nil })
	ctx, cancel := context.WithCancel(i.t.Context())
	cancel()
	i.Close(ctx)
}

var ids run.IDs

// begin adds a run with a receiver at each host.
func (i *instance) begin(front, principal string, hosts ...string) *ledger.Entry {
	i.t.Helper()
	e := i.Put(ledger.Entry{Owner: ledger.Owner{Realm: realm, Principal: principal}, ID: ids.Next(time.Now()), Front: front, State: ledger.Submitting})
	for _, host := range hosts {
		i.receive(e, host, 0)
	}
	own := *e // tests change it, and the Deliverer reads the one that it has heard
	return &own
}

// receive adds a receiver of a run.
func (i *instance) receive(e *ledger.Entry, host string, cursor int64) {
	i.t.Helper()
	d := &delivery.Delivery{
		Run: e.Identity(), Receiver: host, Front: e.Front, Host: host, Target: []byte("https://" + host + "/"), EndOnly: e.Front == callback, Cursor: cursor,
	}
	if err := i.Deliverer.Add(i.t.Context(), e, d, delivery.Bounds{}); err != nil {
		i.t.Fatal(err)
	}
}

// to makes the next version of a run.
func (i *instance) state(e *ledger.Entry, state ledger.State) *ledger.Entry {
	next := *e
	next.State = state
	return i.Put(next)
}

// end adds a run with a call-back that has ended.
func (i *instance) end(principal, host string) *ledger.Entry {
	i.t.Helper()
	return i.state(i.begin(callback, principal, host), ledger.Completed)
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
