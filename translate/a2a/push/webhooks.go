package push

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// Webhooks has the options of one configuration for webhooks. Its fields must not be changed while it is used, and are required unless they say otherwise.
type Webhooks struct {
	// Sender sends the requests. Begin sets its Hears and Event.
	delivery.Sender
	// Deliverer sends the events.
	Deliverer *delivery.Deliverer
	// Ledger has the tasks.
	Ledger ledger.Viewed
	// Sealer encrypts secrets.
	Sealer *runtoken.Sealer
}

// Begin makes the Deliverer use the configuration.
func (w *Webhooks) Begin() {
	w.Hears, w.Event = task.IsPushed, w.event
	w.Deliverer.Begin(&w.Sender)
}

// End makes the Deliverer no longer use the configuration. It is called after Begin.
func (w *Webhooks) End() { w.Deliverer.End(&w.Sender) }

const (
	// maxPerTask is the largest number of webhooks of a task, and maxPerOwner that of all tasks of an owner.
	maxPerTask  = 8
	maxPerOwner = 10_000
	// defaultID is the id of webhooks that clients of the older versions have not named.
	defaultID = "default"
)

// errTooMany means that a task has maxPerTask webhooks and can't get another one, or its owner has maxPerOwner.
var errTooMany = errors.New("must be that of one of the task's webhooks: it has " + strconv.Itoa(maxPerTask) + ", which is the maximum, or its caller has " +
	strconv.Itoa(maxPerOwner))

// target is the JSON of a webhook in its delivery.
type target struct {
	wire.PushConfig

	// Set is when the webhook was set, in nanoseconds.
	Set int64 `json:"set"`
}

// all returns the webhooks of a task, in the order in which they were set.
func (w *Webhooks) all(ctx context.Context, t *task.Task) ([]wire.PushConfig, error) {
	rows, err := w.Deliverer.Of(ctx, t.Entry.Identity())
	if err != nil {
		return nil, err
	}
	var targets []target
	for _, d := range rows {
		var to target
		if json.Unmarshal(d.Target, &to) == nil { // else it is none of this package
			targets = append(targets, to)
		}
	}
	slices.SortStableFunc(targets, func(a, b target) int { return int(min(max(a.Set-b.Set, -1), 1)) })
	configs := make([]wire.PushConfig, len(targets))
	for i := range targets {
		configs[i] = targets[i].PushConfig
	}
	return configs, nil
}

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
	if problem := w.Client.Check(ctx, p.URL); problem != "" {
		return &wire.Violation{Field: prefix + "url", Description: problem}
	}
	if t == nil {
		return nil
	}
	if all, err := w.all(ctx, t); err == nil && len(all) >= maxPerTask && indexOf(all, idOf(v, p)) < 0 { // else Attach fails
		return &wire.Violation{Field: prefix + "id", Description: errTooMany.Error()}
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

func indexOf(all []wire.PushConfig, id string) int {
	return slices.IndexFunc(all, func(p wire.PushConfig) bool { return p.ID == id })
}

// Attach adds a webhook to a task, or replaces the one with the same id. The task is stored. The webhook gets the events of its versions after a cursor, so
// call it before anything else happens to a task that was made with a webhook.
func (w *Webhooks) Attach(ctx context.Context, t *task.Task, v wire.Version, p *wire.PushParams, cursor int64) (*wire.PushConfig, error) {
	id := idOf(v, p)
	if id == "" {
		id = uuid.Must(uuid.NewV7()).String()
	}
	sealed, err := w.seal(ctx, t.Entry.Identity(), secrets{Token: p.Token, Credentials: p.Credentials})
	if err != nil {
		return nil, err
	}
	to := target{wire.PushConfig{ID: id, URL: p.URL, Secrets: sealed, Scheme: p.Scheme, Version: v.String()}, time.Now().UnixNano()}
	text, err := json.Marshal(&to)
	if err != nil {
		return nil, err
	}
	d := &delivery.Delivery{Run: t.Entry.Identity(), Receiver: id, Front: task.Front, Host: webhook.HostOf(p.URL), Target: text, Cursor: cursor}
	return &to.PushConfig, w.Deliverer.Add(ctx, t.Entry, d, delivery.Bounds{OfRun: maxPerTask, OfOwner: maxPerOwner})
}

// secrets authenticate the bridge to a webhook. They format as [redacted].
type secrets struct{ Token, Credentials string }

// String implements [fmt.Stringer] without the secrets.
func (secrets) String() string { return "[redacted]" }

// GoString implements [fmt.GoStringer] without the secrets.
func (secrets) GoString() string { return "[redacted]" }

// purpose is part of the binding of sealed secrets.
const purpose = "a2a push"

// seal encrypts the secrets of a webhook for a task. The result is empty if there are none.
func (w *Webhooks) seal(ctx context.Context, id ledger.Identity, s secrets) (string, error) {
	if s == (secrets{}) {
		return "", nil
	}
	text := string(binary.AppendUvarint(nil, uint64(len(s.Token)))) + s.Token + s.Credentials
	return w.Sealer.SealText(ctx, text, purpose, id.Owner.Realm+"\n"+id.Owner.Principal, id.ID)
}

// open is the inverse of seal.
func (w *Webhooks) open(ctx context.Context, id ledger.Identity, sealed string) (secrets, error) {
	if sealed == "" {
		return secrets{}, nil
	}
	text, _, err := w.Sealer.OpenText(ctx, sealed, purpose, id.Owner.Realm+"\n"+id.Owner.Principal, id.ID)
	if err != nil {
		return secrets{}, err
	}
	n, digits := binary.Uvarint([]byte(text))
	if digits <= 0 || n > uint64(len(text[digits:])) {
		return secrets{}, runtoken.ErrInvalid
	}
	return secrets{text[digits:][:n], text[digits:][n:]}, nil
}
