package a2a

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// Webhooks are the webhooks of tasks (A2A 1.0, section 4.3): which are there, and what their requests say. Package delivery sends these, in order and at least
// once. A webhook is a delivery, whose target has the URL and the sealed secrets; so tasks don't hold their webhooks, only that they have, or had, some.
//
// Each event of a task is sent until the webhook has taken it or six requests have failed, then the next one. A webhook that has lost five events in a row gets
// no more until it is set again. If versions of a task were missed, such as by a restart, the event has the whole task.
//
// The fields must not be changed while they are used, and are required unless they say otherwise.
type Webhooks struct {
	// Sender sends the requests. Events sets its Hears and Event.
	delivery.Sender
	// Deliverer sends the events.
	Deliverer *delivery.Deliverer
	// Ledger has the tasks.
	Ledger ledger.Viewed
	// Sealer encrypts secrets.
	Sealer *runtoken.Sealer
}

// Events returns what the Deliverer sends with.
func (w *Webhooks) Events() *delivery.Sender {
	w.Hears, w.Event = task.IsPushed, w.event
	return &w.Sender
}

const (
	// maxPerTask is the largest number of webhooks of a task, and maxPerOwner that of all tasks of an owner, beyond which no webhook can be set. A message
	// that makes a task can always bring its webhook: how many tasks are kept bounds these.
	maxPerTask  = 8
	maxPerOwner = 10_000
	// defaultID is the id of webhooks that clients of the older versions have not named.
	defaultID = "default"
)

// tooManyWebhooks describes the id of a webhook beyond the bounds.
var tooManyWebhooks = "must be that of one of the task's webhooks: it has " + strconv.Itoa(maxPerTask) + ", which is the maximum, or its caller has " +
	strconv.Itoa(maxPerOwner)

// inlinePrefixes are the paths of a webhook in the params that send a message.
var inlinePrefixes = [...]string{
	wire.V01: "pushNotification.", wire.V03: "configuration.pushNotificationConfig.", wire.V10: "configuration.taskPushNotificationConfig.",
}

// setWebhook adds a webhook to a task, or replaces the one with its id.
func setWebhook(r *request) (jsontext.Value, *jsonrpc.Error) {
	w, prefix := r.front.Push, "pushNotificationConfig."
	if r.version == wire.V10 {
		prefix = ""
	}
	if w == nil {
		return nil, pushNotSupported(r.version)
	}
	p, violations := wire.DecodePush(r.version, r.params())
	t, fault := r.taskOfWebhook(&p, violations)
	if fault != nil {
		return nil, fault
	}
	if problem := w.Client.Check(r.ctx, p.URL); problem != "" {
		return nil, r.invalid(prefix+"url", problem)
	}
	t, err := w.noted(r.ctx, t)
	if err != nil {
		return nil, r.taskError(p.Task, err)
	}
	made, fault := r.attach(t, &p, prefix)
	if fault != nil {
		return nil, fault
	}
	return wire.AppendPush(nil, r.version, t, made), nil
}

// attach adds a webhook to a task, or replaces the one with the same id. It gets the events of later versions. prefix is its path in the params.
func (r *request) attach(t *task.Task, p *wire.PushParams, prefix string) (*wire.PushConfig, *jsonrpc.Error) {
	w, id := r.front.Push, t.Entry.Identity()
	made, to, err := w.receiver(r.ctx, id, r.version, p)
	if err == nil {
		d := &delivery.Delivery{Run: id, Receiver: to.Name, Front: task.Front, Host: to.Host, Target: to.Target, Cursor: t.Entry.Version}
		err = w.Deliverer.Add(r.ctx, t.Entry, d, delivery.Bounds{OfRun: maxPerTask, OfOwner: maxPerOwner})
	}
	switch {
	case errors.Is(err, delivery.ErrTooMany):
		return nil, r.invalid(prefix+"id", tooManyWebhooks)
	case err != nil:
		return nil, r.taskError(t.ID, err)
	}
	r.changed(r.ctx, webhookSet, t, made.ID, made.URL)
	return made, nil
}

