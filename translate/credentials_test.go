package translate_test

import (
	"context"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// key is an API key in the header X-API-Key.
type key string

func (k key) Suits(auth *skillsharing.Auth) bool {
	return auth == nil || auth.Type == skillsharing.AuthAPIKey
}

func (k key) Authenticate(_ context.Context, a *skillsharing.Authentication) error {
	a.Request.Header.Set("X-API-Key", string(k))
	return nil
}

func (k key) Secrets() []string { return []string{string(k)} }
