package translate

import (
	"context"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

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
