package translate_test

import (
	"context"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// key is an API key in the header X-API-Key.
type key string

func (k key) Supports(auth *document.Auth) bool {
	return auth == nil || auth.Type == document.AuthAPIKey
}

func (k key) Authenticate(_ context.Context, a *credential.Authentication) error {
	a.Request.Header.Set("X-API-Key", string(k))
	return nil
}

func (k key) Secrets() []string { return []string{string(k)} }
