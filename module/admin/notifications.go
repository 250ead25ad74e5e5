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

// notifications returns what webhooks of callers were not told yet, as far as the databases can be read: their states are in the answer of stores.
func (adminAPI) notifications(r *http.Request) delivery.Waiting {
	ctx, cancel := context.WithTimeout(r.Context(), notificationsTimeout)
	defer cancel()
	answer, _ := fronts.WaitingNotifications(ctx)
	for i := range answer.Receivers {
		r := &answer.Receivers[i]
		r.Host, r.Principal = shown(r.Host), shown(r.Principal)
	}
	return *answer
}
