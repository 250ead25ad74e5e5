package translate

import (
	"context"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
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
	case discovery.HoldKey:
		return &c.execution.hold
	case exchange.AnswerBudgetKey:
		return c.execution.call.Answer
	}
	return c.Context.Value(key)
}

// Request has what all calls of one HTTP request share.
type Request struct {
	run.Caller
	// Checks bounds the cost of checking inputs.
	Checks inputs.Checks
}

type requestKey struct{}

// WithCaller returns a context with a new [Request] of a caller, for the front that answers the HTTP request.
func WithCaller(ctx context.Context, c run.Caller) context.Context {
	return context.WithValue(ctx, requestKey{}, &Request{Caller: c})
}

// RequestOf returns the request of a context. Without one, it returns a new request of an anonymous caller.
func RequestOf(ctx context.Context) *Request {
	if r, ok := ctx.Value(requestKey{}).(*Request); ok {
		return r
	}
	return new(Request)
}
