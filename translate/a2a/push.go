package a2a

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// aboutPush returns the function that serves a method about the webhooks of a task.
func aboutPush(serve func(*push.Webhooks, context.Context, *push.Call) (jsontext.Value, *jsonrpc.Error)) func(*request) (jsontext.Value, *jsonrpc.Error) {
	return func(r *request) (jsontext.Value, *jsonrpc.Error) {
		if r.front.Push == nil {
			return nil, pushNotSupported(r.version)
		}
		find := func(tenant, id string) (*task.Task, error) {
			r.tenant = tenant
			return r.find(id)
		}
		changed := func(t *task.Task, w *wire.PushConfig, deleted bool) {
			r.front.observer().WebhookChanged(r.ctx, &r.caller, t, w, deleted)
		}
		return serve(r.front.Push, r.ctx, &push.Call{
			Version: r.version, Params: r.params(), Find: find, Fail: r.taskError, Refuse: r.violated, Changed: changed,
		})
	}
}
