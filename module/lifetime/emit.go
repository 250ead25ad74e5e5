package lifetime

import (
	"context"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"
)

// Emitter returns a function that emits events of the module of a context. It reports false if the configuration has ended, or if there is
// no running Caddy. It returns when all subscribers have, and a panic of a subscriber is only logged. It does not keep an ended configuration
// in memory.
func Emitter(ctx caddy.Context) func(name string, data map[string]any) bool {
	app, err := ctx.AppIfConfigured("events")
	if err != nil { // as in OnStart
		return func(string, map[string]any) bool { return false }
	}
	current := new(atomic.Pointer[emitter])
	current.Store(&emitter{ctx, app.(*caddyevents.App)})
	context.AfterFunc(ctx, func() { current.Store(nil) })
	return func(name string, data map[string]any) bool {
		e := current.Load()
		if e == nil || e.ctx.Err() != nil {
			return false
		}
		e.emit(name, data)
		return true
	}
}

// emitter emits events of a configuration.
type emitter struct {
	ctx caddy.Context
	app *caddyevents.App
}

func (e *emitter) emit(name string, data map[string]any) {
	defer func() {
		if value := recover(); value != nil {
			e.ctx.Logger().Error("panic in a subscriber of an event", zap.String("event", name), zap.Any("panic", value), zap.Stack("stack"))
		}
	}()
	e.app.Emit(e.ctx, name, data)
}

// maxEmitted bounds the events of a function of [InBackground] that are being emitted. Further ones are left out.
const maxEmitted = 64

// InBackground returns a function that emits events without waiting for their subscribers.
func InBackground(emit func(name string, data map[string]any) bool) func(name string, data map[string]any) {
	emitted := make(chan struct{}, maxEmitted)
	return func(name string, data map[string]any) {
		select {
		case emitted <- struct{}{}:
			go func() {
				defer func() { <-emitted }()
				emit(name, data)
			}()
		default:
		}
	}
}
