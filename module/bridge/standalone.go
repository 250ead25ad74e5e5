package bridge

import (
	"errors"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/observe/stdlog"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
)

// Check returns the first fault of the configuration that can be found without
// loading modules. The error does not name the member that has the fault.
func (h *Handler) Check() error {
	if fault := h.check(); fault != nil {
		return fault.Err
	}
	return nil
}

// Standalone is like Provision, for a program that sends requests to providers but has
// no server. It returns the configuration of a bridge, and a function that releases
// what the bridge holds. Errors are like those of [Handler.Check].
func (h *Handler) Standalone(ctx caddy.Context) (*translate.Config, func(), error) {
	stdlog.Quiet() // until the process ends
	config, _, err := h.begin(ctx, nil)
	if fault, ok := errors.AsType[*options.ConfigError](err); ok {
		err = fault.Err
	}
	if err != nil {
		return nil, nil, err
	}
	return config, h.usage.Leave, nil
}
