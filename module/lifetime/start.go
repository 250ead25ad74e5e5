package lifetime

import (
	"context"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
)

// OnStart registers a function that is called when the configuration has started, with all routes provisioned. It is not
// called if a handler is provisioned without a running Caddy.
func OnStart(ctx caddy.Context, begin func()) error {
	app, err := ctx.AppIfConfigured("events")
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	return app.(*caddyevents.App).On("started", eventHandler(begin))
}

// eventHandler is called at an event of Caddy.
type eventHandler func()

// Handle implements caddyevents.Handler.
func (h eventHandler) Handle(context.Context, caddy.Event) error {
	h()
	return nil
}
