package fronts

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/storage"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// tasksPool keeps the tasks over reloads, by storage and settings.
var tasksPool = lifetime.NewPool[*tasks]()

// tasks are pooled tasks.
type tasks struct {
	*task.Tasks
	push *push.Deliverer // of all configurations
}

const (
	// flushTimeout bounds how long the end of a configuration or of the process waits until the last tasks are stored.
	flushTimeout = 5 * time.Second
	// pushTimeout bounds how long it waits for requests to webhooks.
	pushTimeout = 2 * time.Second
)

// Destruct implements caddy.Destructor.
func (t *tasks) Destruct() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	requests, end := context.WithTimeout(ctx, pushTimeout)
	t.push.Close(requests)
	end()
	t.Close(ctx)
	return nil
}

// hold returns the tasks of a handler. They stay in the pool until release is called.
func (t *Tasks) hold(ctx caddy.Context, identity string) (*tasks, func(), error) {
	t = cmp.Or(t, new(Tasks))
	config := task.Config{
		Most: t.keep(), MostPerOwner: cmp.Or(t.KeepPerOwner, max(1, t.keep()/10)),
		MaxSize: cmp.Or(t.MaxSize, defaultMaxSize), TTL: duration(t.TTL, defaultTasksTTL),
	}
	kept := storage.Of(ctx)
	if t.Store == storeMemory || kept == nil {
		kept = nil
	} else {
		config.Store = storage.NewRecords(kept)
	}
	logger := ctx.Logger()
	key := lifetime.NewDigest(fmt.Sprintf("%+v", *t), storeIdentity(kept), identity).String()
	return tasksPool.Hold(key, func() (*tasks, error) {
		deliverer := push.New(config.Store)
		config.Observer = reporter{logger, deliverer}
		made := &tasks{task.New(config), deliverer}
		deliverer.Bind(made.Tasks)
		return made, nil
	})
}

// storeIdentity identifies a storage. A reload makes a new value for the same folder. Of other storages than Caddy's own,
// each value is another storage, since Caddy may close the old one.
func storeIdentity(s certmagic.Storage) string {
	switch s := s.(type) {
	case nil:
		return ""
	case *certmagic.FileStorage:
		return "file " + s.Path
	}
	return fmt.Sprintf("%T %p", s, s)
}

// reporter logs what happens to tasks. The Deliverer implements Updated.
type reporter struct {
	logger *zap.Logger
	*push.Deliverer
}

// StoreFailed implements [task.Observer].
func (r reporter) StoreFailed(err error) {
	r.logger.Error("tasks can't be stored, or a stored task is damaged: open tasks are refused until this works again, and ended ones are kept in memory", zap.Error(err))
}

var _ run.Store = (*storage.Records)(nil)
