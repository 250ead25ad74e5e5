package bridge

import (
	"context"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Check returns the first fault of the configuration that can be found without
// loading modules. The error does not name the member that has the fault.
func (h *Handler) Check() error {
	if fault := h.check(); fault != nil {
		return fault.Err
	}
	return nil
}

// Token returns the run token of a run of a principal, for a program that has the handler in its process.
func (h *Handler) Token(ctx context.Context, ref run.Ref, principal string) (string, error) {
	return h.tokens.Seal(ctx, ref, principal)
}
