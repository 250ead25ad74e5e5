package push

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// Call is a call of a method about the webhooks of a task.
type Call struct {
	Version wire.Version
	Params  jsonrpc.Object
	// Find returns a task of the caller. tenant is a member of the params; empty: none.
	Find func(tenant, id string) (*task.Task, error)
	// Fail returns the answer to an error of Find or of the tasks.
	Fail func(id string, err error) *jsonrpc.Error
	// Refuse returns the error for params with violations.
	Refuse func(violations ...wire.Violation) *jsonrpc.Error
	// Changed is called after a webhook was set or deleted.
	Changed func(t *task.Task, w *task.PushConfig, deleted bool)
}

// Set adds a webhook to a task, or replaces the one with its id.
func (w *Webhooks) Set(ctx context.Context, c *Call) (jsontext.Value, *jsonrpc.Error) {
	p, violations := wire.DecodePush(c.Version, c.Params)
	t, fault := c.find(&p, violations)
	if fault != nil {
		return nil, fault
	}
	if wrong := w.Violation(ctx, c.Version, t, &p, false); wrong != nil {
		return nil, c.Refuse(*wrong)
	}
	made, err := w.Make(ctx, t.Owner, t.ID, c.Version, &p)
	if err != nil {
		return nil, c.Fail(p.Task, err)
	}
	now, err := w.change(ctx, t, func(t *task.Task) error { return Add(t, made) })
	switch {
	case errors.Is(err, ErrTooMany):
		return nil, c.Refuse(wire.Violation{Field: prefixes[c.Version][0] + "id", Description: err.Error()})
	case err != nil:
		return nil, c.Fail(p.Task, err)
	}
	c.Changed(now, made, false)
	w.follow(ctx, now) // the time for which it was followed may be over
	return wire.AppendPush(nil, c.Version, now, made), nil
}

// Get returns a webhook of a task. The older versions need no id of the webhook.
func (w *Webhooks) Get(_ context.Context, c *Call) (jsontext.Value, *jsonrpc.Error) {
	p, violations := wire.DecodePushQuery(c.Version, c.Params, c.Version == wire.V10)
	t, fault := c.find(&p, violations)
	if fault != nil {
		return nil, fault
	}
	i := indexOf(t, p.ID)
	if p.ID == "" {
		i = max(indexOf(t, defaultID), min(0, len(t.Push)-1)) // without a default one, the first
	}
	if i < 0 {
		return nil, wire.Error(c.Version, wire.CodeTaskNotFound, "The task has no push notification config with this id", "",
			map[string]string{"taskId": p.Task, "pushNotificationConfigId": p.ID})
	}
	return wire.AppendPush(nil, c.Version, t, &t.Push[i]), nil
}

// List returns the webhooks of a task.
func (w *Webhooks) List(_ context.Context, c *Call) (jsontext.Value, *jsonrpc.Error) {
	p, violations := wire.DecodePushQuery(c.Version, c.Params, false)
	t, fault := c.find(&p, violations)
	if fault != nil {
		return nil, fault
	}
	return wire.AppendPushList(nil, c.Version, t, t.Push), nil
}

// Delete removes a webhook from a task. It succeeds also if there is no such webhook.
func (w *Webhooks) Delete(ctx context.Context, c *Call) (jsontext.Value, *jsonrpc.Error) {
	p, violations := wire.DecodePushQuery(c.Version, c.Params, true)
	t, fault := c.find(&p, violations)
	if fault != nil {
		return nil, fault
	}
	if i := indexOf(t, p.ID); i >= 0 {
		now, err := w.change(ctx, t, func(t *task.Task) error {
			remove(t, p.ID)
			return nil
		})
		if err != nil {
			return nil, c.Fail(p.Task, err)
		}
		c.Changed(now, &t.Push[i], true)
	}
	if c.Version == wire.V10 {
		return jsontext.Value(`{}`), nil
	}
	return jsontext.Value(`null`), nil
}

// find returns the task of a call whose params have been read.
func (c *Call) find(p *wire.PushParams, violations []wire.Violation) (*task.Task, *jsonrpc.Error) {
	if len(violations) > 0 {
		return nil, c.Refuse(violations...)
	}
	t, err := c.Find(p.Tenant, p.Task)
	if err != nil {
		return nil, c.Fail(p.Task, err)
	}
	return t, nil
}

// change changes the webhooks of a task. It stores the change before the client gets an answer. It holds the lock of the task, so that
// two changes at different instances are both kept.
func (w *Webhooks) change(ctx context.Context, t *task.Task, change func(*task.Task) error) (*task.Task, error) {
	tasks := w.Deliverer.tasks
	unlock, err := tasks.Lock(ctx, t.Owner, t.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	now, err := tasks.Change(ctx, t.Owner, t.ID, change)
	if err != nil {
		return nil, err
	}
	w.Watch(ctx, now)
	_, err = tasks.Get(ctx, t.Owner, t.ID) // it stores the change
	return now, err
}
