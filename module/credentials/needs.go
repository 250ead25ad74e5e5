package credentials

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// needs returns the scopes that calls of skills with these authentications need.
func (c *userClient) needs(auths ...*document.Auth) []string {
	if len(c.Scopes) > 0 && !c.added {
		return c.Scopes
	}
	return union(c.Scopes, described(auths))
}

// described returns the scopes of descriptors with some authentications.
func described(auths []*document.Auth) (scopes []string) {
	for _, auth := range auths {
		scopes = append(scopes, tokens.ScopesOf(auth)...)
	}
	return scopes
}

// endpoint returns the token endpoint of skills with an authentication; empty: it is not known.
func (c *userClient) endpoint(auth *document.Auth) string {
	if c.TokenURL == "" && auth != nil && auth.OAuth2 != nil {
		if u, err := tokens.ParseURL(auth.OAuth2.TokenURL); err == nil {
			return u.String()
		}
	}
	return c.TokenURL
}

// holds reports whether a row is a grant of this client at the token endpoint of skills with an authentication; nil: of some skill.
func (c *userClient) holds(row *grantRow, auth *document.Auth) bool {
	endpoint := c.endpoint(auth)
	return row != nil && row.ClientID == c.ID && (endpoint == "" || row.TokenURL == endpoint)
}

// update gives a grant of this client what revoking its token needs now. That of another server stays as it is, so that the server gets nothing of this one's.
func (c *userClient) update(row *grantRow) {
	if c.holds(row, nil) {
		row.Secret, row.InBody = c.Secret, c.InBody
		if row.Revoke = cmp.Or(row.Revoke, c.revocationURL); c.TokenURL != "" { // else it may be that of another token endpoint
			row.Revoke = cmp.Or(c.revocationURL, row.Revoke)
		}
	}
}

// union returns the sorted elements of several lists.
func union(lists ...[]string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(lists...))))
}

// maxScopeBytes bounds what a server names, so that a link and a cookie can have it, with spaces in between.
const maxScopeBytes = 2048

// valid returns the scopes of a server that can be asked for, of the first ones.
func valid(scopes []string) []string {
	left := maxScopeBytes
	return slices.DeleteFunc(slices.Clone(scopes[:min(len(scopes), tokens.MaxScopes)]), func(scope string) bool {
		fits := len(scope) < left && options.CheckScope(scope) == nil
		if fits {
			left -= len(scope) + 1
		}
		return !fits
	})
}

// look returns the grant of an owner, and what it lacks; the grant as it was at most so long ago, and if it lacks something, as it was a shorter time ago.
func (o *OAuth2User) look(
	ctx context.Context, c *userClient, owner string, auth *document.Auth, scopes []string, ages ...time.Duration,
) (g *held, missing, failure *run.Failure) {
	for _, age := range ages {
		if g, failure = o.grants.read(ctx, owner, age); failure != nil {
			return nil, nil, failure
		}
		if missing = o.missing(c, g, auth, scopes); missing == nil {
			break
		}
	}
	return g, missing, nil
}

// missing returns the failure of a call with a grant that is not enough for a skill with this authentication and for further scopes; nil: it is.
func (o *OAuth2User) missing(c *userClient, g *held, auth *document.Auth, scopes []string) *run.Failure {
	needed, granted := union(c.needs(auth), scopes), []string(nil)
	usable := c.holds(g.row, auth) && !g.row.ended(time.Now())
	if usable {
		granted = g.row.Scopes
	}
	if usable && !slices.ContainsFunc(needed, func(scope string) bool { return !slices.Contains(granted, scope) }) {
		return nil
	}
	e := run.NotExecuted(run.AuthRequired, run.PhaseAuth, "The skill acts for its user at the provider, and the user has not connected an account there yet.")
	if usable {
		e.Message = "The user has connected an account at the provider, but has not consented to all that the skill does."
	}
	if usable && len(scopes) > 0 {
		e.Kind = run.PermissionDenied // by the provider
	}
	d := exchange.DemandOf(auth, run.Provider, "")
	d.Type, d.TokenURL = string(document.AuthOAuth2), ""
	d.AuthorizationURL = cmp.Or(c.authorizationURL, d.AuthorizationURL)
	d.ConnectURL = o.grants.URL + "/" + url.PathEscape(o.grants.Namespace)
	if all := union(needed, granted); len(all) > 0 {
		d.ConnectURL += "?scopes=" + url.QueryEscape(strings.Join(all, " "))
	}
	e.Demand = d
	return e
}

// readTimeout bounds reading a grant for a list of skills.
const readTimeout = 2 * time.Second

// Missing implements [credential.Personal].
func (o *OAuth2User) Missing(
	ctx context.Context, owner string, auth *document.Auth, scopes []string, others func(context.Context) []*document.Auth,
) *run.Failure {
	if owner == "" || o.grants == nil || !o.Supports(auth) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	scopes = valid(scopes)
	c := o.client.get()
	_, missing, _ := o.look(ctx, c, owner, auth, scopes, rowFresh, missingFresh) // nil if it is not known
	if missing != nil && others != nil && c.TokenURL == "" && o.named.differ(c, c.endpoint(auth), func() []*document.Auth { return others(ctx) }) {
		return tokens.AuthRequired(run.Bridge, c.endpoint(auth), tokens.Refusal{
			Reason: "token_urls_differ", Message: "Skills of this provider name different token endpoints, so that no account of a user is for all of them.",
			Advice: "write token_url and authorization_url in the Caddyfile",
		})
	}
	if missing != nil && len(scopes) > 0 {
		if err := o.grants.remember(ctx, scopes); err != nil {
			o.grants.Warn("the scopes that a provider asks for could not be written to the database, so that users are not asked for them", err)
			return nil
		}
	}
	return missing
}

// namedEndpoints are the token endpoints that the skills of a source name, as they were a moment ago: a list asks for each skill.
type namedEndpoints struct {
	mu  sync.Mutex
	at  time.Time
	all map[string]bool
}

// differ reports whether a skill with one of these authentications has another token endpoint.
func (n *namedEndpoints) differ(c *userClient, endpoint string, auths func() []*document.Auth) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.at) > missingFresh {
		n.at, n.all = time.Now(), map[string]bool{}
		for _, auth := range auths() {
			n.all[c.endpoint(auth)] = true
		}
	}
	return len(n.all) > 1 || len(n.all) == 1 && !n.all[endpoint]
}

// Asks returns the scopes that a user is asked for: of those of a link, what skills of the source with these authentications need, or a refusal of the provider has
// named; else what all of these skills need; and always what is granted already.
func (o *OAuth2User) Asks(ctx context.Context, link []string, auths []*document.Auth, granted *Grant) []string {
	c := o.client.get()
	refused, _, err := o.grants.known(ctx)
	if err != nil {
		o.grants.Warn("the scopes that a provider asks for can't be read from the database", err)
	}
	named := slices.Concat(c.needs(auths...), refused)
	asked := slices.DeleteFunc(slices.Clone(link), func(scope string) bool { return !slices.Contains(named, scope) })
	switch {
	case len(asked) == 0:
		asked = c.needs(auths...)
	case c.added:
		asked = append(asked, c.Scopes...)
	}
	return union(asked, cmp.Or(granted, new(Grant)).Scopes)
}
