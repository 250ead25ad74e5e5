package push

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// event returns the request for an event of a version of a task; nil: the version has none, or no further one.
func (w *Webhooks) event(ctx context.Context, d *delivery.Delivery, e *ledger.Entry, part int) (*delivery.Event, error) {
	var to target
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
	body, more := bodyOf(versionOf(to.Version), t, part)
	if body == nil {
		return nil, nil //nolint:nilnil // see above
	}
	s, err := w.open(ctx, d.Run, to.Secrets)
	switch {
	case errors.Is(err, runtoken.ErrInvalid): // the key that sealed them has been removed
		return &delivery.Event{Never: "its secrets can't be decrypted any more"}, nil
	case err != nil:
		return nil, err
	}
	return &delivery.Event{Request: webhook.Request{URL: to.URL, Header: header(&to.PushConfig, s), Body: body, Secrets: []string{s.Credentials, s.Token}}, More: more}, nil
}

// bodyOf returns the body for an event of a version of a task, and whether there is a further one; nil: there is no such event.
func bodyOf(v wire.Version, t *task.Task, part int) (body []byte, more bool) {
	of, u := t, (*task.Update)(nil)
	if part != delivery.Whole {
		if part >= len(t.News) || t.News[part].Version != t.Entry.Version {
			return nil, false
		}
		all := t.Updates(t.Before)
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

// versionOf returns the version with a name.
func versionOf(name string) wire.Version {
	for v := wire.V01; v < wire.V10; v++ {
		if v.String() == name {
			return v
		}
	}
	return wire.V10
}

// header returns the header of a request to a webhook.
func header(p *wire.PushConfig, s secrets) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"caddy-skill-bridge"}}
	if versionOf(p.Version) == wire.V10 {
		h.Set("Content-Type", "application/a2a+json")
	}
	if p.Scheme != "" && s.Credentials != "" {
		h.Set("Authorization", p.Scheme+" "+s.Credentials)
	}
	if s.Token != "" {
		h["X-A2A-Notification-Token"] = []string{s.Token} // in the specification's spelling, which is not the canonical one
	}
	return h
}
