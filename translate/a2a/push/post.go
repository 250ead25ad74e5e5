package push

import (
	"context"
	"net/http"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// Attempt is one request to a webhook, for the operator. It has no secrets.
type Attempt struct {
	webhook.Answer

	Task, Skill, Webhook string        // the ids of the task and of the webhook, and the skill's name
	Version              string        // the version of A2A
	Event                uint64        // the number of the event
	Try                  int           // the number of the request for this event, from 1
	Retry                time.Duration // until the next request for the event; 0: it is the last one
	Lost                 bool          // the event is not sent again
	GivenUp              bool          // nothing more is sent to the webhook, since too many events in a row were lost
}

func (w *Webhooks) attempted(a *Attempt) {
	if w.Attempted != nil {
		w.Attempted(a)
	}
}

// post sends an event.
func (w *Webhooks) post(ctx context.Context, a *Attempt, p *task.PushConfig, s Secrets, body []byte) {
	a.Answer = w.Post(ctx, &webhook.Request{URL: p.URL, Header: header(p, s), Body: body, Secrets: []string{s.Credentials, s.Token}})
}

// header returns the header of a request to a webhook.
func header(p *task.PushConfig, s Secrets) http.Header {
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
