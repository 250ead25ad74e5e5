package push_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// keys has one key.
type keys struct{ runtoken.Key }

func (k keys) Current(context.Context) (runtoken.Key, error) { return k.Key, nil }
func (k keys) Find(_ context.Context, id runtoken.KeyID) (runtoken.Key, bool, error) {
	return k.Key, id == k.ID, nil
}

var testKeys = keys{runtoken.RestoreKey(runtoken.KeyID{1}, runtoken.Secret{2}, time.Time{})}

// store is a [run.Store] in memory.
type store struct {
	mu      sync.Mutex
	records map[string]*run.Record // by owner, id and version
	locks   map[string]chan struct{}
	puts    int
	fails   error
}

func newStore() *store {
	return &store{records: map[string]*run.Record{}, locks: map[string]chan struct{}{}}
}

func (s *store) Put(_ context.Context, records ...*run.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return s.fails
	}
	s.puts++
	for _, r := range records {
		own := *r
		own.Data = bytes.Clone(r.Data)
		s.records[fmt.Sprintf("%s\n%s\n%d.%d", r.Owner, r.ID, r.Event, r.Standing)] = &own
	}
	return nil
}

func (s *store) newest(owner string) map[string]*run.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]*run.Record{}
	for key, r := range s.records {
		if old := found[r.ID]; strings.HasPrefix(key, owner+"\n") && (old == nil || old.Version().Compare(r.Version()) < 0) {
			found[r.ID] = r
		}
	}
	return found
}

func (s *store) Get(_ context.Context, owner, id string) (*run.Record, error) {
	if r := s.newest(owner)[id]; r != nil {
		return r, nil
	}
	return nil, run.ErrNoRecord
}

func (s *store) Newer(_ context.Context, owner, id string, than run.Version) (*run.Record, error) {
	if r := s.newest(owner)[id]; r != nil && r.Version().Compare(than) > 0 {
		return r, nil
	}
	return nil, nil
}

func (s *store) List(_ context.Context, owner string, most int, need func(string, run.Version) bool) iter.Seq2[*run.Record, error] {
	return func(yield func(*run.Record, error) bool) {
		for id, r := range s.newest(owner) {
			if most--; most < 0 || need(id, r.Version()) && !yield(r, nil) {
				return
			}
		}
	}
}

func (*store) Name(context.Context, string, string, string) error           { return nil }
func (*store) Named(context.Context, string, string) (string, error)        { return "", run.ErrNoRecord }
func (*store) Trim(context.Context, run.Bounds, func(id string) bool) error { return nil }

func (s *store) Lock(ctx context.Context, owner, id string) (func(), error) {
	s.mu.Lock()
	key := owner + "\n" + id
	if s.locks[key] == nil {
		s.locks[key] = make(chan struct{}, 1)
	}
	held := s.locks[key]
	s.mu.Unlock()
	select {
	case held <- struct{}{}:
		return sync.OnceFunc(func() { <-held }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// received is a request that a receiver has got.
type received struct {
	at     time.Time
	url    string
	header http.Header
	body   string
}

// receiver is a transport that answers by itself.
type receiver struct {
	answer func(n int, r *http.Request) (status int, err error) // nil: 200

	mu   sync.Mutex
	got  []received
	open int
}

func (t *receiver) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	t.mu.Lock()
	n := len(t.got)
	t.got = append(t.got, received{time.Now(), r.URL.String(), r.Header, string(body)})
	t.open++
	t.mu.Unlock()
	defer func() { t.mu.Lock(); t.open--; t.mu.Unlock() }()
	status := 200
	if t.answer != nil {
		var err error
		if status, err = t.answer(n, r); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(nil))}, nil
}

func (t *receiver) all() []received {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.got)
}

// inProgress returns how many requests have no answer yet.
func (t *receiver) inProgress() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open
}

// hang answers when the request ends.
func hang(_ int, r *http.Request) (int, error) {
	<-r.Context().Done()
	return 0, r.Context().Err()
}

// bench is a Deliverer with tasks and one configuration.
type bench struct {
	*push.Webhooks
	t     *testing.T
	tasks *tasks.Tasks
	to    *receiver

	mu       sync.Mutex
	attempts []push.Attempt
	followed []string
}

