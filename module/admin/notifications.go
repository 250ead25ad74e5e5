package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
)

// notificationsTimeout bounds the reading of databases.
const notificationsTimeout = 5 * time.Second

// Notifications are what webhooks of callers were not told yet, as far as the databases can be read.
type Notifications struct {
	delivery.Waiting
	// Unread are the databases that could not be read.
	Unread []Unread `json:"unread,omitempty"`
}

func (adminAPI) notifications(r *http.Request) (answer Notifications) {
	ctx, cancel := context.WithTimeout(r.Context(), notificationsTimeout)
	defer cancel()
	waiting, unread := fronts.WaitingNotifications(ctx)
	answer.Waiting = *waiting
	for _, u := range unread {
		answer.Unread = addUnread(answer.Unread, u.DB, u.Err)
	}
	for i := range answer.Receivers {
		r := &answer.Receivers[i]
		r.Host, r.Principal = shown(r.Host), shown(r.Principal)
	}
	return answer
}
