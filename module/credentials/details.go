package credentials

import (
	"errors"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// describe adds to a refused token request what the descriptor says about it:
// callers with different descriptors share the refusal.
func describe(err error, auth *skillsharing.Auth) error {
	e, ok := errors.AsType[*run.Failure](err)
	if !ok || e.Demand == nil || auth == nil || auth.OAuth2 == nil {
		return err
	}
	d := *e.Demand
	d.AuthorizationURL, d.Scopes, d.Quotes = auth.OAuth2.AuthorizationURL, auth.OAuth2.Scopes, true
	e.Demand = &d
	return e
}

// quoting notes that a descriptor has chosen the address that a failure names.
func quoting(e *run.Failure) {
	if e.Demand != nil {
		e.Demand.Quotes = true
	}
	if e.Reach != nil {
		e.Reach.Quotes = true
	}
}
