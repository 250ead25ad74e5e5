package demo

import (
	"context"
	"fmt"
	"os"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
)

// announceWhenStarted has standard output say where the bridge is, once Caddy
// listens. Caddy's log, which goes to standard error, does not say so.
func (h *Handler) announceWhenStarted(ctx caddy.Context) error {
	if h.Announce == "" {
		return nil
	}
	events, err := ctx.App("events")
	if err != nil {
		return err
	}
	return events.(*caddyevents.App).On("started", announcement(h.Announce))
}

// An announcement is the URL that is printed.
type announcement string

// Handle prints it.
func (a announcement) Handle(context.Context, caddy.Event) error {
	fmt.Fprintf(os.Stdout, "Skill Bridge listens on %s: open it in a browser, or POST JSON-RPC 2.0 to it.\n", a)
	return nil
}
