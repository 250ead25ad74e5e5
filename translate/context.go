package translate

import (
	"context"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// callContext is the context of a call. It is part of the execution.
type callContext struct {
	context.Context
	execution *execution
}

type callKey struct{}

// CallOf returns the call that a context was made for, so that an [Observer] can
// tell to which call an exchange belongs; nil if there is none.
func CallOf(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}

// Value implements [context.Context].
func (c *callContext) Value(key any) any {
	switch key.(type) {
	case callKey:
		return &c.execution.call
	case credential.OwnerKey:
		return c.execution.call.Principal
	case run.StopKey:
		return &c.execution.stop
	case discovery.HoldKey:
		return &c.execution.hold
	case exchange.AnswerBudgetKey:
		return c.execution.call.Answer
	}
	return c.Context.Value(key)
}