type observer struct{ *push.Deliverer }

func (observer) StoreFailed(error) {}

func start(t *testing.T, s run.Store, to *receiver) *bench {
	t.Helper()
	d := push.New(s)
	b := &bench{t: t, to: to, tasks: tasks.New(tasks.Config{Store: s, Observer: observer{d}, Most: 100_000, MostPerOwner: 100_000})}
	d.Bind(b.tasks)
	b.Webhooks = &push.Webhooks{
		Deliverer: d, Sealer: runtoken.New(testKeys, runtoken.Lifetime, nil),
		Client: webhook.Client{Transport: to, AllowHTTP: true, Judge: func(context.Context, *url.URL) error { return nil }},
		Owns:   func(string) bool { return true },
		Continue: func(_ context.Context, t *task.Task) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.followed = append(b.followed, t.ID)
		},
		Attempted: func(a *push.Attempt) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.attempts = append(b.attempts, *a)
		},
		Panicked: func(_ context.Context, v any, stack []byte) { t.Errorf("%v\n%s", v, stack) },
	}
	b.Begin()
	return b
}

// stop ends the process.
func (b *bench) stop() {
	b.End()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
	defer cancel()
	b.Deliverer.Close(ctx)
	b.tasks.Close(b.t.Context())
}

func (b *bench) allAttempts() []push.Attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.attempts)
}

// allFollowed returns the ids of the tasks that were followed.
func (b *bench) allFollowed() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.followed)
}

// hook returns a webhook.
func (b *bench) hook(owner, id, name, version string) task.PushConfig {
	b.t.Helper()
	sealed, err := b.Seal(b.t.Context(), owner, id, push.Secrets{Token: "tok-" + name, Credentials: "cred-" + name})
	if err != nil {
		b.t.Fatal(err)
	}
	return task.PushConfig{ID: name, URL: "https://" + name + ".example/hook?q=1", Secrets: sealed, Scheme: "Bearer", Version: version}
}

// add makes a task with webhooks.
func (b *bench) add(owner string, hooks ...string) *task.Task {
	b.t.Helper()
	t := &task.Task{ID: b.tasks.NewID(), Owner: owner, Context: "c", Skill: "s"}
	for _, name := range hooks {
		name, version, _ := strings.Cut(name, "@")
		t.Push = append(t.Push, b.hook(owner, t.ID, name, version))
	}
	t.SetStatus(task.Submitted, nil, time.Now())
	if err := b.tasks.Add(b.t.Context(), t); err != nil {
		b.t.Fatal(err)
	}
	b.Watch(b.t.Context(), t)
	return t
}

func (b *bench) change(t *task.Task, change func(*task.Task)) {
	b.t.Helper()
	_, err := b.tasks.Change(b.t.Context(), t.Owner, t.ID, func(t *task.Task) error {
		change(t)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) status(t *task.Task, s task.State) {
	b.t.Helper()
	b.change(t, func(t *task.Task) { t.SetStatus(s, nil, time.Now()) })
}

func (b *bench) complete(t *task.Task) {
	b.t.Helper()
	b.change(t, func(t *task.Task) {
		t.SetArtifact([]task.Part{{Part: front.Part{Kind: front.PartData, Data: jsontext.Value(`{"n":1}`)}}})
		t.SetStatus(task.Completed, nil, time.Now())
	})
}

func (b *bench) get(t *task.Task) *task.Task {
	b.t.Helper()
	now, err := b.tasks.Get(b.t.Context(), t.Owner, t.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	return now
}

// kinds returns the kinds of the events that were received.
func (b *bench) kinds() []string {
	var kinds []string
	for _, r := range b.to.all() {
		kinds = append(kinds, kindOf(r.body))
	}
	return kinds
}

// kindOf returns the kind of an event and its state.
func kindOf(body string) string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(body, `{"`), `"`)
	if _, state, ok := strings.Cut(body, `"state":"`); ok {
		state, _, _ = strings.Cut(state, `"`)
		kind += " " + strings.TrimPrefix(state, "TASK_STATE_")
	}
	return kind
}

// tokenHeader is a name as the specification spells it.
var tokenHeader = "X-A2A-Notification-Token"

var errDown = errors.New("connection refused")
