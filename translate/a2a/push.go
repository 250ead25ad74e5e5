package a2a

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
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
		changed := func(t *task.Task, w *task.PushConfig, deleted bool) {
			r.front.observer().WebhookChanged(r.ctx, &r.caller, t, w, deleted)
		}
		return serve(r.front.Push, r.ctx, &push.Call{
			Version: r.version, Params: r.params(), Find: find, Fail: r.taskError, Refuse: r.violated, Changed: changed,
		})
	}
}

// Owns reports whether the owner of tasks is a principal of this front's realm.
func (f *Front) Owns(owner string) bool {
	_, ok := f.principal(owner)
	return ok
}

func (f *Front) principal(owner string) (principal string, ok bool) {
	if f.Realm == nil {
		return owner, true
	}
	return strings.CutPrefix(owner, f.Realm()+"\n")
}

// Continue follows the run of a task whose instance has ended, unless this process does.
func (f *Front) Continue(ctx context.Context, t *task.Task) {
	if principal, ok := f.principal(t.Owner); ok {
		f.FollowLater(ctx, t, run.Caller{Principal: principal, Front: Name, Method: MethodFollow})
	}
}
