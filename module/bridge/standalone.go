package bridge

import (
	"errors"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
)

// Check reports what is wrong with the configuration, as far as that can be known
// without loading modules. The error does not name the member that is at fault.
func (h *Handler) Check() error {
	if fault := h.check(); fault != nil {
		return fault.Err
	}
	return nil
}

// Standalone is Provision for a program that asks providers and serves nothing: it
// makes the configuration of a bridge. The function that it returns releases what the
// bridge holds. Errors are like those of [Handler.Check].
func (h *Handler) Standalone(ctx caddy.Context) (*translate.Config, func(), error) {
	observe.Quiet() // until the process ends
	config, _, err := h.begin(ctx)
	if fault, ok := errors.AsType[*options.ConfigError](err); ok {
		err = fault.Err
	}
	if err != nil {
		return nil, nil, err
	}
	return config, h.usage.Leave, nil
}
