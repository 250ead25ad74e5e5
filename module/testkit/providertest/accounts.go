package providertest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// ConnectURL is where the users of [Accounts] connect them.
const ConnectURL = "https://bridge.example.com/connect/acme?scopes=book"

// Accounts are credentials of which each principal has one of its own, as soon as its user has connected an account.
type Accounts struct {
	share.Signal
	Asked atomic.Int64 // how often it was asked whether one is missing

	mu      sync.Mutex
	granted map[string]bool
	scopes  map[string][]string // that the users have consented to, besides those of the descriptor
}

var _ credential.Personal = (*Accounts)(nil)

// Set says whether the user of a principal has connected an account, with further scopes, and tells those who wait for it.
func (a *Accounts) Set(principal string, granted bool, scopes ...string) {
	a.mu.Lock()
	defer a.Send()
	defer a.mu.Unlock()
	if a.granted == nil {
		a.granted, a.scopes = map[string]bool{}, map[string][]string{}
	}
	a.scopes[principal] = scopes
	a.granted[principal] = granted
}

// Missing implements [credential.Personal].
func (a *Accounts) Missing(_ context.Context, owner string, auth *document.Auth, scopes []string, _ func(context.Context) []*document.Auth) *run.Failure {
	a.Asked.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	kind, link := run.AuthRequired, ConnectURL
	if a.granted[owner] {
		i := slices.IndexFunc(scopes, func(scope string) bool { return scope != "book" && !slices.Contains(a.scopes[owner], scope) })
		if i < 0 {
			return nil
		}
		kind, link = run.PermissionDenied, ConnectURL+"+"+scopes[i]
	}
	demand := &run.Demand{By: run.Provider, Type: string(auth.Type), ConnectURL: link}
	if auth.OAuth2 != nil {
		demand.AuthorizationURL, demand.Scopes = auth.OAuth2.AuthorizationURL, auth.OAuth2.Scopes
	}
	return &run.Failure{
		Kind: kind, Phase: run.PhaseAuth, By: run.Bridge, Executed: run.ExecutedNo, Message: "The skill needs an account of the user.", Demand: demand,
	}
}

// Supports implements [credential.Credentials].
func (*Accounts) Supports(auth *document.Auth) bool {
	return auth != nil && auth.Type != document.AuthNone
}

// Authenticate implements [credential.Credentials].
func (a *Accounts) Authenticate(ctx context.Context, of *credential.Authentication) error {
	if missing := a.Missing(ctx, of.Owner, of.Auth, nil, nil); missing != nil {
		return missing
	}
	of.Request.Header.Set("Authorization", "Bearer "+of.Owner)
	return nil
}

// Secrets implements [credential.Credentials].
func (*Accounts) Secrets() []string { return nil }

// OAuth2 is the authentication of a skill with an account of its user.
func OAuth2() Object {
	return Object{"auth": Object{"type": "oauth2", "oauth2": Object{ //nolint:gosec // no credentials
		"authorization_url": "https://acme.example/authorize", "token_url": "https://acme.example/token", "scopes": Object{"book": "Book tables."},
	}}}
}
