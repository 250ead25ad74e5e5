package push

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// Webhooks has the options of one configuration for webhooks. Its fields must not be changed while it is used.
type Webhooks struct {
	// Client checks URLs and sends requests.
	webhook.Client
	// Deliverer sends the events. It is required.
	Deliverer *Deliverer
	// Sealer encrypts secrets. It is required.
	Sealer *runtoken.Sealer
	// Owns reports whether the tasks of an owner belong to this configuration. It is not called before Begin. It is required.
	Owns func(owner string) bool
	// Continue follows the run of a task until the end, unless this process does. May be nil.
	Continue func(ctx context.Context, t *task.Task)
	// Attempted is called after each request, from several goroutines at a time. May be nil.
	Attempted func(a *Attempt)
	// Panicked is called after a panic, with its stack. May be nil.
	Panicked func(ctx context.Context, value any, stack []byte)

	begin, end sync.Once
}

// Begin makes the Deliverer use the configuration, and take over the tasks of instances that have ended. Further calls have no effect.
func (w *Webhooks) Begin() { w.begin.Do(func() { w.Deliverer.attach(w) }) }

// End makes the Deliverer no longer use the configuration. Begin has no effect after it.
func (w *Webhooks) End() {
	w.begin.Do(func() {})
	w.end.Do(func() { w.Deliverer.webhooks.Remove(w) })
}

// Secrets authenticate the bridge to a webhook. They format as [redacted].
type Secrets struct{ Token, Credentials string }

// String implements [fmt.Stringer] without the secrets.
func (Secrets) String() string { return "[redacted]" }

// GoString implements [fmt.GoStringer] without the secrets.
func (Secrets) GoString() string { return "[redacted]" }

// Seal encrypts the secrets of a webhook for a task. The result is empty if there are none.
func (w *Webhooks) Seal(ctx context.Context, owner, id string, s Secrets) (string, error) {
	if s == (Secrets{}) {
		return "", nil
	}
	text := string(binary.AppendUvarint(nil, uint64(len(s.Token)))) + s.Token + s.Credentials
	return w.Sealer.SealText(ctx, text, purpose, owner, id)
}

// purpose is part of the binding of sealed secrets.
const purpose = "a2a push"

// open is the inverse of Seal. old means that there is a newer key, with which the secrets should be sealed again.
func (w *Webhooks) open(ctx context.Context, owner, id, sealed string) (s Secrets, old bool, err error) {
	if sealed == "" {
		return Secrets{}, false, nil
	}
	text, old, err := w.Sealer.OpenText(ctx, sealed, purpose, owner, id)
	if err != nil {
		return Secrets{}, false, err
	}
	n, digits := binary.Uvarint([]byte(text))
	if digits <= 0 || n > uint64(len(text[digits:])) {
		return Secrets{}, false, runtoken.ErrInvalid
	}
	return Secrets{text[digits:][:n], text[digits:][n:]}, old, nil
}

// Watch makes sure that another instance takes over the webhooks of a task if this one ends. Call it before the client gets the
// answer that sets a webhook.
func (w *Webhooks) Watch(ctx context.Context, t *task.Task) {
	w.Begin()
	if d := w.Deliverer; d.index != nil && len(t.Push) > 0 && !t.Status.State.Terminal() {
		_ = d.index.Note(ctx, t.Owner, t.ID, t.Event) // if it fails, the next event tries it again
	}
}
