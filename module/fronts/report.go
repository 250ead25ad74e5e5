package fronts

import (
	"context"
	"net/url"

	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
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

func (r callReporter) WebhookChanged(ctx context.Context, c *run.Caller, t *task.Task, w *wire.PushConfig, deleted bool) {
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
