package admin

import (
	"context"
	"net/http"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// Status is all that the command status shows.
type Status struct {
	Inventory
	Providers     []Provider    `json:"providers"`
	Calls         Calls         `json:"calls"`
	Runs          Runs          `json:"runs"` // without the runs themselves
	Notifications Notifications `json:"notifications"`
	Stores        []Store       `json:"stores"`
	Changes
}

func (a adminAPI) status(r *http.Request) Status {
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	return Status{a.skills(r), a.providers(r), a.calls(r), runsOf(ctx, new(ledger.Query)), a.notifications(r), a.stores(r), a.changes(r)}
}