// attachTo adds the webhook of a message to its task. The message may be sent again, so that an id follows from it.
func attachTo(r *request, t *task.Task, send *wire.Send) (*task.Task, *jsonrpc.Error) {
	if send.Push.ID == "" && r.version == wire.V10 {
		send.Push.ID = uuid.NewSHA1(uuid.NameSpaceURL, []byte(send.Message.ID+" "+send.Push.URL)).String()
	}
	t, err := r.front.Push.noted(r.ctx, t)
	if err != nil {
		return nil, r.taskError(send.Task, err)
	}
	_, fault := r.attach(t, send.Push, inlinePrefixes[r.version])
	return t, fault
}

// getWebhook returns a webhook of a task. The older versions need no id of the webhook.
func getWebhook(r *request) (jsontext.Value, *jsonrpc.Error) {
	p, t, all, fault := r.webhooks(r.version == wire.V10)
	if fault != nil {
		return nil, fault
	}
	i := indexOf(all, p.ID)
	if p.ID == "" {
		i = max(indexOf(all, defaultID), min(0, len(all)-1)) // without a default one, the first
	}
	if i < 0 {
		return nil, wire.Error(r.version, wire.CodeTaskNotFound, "The task has no push notification config with this id",
			map[string]string{"taskId": p.Task, "pushNotificationConfigId": p.ID})
	}
	return wire.AppendPush(nil, r.version, t, &all[i]), nil
}

// listWebhooks returns the webhooks of a task.
func listWebhooks(r *request) (jsontext.Value, *jsonrpc.Error) {
	_, t, all, fault := r.webhooks(false)
	if fault != nil {
		return nil, fault
	}
	return wire.AppendPushList(nil, r.version, t, all), nil
}

// deleteWebhook removes a webhook from a task. It succeeds also if there is no such webhook.
func deleteWebhook(r *request) (jsontext.Value, *jsonrpc.Error) {
	p, t, all, fault := r.webhooks(true)
	if fault != nil {
		return nil, fault
	}
	if i := indexOf(all, p.ID); i >= 0 {
		if err := r.front.Push.Deliverer.Remove(r.ctx, delivery.Key{Run: t.Entry.Identity(), Receiver: p.ID}); err != nil {
			return nil, r.taskError(p.Task, err)
		}
		r.changed(r.ctx, webhookDeleted, t, p.ID, all[i].URL)
	}
	if r.version == wire.V10 {
		return jsontext.Value(`{}`), nil
	}
	return jsontext.Value(`null`), nil
}

// webhooks reads the params of a method about webhooks that are there, and returns their task and all of these. named says that the params need the id of one.
func (r *request) webhooks(named bool) (p wire.PushParams, t *task.Task, all []wire.PushConfig, fault *jsonrpc.Error) {
	if r.front.Push == nil {
		return p, nil, nil, pushNotSupported(r.version)
	}
	p, violations := wire.DecodePushQuery(r.version, r.params(), named)
	if t, fault = r.taskOfWebhook(&p, violations); fault != nil {
		return p, nil, nil, fault
	}
	all, err := r.front.Push.of(r.ctx, t)
	if err != nil {
		return p, nil, nil, r.taskError(p.Task, err)
	}
	return p, t, all, nil
}

// taskOfWebhook returns the task that params with some violations are about.
func (r *request) taskOfWebhook(p *wire.PushParams, violations []wire.Violation) (*task.Task, *jsonrpc.Error) {
	if len(violations) > 0 {
		return nil, r.violated(violations...)
	}
	r.tenant = p.Tenant
	t, err := r.find(p.Task)
	if err != nil {
		return nil, r.taskError(p.Task, err)
	}
	return t, nil
}

