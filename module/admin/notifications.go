package admin

import (
	"net/http"

	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
)

// notifications returns the ends of runs that callers were not told yet.
func (adminAPI) notifications(*http.Request) any {
	answer := fronts.WaitingNotifications()
	for i := range answer.Receivers {
		r := &answer.Receivers[i]
		r.Host, r.Principal = shown(r.Host), shown(r.Principal)
	}
	return answer
}
