package fronts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/storage"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/runs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// tasksPool keeps tasks over reloads. Its keys are digests of the storage, the settings and the identity of the handler.
var tasksPool = lifetime.NewPool[*pooledTasks]()

// pooledTasks are the tasks of a handler in the pool.
type pooledTasks struct {
	*tasks.Tasks
	push    *push.Deliverer // shared by all configurations, like the retries
	retries *runs.Retries
	streams *front.Places
	hide    func() // removes the tasks from the metrics and the admin API
}

const (
	// flushTimeout bounds how long the end of a configuration or of the process waits until all tasks are stored.
	flushTimeout = 5 * time.Second
	// pushTimeout bounds how long it waits for requests to webhooks before.
	pushTimeout = 2 * time.Second
)

// webhooks returns the webhooks of a handler.
func (t *pooledTasks) webhooks(s *Setup) *push.Webhooks {
	return &push.Webhooks{
		Client: *s.Webhooks, Deliverer: t.push, Sealer: s.Outbound.Sealer, Panicked: s.Observer.Panicked,
		Attempted: func(a *push.Attempt) {
			s.Observer.Pushed(&observe.Push{
				Task: a.Task, Skill: a.Skill, Webhook: a.Webhook, Host: a.Host, Event: a.Event, Try: a.Try, Outcome: string(a.Outcome),
				Status: a.Status, Problem: a.Problem, Duration: a.Duration, Retry: a.Retry, Lost: a.Lost, GivenUp: a.GivenUp,
			})
		},
	}
}

// Destruct implements caddy.Destructor.
func (t *pooledTasks) Destruct() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	t.hide()
	t.retries.Close()
	requests, end := context.WithTimeout(ctx, pushTimeout)
	t.push.Close(requests)
	end()
	t.Close(ctx)
	return nil
}

// hold returns the tasks of a handler. They stay in the pool until release is called.
func (t *Tasks) hold(ctx caddy.Context, identity string) (*pooledTasks, func(), error) {
	t = cmp.Or(t, new(Tasks))
	config := t.bounds()
	kept := storage.Of(ctx)
	if t.Store == storeMemory || kept == nil {
		kept = nil
	} else {
		config.Store = storage.NewRecords(kept)
	}
	logger := ctx.Logger()
	key := lifetime.NewDigest(fmt.Sprintf("%+v", *t), storeIdentity(kept), identity).String()
	return tasksPool.Hold(key, func() (*pooledTasks, error) {
		deliverer := push.New(config.Store)
		return newTasks(config, &taskReporter{Deliverer: deliverer, warnings: observe.NewWarnings(logger, 1)}), nil
	})
}

// bounds returns the bounds of tasks.
func (t *Tasks) bounds() tasks.Config {
	return tasks.Config{
		Most: t.keep(), MostPerOwner: cmp.Or(t.KeepPerOwner, max(1, t.keep()/10)),
		MaxSize: cmp.Or(t.MaxSize, defaultMaxSize), TTL: duration(t.TTL, defaultTasksTTL),
	}
}

// storeIdentity identifies a storage. A reload makes a new value for the same folder, so the file storage is identified by its
// path. Any other storage is identified by its value, since Caddy may close the value of an old configuration.
func storeIdentity(s certmagic.Storage) string {
	switch s := s.(type) {
	case nil:
		return ""
	case *certmagic.FileStorage:
		return "file " + s.Path
	}
	return fmt.Sprintf("%T %p", s, s)
}

// Live are tasks that are in use. Several handlers may share them.
type Live struct {
	*tasks.Tasks
	// Trouble returns the newest failure of the storage in the last minute; nil: there was none.
	Trouble func() *Trouble

	records *storage.Records // nil: the tasks are only in memory
	ttl     time.Duration
}

// live lists all tasks that are in use in this process.
var live struct {
	mu    sync.Mutex
	tasks []Live
}

// newTasks returns new tasks, and shows them in the metrics and the admin API.
func newTasks(config tasks.Config, reporter *taskReporter) *pooledTasks {
	config.Observer = reporter
	t := tasks.New(config)
	reporter.Bind(t)
	records, _ := config.Store.(*storage.Records)
	uncount := observe.CountTasks(func() map[string]int { return statesOf(t) })
	live.mu.Lock()
	defer live.mu.Unlock()
	live.tasks = append(live.tasks, Live{t, reporter.newest, records, config.TTL})
	return &pooledTasks{t, reporter.Deliverer, new(runs.Retries), new(front.Places), func() {
		uncount()
		live.mu.Lock()
		defer live.mu.Unlock()
		live.tasks = slices.DeleteFunc(live.tasks, func(other Live) bool { return other.Tasks == t })
	}}
}

// LiveTasks returns the tasks of this process, in the order in which the configurations that hold them were loaded.
func LiveTasks() []Live {
	live.mu.Lock()
	defer live.mu.Unlock()
	return slices.Clone(live.tasks)
}

// statesOf returns the number of tasks in memory in each state.
func statesOf(t *tasks.Tasks) map[string]int {
	counts, _, _ := t.Stats()
	states := make(map[string]int, task.Rejected)
	for s := task.Submitted; s <= task.Rejected; s++ {
		states[s.String()] = counts[s]
	}
	return states
}

var _ run.Store = (*storage.Records)(nil)
