package push

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
)

const (
	// maxPerTask is the largest number of webhooks of a task.
	maxPerTask = 8
	// defaultID is the id of webhooks that clients of the older versions have not named.
	defaultID = "default"
)

// ErrTooMany means that a task has maxPerTask webhooks and can't get another one.
var ErrTooMany = errors.New("must be that of one of the task's webhooks: it has " + strconv.Itoa(maxPerTask) + ", which is the maximum")

// prefixes are the paths of a webhook in params: of its own methods, and of those that send a message.
var prefixes = [...][2]string{
	wire.V01: {"pushNotificationConfig.", "pushNotification."},
	wire.V03: {"pushNotificationConfig.", "configuration.pushNotificationConfig."},
	wire.V10: {"", "configuration.taskPushNotificationConfig."},
}

// Violation returns the error in a webhook that a client sets; nil: there is none. inline says that the webhook is part of a
// message. t is nil if that message makes the task.
func (w *Webhooks) Violation(ctx context.Context, v wire.Version, t *task.Task, p *wire.PushParams, inline bool) *wire.Violation {
	prefix := prefixes[v][0]
	if inline {
		prefix = prefixes[v][1]
	}
	if problem := w.Check(ctx, p.URL); problem != "" {
		return &wire.Violation{Field: prefix + "url", Description: problem}
	}
	if t != nil && len(t.Push) >= maxPerTask && indexOf(t, idOf(v, p)) < 0 {
		return &wire.Violation{Field: prefix + "id", Description: ErrTooMany.Error()}
	}
	return nil
}

// idOf returns the id of a webhook that a client sets; empty: the webhook gets a new one.
func idOf(v wire.Version, p *wire.PushParams) string {
	if p.ID == "" && v != wire.V10 {
		return defaultID
	}
	return p.ID
}

func indexOf(t *task.Task, id string) int {
	return slices.IndexFunc(t.Push, func(p task.PushConfig) bool { return p.ID == id })
}

// Make returns the webhook that a client sets for a task, with sealed secrets; nil: the client sets none.
func (w *Webhooks) Make(ctx context.Context, owner, id string, v wire.Version, p *wire.PushParams) (*task.PushConfig, error) {
	if p == nil {
		return nil, nil //nolint:nilnil // see above
	}
	sealed, err := w.Seal(ctx, owner, id, Secrets{Token: p.Token, Credentials: p.Credentials})
	if err != nil {
		return nil, err
	}
	made := &task.PushConfig{ID: idOf(v, p), URL: p.URL, Secrets: sealed, Scheme: p.Scheme, Version: v.String()}
	if made.ID == "" {
		made.ID = uuid.Must(uuid.NewV7()).String()
	}
	return made, nil
}

// Add adds a webhook to a task that is being made or changed, or replaces the one with the same id. The webhook gets the events
// of this change and all later ones. If the webhook is nil, Add does nothing.
func Add(t *task.Task, p *task.PushConfig) error {
	if p == nil {
		return nil
	}
	added := *p
	added.Set, added.Sent = t.Event, t.Event
	i := indexOf(t, p.ID)
	switch {
	case i >= 0:
		t.Push = slices.Clone(t.Push)
		t.Push[i] = added
	case len(t.Push) >= maxPerTask:
		return ErrTooMany
	default:
		t.Push = append(slices.Clip(t.Push), added)
	}
	return nil
}

// remove removes a webhook from a task that is being changed.
func remove(t *task.Task, id string) {
	t.Push = slices.DeleteFunc(slices.Clone(t.Push), func(p task.PushConfig) bool { return p.ID == id })
}
