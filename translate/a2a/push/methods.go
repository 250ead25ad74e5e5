package push

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
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
	Changed func(t *task.Task, w *wire.PushConfig, deleted bool)
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
	t, err := w.pushed(ctx, t)
	if err != nil {
		return nil, c.Fail(p.Task, err)
	}
	made, err := w.Attach(ctx, t, c.Version, &p, t.Entry.Version)
	switch {
	case errors.Is(err, delivery.ErrTooMany):
		return nil, c.Refuse(wire.Violation{Field: prefixes[c.Version][0] + "id", Description: errTooMany.Error()})
	case err != nil:
		return nil, c.Fail(p.Task, err)
	}
	c.Changed(t, made, false)
	return wire.AppendPush(nil, c.Version, t, made), nil
}

// pushed notes in a task that it has webhooks, so that its later versions are looked at, and returns its newest version. A task that has ended has no later ones.
func (w *Webhooks) pushed(ctx context.Context, t *task.Task) (*task.Task, error) {
	if t.Status.State.Terminal() || t.Pushed {
		return t, nil
	}
	e, err := w.Ledger.Change(ctx, t.Entry.Identity(), func(next *ledger.Entry) error {
		_, err := task.Change(next, func(t *task.Task) error {
			if t.Pushed {
				return ledger.ErrUnchanged
			}
			t.Pushed = true
			return nil
		})
		return err
	})
	if e == nil || err != nil && !errors.Is(err, ledger.ErrEnded) && !errors.Is(err, ledger.ErrUnchanged) {
		return nil, err
	}
	own := *t
	own.Entry = e
	return &own, nil
}

// Get returns a webhook of a task. The older versions need no id of the webhook.
func (w *Webhooks) Get(ctx context.Context, c *Call) (jsontext.Value, *jsonrpc.Error) {
	p, t, all, fault := w.query(ctx, c, c.Version == wire.V10)
	if fault != nil {
		return nil, fault
	}
	i := indexOf(all, p.ID)
	if p.ID == "" {
		i = max(indexOf(all, defaultID), min(0, len(all)-1)) // without a default one, the first
	}
	if i < 0 {
		return nil, wire.Error(c.Version, wire.CodeTaskNotFound, "The task has no push notification config with this id",
			map[string]string{"taskId": p.Task, "pushNotificationConfigId": p.ID})
	}
	return wire.AppendPush(nil, c.Version, t, &all[i]), nil
}

// List returns the webhooks of a task.
func (w *Webhooks) List(ctx context.Context, c *Call) (jsontext.Value, *jsonrpc.Error) {
	_, t, all, fault := w.query(ctx, c, false)
	if fault != nil {
		return nil, fault
	}
	return wire.AppendPushList(nil, c.Version, t, all), nil
}

// Delete removes a webhook from a task. It succeeds also if there is no such webhook.
func (w *Webhooks) Delete(ctx context.Context, c *Call) (jsontext.Value, *jsonrpc.Error) {
	p, t, all, fault := w.query(ctx, c, true)
	if fault != nil {
		return nil, fault
	}
	if i := indexOf(all, p.ID); i >= 0 {
		if err := w.Deliverer.Remove(ctx, delivery.Key{Run: t.Entry.Identity(), Receiver: p.ID}); err != nil {
			return nil, c.Fail(p.Task, err)
		}
		c.Changed(t, &all[i], true)
	}
	if c.Version == wire.V10 {
		return jsontext.Value(`{}`), nil
	}
	return jsontext.Value(`null`), nil
}

// query returns the task of a call about webhooks that are there, and all of these. named says that the params need the id of one.
func (w *Webhooks) query(ctx context.Context, c *Call, named bool) (p wire.PushParams, t *task.Task, all []wire.PushConfig, fault *jsonrpc.Error) {
	p, violations := wire.DecodePushQuery(c.Version, c.Params, named)
	if t, fault = c.find(&p, violations); fault != nil {
		return p, nil, nil, fault
	}
	all, err := w.all(ctx, t)
	if err != nil {
		return p, nil, nil, c.Fail(p.Task, err)
	}
	return p, t, all, nil
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
