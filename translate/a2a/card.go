package a2a

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// extendedCard answers GetExtendedAgentCard and agent/getAuthenticatedExtendedCard.
func extendedCard(r *request) (jsontext.Value, *jsonrpc.Error) {
	f := r.front
	if f.ExtendedCard == nil {
		return nil, unsupported(r.version, "this agent has no extended card")
	}
	card, failure := f.ExtendedCard(r.ctx, r.HTTP, r.version, &r.caller)
	if failure != nil {
		return nil, r.failureError(failure)
	}
	return card, nil
}