// of returns the webhooks of a task, in the order in which they were set.
func (w *Webhooks) of(ctx context.Context, t *task.Task) (all []wire.PushConfig, err error) {
	rows, err := w.Deliverer.Of(ctx, t.Entry.Identity())
	if err != nil {
		return nil, err
	}
	for _, d := range rows {
		var p wire.PushConfig
		if json.Unmarshal(d.Target, &p) == nil { // else it is none of this package
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b wire.PushConfig) int { return cmp.Compare(a.Set, b.Set) })
	return all, nil
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

// noted notes in a task that it has webhooks, so that its later versions are looked at, and returns its newest version. A task that has ended has no later ones.
func (w *Webhooks) noted(ctx context.Context, t *task.Task) (*task.Task, error) {
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

// receiver returns a webhook of a task, and the receiver that it is.
func (w *Webhooks) receiver(ctx context.Context, id ledger.Identity, v wire.Version, p *wire.PushParams) (*wire.PushConfig, *ledger.Receiver, error) {
	made := &wire.PushConfig{ID: idOf(v, p), URL: p.URL, Scheme: p.Scheme, Version: v.String(), Set: time.Now().UnixNano()}
	if made.ID == "" {
		made.ID = uuid.Must(uuid.NewV7()).String()
	}
	if p.Token != "" || p.Credentials != "" {
		secrets, err := json.Marshal([]string{p.Token, p.Credentials})
		if err != nil {
			return nil, nil, err
		}
		if made.Secrets, err = w.Sealer.SealText(ctx, string(secrets), binding(id)...); err != nil {
			return nil, nil, err
		}
	}
	text, err := json.Marshal(made)
	return made, &ledger.Receiver{Name: made.ID, Host: webhook.HostOf(p.URL), Target: text}, err
}

// binding is what the sealed secrets of a webhook are bound to.
func binding(id ledger.Identity) []string {
	return []string{"a2a push", id.Owner.Realm + "\n" + id.Owner.Principal, id.ID}
}

// event returns the request for an event of a version of a task; nil: the version has none, or no further one.
func (w *Webhooks) event(ctx context.Context, d *delivery.Delivery, e *ledger.Entry, part int) (*delivery.Event, error) {
	var to wire.PushConfig
	if err := json.Unmarshal(d.Target, &to); err != nil {
		return &delivery.Event{Never: "its webhook is damaged"}, nil
	}
	apart, err := w.Ledger.Stored(ctx, e)
	if err != nil {
		return nil, err
	}
	t, err := task.FromEntry(e, apart)
	if errors.Is(err, run.ErrDamaged) {
		return &delivery.Event{Never: "its task is damaged"}, nil
	} else if err != nil {
		return nil, err
	}
	version := cmp.Or(ParseVersion(to.Version), wire.V10)
	body, more := eventBody(version, t, part)
	if body == nil {
		return nil, nil //nolint:nilnil // see above
	}
	secrets := make([]string, 2) // the token and the credentials
	if to.Secrets != "" {
		text, _, err := w.Sealer.OpenText(ctx, to.Secrets, binding(d.Run)...)
		if err == nil && json.Unmarshal([]byte(text), &secrets) != nil {
			err = runtoken.ErrInvalid
		}
		switch {
		case errors.Is(err, runtoken.ErrInvalid) || err == nil && len(secrets) != 2: // the key that sealed them has been removed
			return &delivery.Event{Never: "its secrets can't be decrypted any more"}, nil
		case err != nil:
			return nil, err
		}
	}
	header := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"caddy-skill-bridge"}}
	if version == wire.V10 {
		header.Set("Content-Type", "application/a2a+json")
	}
	if to.Scheme != "" && secrets[1] != "" {
		header.Set("Authorization", to.Scheme+" "+secrets[1])
	}
	if secrets[0] != "" {
		header["X-A2A-Notification-Token"] = secrets[:1] // in the specification's spelling, which is not the canonical one
	}
	return &delivery.Event{Request: webhook.Request{URL: to.URL, Header: header, Body: body, Secrets: secrets}, More: more}, nil
}

// eventBody returns the body for an event of a version of a task, and whether there is a further one; nil: there is no such event.
func eventBody(v wire.Version, t *task.Task, part int) (body []byte, more bool) {
	of, u := t, (*task.Update)(nil)
	if part != delivery.Whole {
		if part >= len(t.News) || t.News[part].Version != t.Entry.Version {
			return nil, false
		}
		all := t.Updates(t.Before())
		u, more = &all[part], part+1 < len(t.News)
		of = u.Task
	}
	switch {
	case v != wire.V10:
		return wire.AppendTask(nil, v, of, nil, true), more
	case u == nil || u.Number == 1:
		return wire.AppendSendResult(nil, v, of, nil), more
	}
	return wire.UpdateEvent(v, u, false).AppendTo(nil), more
}
