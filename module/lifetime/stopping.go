package lifetime

import (
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
)

// Stopping returns a channel that is closed when the configuration begins to stop, since another one has replaced it or the process
// exits. Without a running Caddy, it is closed when the context ends.
func Stopping(ctx caddy.Context) (<-chan struct{}, error) {
	app, err := ctx.AppIfConfigured("events")
	if err != nil {
		return ctx.Done(), nil //nolint:nilerr // see above
	}
	stopping := make(chan struct{})
	return stopping, app.(*caddyevents.App).On("stopping", eventHandler(sync.OnceFunc(func() { close(stopping) })))
}
