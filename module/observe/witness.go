package observe

import (
	"context"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Witness is told what the calls of requests come to, as an operator is told it: a command whose user is the operator of the bridge in its process.
type Witness interface {
	// Called takes the outcome of a call.
	Called(*run.Run)
	// Noticed takes a notice for the operator, without secrets.
	Noticed(*exchange.Notice)
}

type witnessKey struct{}

// WithWitness returns a context for requests that have a witness.
func WithWitness(ctx context.Context, w Witness) context.Context {
	return context.WithValue(ctx, witnessKey{}, w)
}

// noWitness is the witness of all other requests.
type noWitness struct{}

func (noWitness) Called(*run.Run)          {}
func (noWitness) Noticed(*exchange.Notice) {}

func witnessOf(ctx context.Context) Witness {
	if w, ok := ctx.Value(witnessKey{}).(Witness); ok {
		return w
	}
	return noWitness{}
}
