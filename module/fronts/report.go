package fronts

import (
	"context"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// callReporter passes the reports of calls about tasks to the observer of the handler.
type callReporter struct{ observer *observe.Observer }

var _ a2a.Observer = callReporter{}

func (r callReporter) Streaming(n int) { r.observer.Streaming(n) }

func (r callReporter) Made(ctx context.Context, c *run.Caller, t *task.Task) {
	r.observer.TaskMade(ctx, c, reported(t))
}

func (r callReporter) Canceled(ctx context.Context, c *run.Caller, t *task.Task) {
	r.observer.TaskCanceled(ctx, c, reported(t))
}

func (r callReporter) WebhookChanged(ctx context.Context, c *run.Caller, t *task.Task, w *task.PushConfig, deleted bool) {
	host := ""
	if u, err := url.Parse(w.URL); err == nil { // else it was not set
		host = u.Host
	}
	r.observer.WebhookChanged(ctx, c, reported(t), w.ID, host, deleted)
}

func (callReporter) LeftRunning(ctx context.Context, c *run.Caller, t *task.Task) {
	observe.LeftRunning(ctx, c, reported(t))
}

// reported returns the part of a task that reports show.
func reported(t *task.Task) *observe.Task { return &observe.Task{ID: t.ID, Name: t.Skill, Ref: t.Ref} }

// taskReporter reports failures of the storage of tasks. It is shared by all handlers that share the tasks, also over reloads.
type taskReporter struct {
	*push.Deliverer // implements Updated

	warnings *observe.Warnings
	trouble  atomic.Pointer[Trouble]
}

// Trouble is a failure of the storage of tasks.
type Trouble struct {
	Err error
	At  time.Time
}

// troubleLasts is how long status shows a failure of the storage. While writing fails, it is tried again every 30 seconds, so
// that a lasting failure is always shown.
const troubleLasts = time.Minute

// newest returns the newest failure; nil: there was none in the last minute.
func (r *taskReporter) newest() *Trouble {
	if t := r.trouble.Load(); t != nil && time.Since(t.At) < troubleLasts {
		return t
	}
	return nil
}

// StoreFailed implements [tasks.Observer].
func (r *taskReporter) StoreFailed(err error) {
	observe.TaskStorageFailed()
	r.trouble.Store(&Trouble{err, time.Now()})
	r.warnings.Warn("tasks can't be stored, or a stored task is damaged: new tasks are refused until this works again, and ended ones are kept in memory", err)
}
