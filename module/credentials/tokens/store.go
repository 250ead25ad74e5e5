package tokens

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// FetchTimeout bounds fetching a token.
	FetchTimeout = 10 * time.Second
	// failureLifetime is how long calls get the error of a refused token request without a new
	// one, and the minimum time between a failed early refresh and the next one.
	failureLifetime = 5 * time.Second
	// renewalPause is the minimum time between two replacements of rejected tokens, because a
	// provider that rejects all tokens would otherwise cause a token request for each call. In that
	// time, calls use the rejected token.
	renewalPause = 30 * time.Second
	// maxRetryAfter bounds the Retry-After of a token endpoint.
	maxRetryAfter = 10 * time.Minute
	// maxEarly is the maximum time before its expiry at which a token is replaced.
	maxEarly = 60 * time.Second
	// maxGrants is how many grants of one configuration are in memory at least: users have grants,
	// and documents can name token endpoints and scopes.
	maxGrants = 1024
)

// tokenPool keeps the tokens of each configuration across reloads. Its keys are digests of the
// configuration.
var tokenPool = lifetime.NewPool[*Store]()

// HoldStore returns the tokens of a configuration, from the pool until release is called. Requests may still use them after that.
func HoldStore(c *Client) (s *Store, release func()) {
	s, release, _ = tokenPool.Hold(c.Key, func() (*Store, error) { return new(Store), nil }) // it can't fail
	return s, release
}

// Store holds the tokens of one configuration. All modules with this configuration share it,
// and it outlives each of them, so it holds only data.
type Store struct {
	mu      sync.Mutex
	grants  Recent[*grant]     // by Key
	fetches singleflight.Group // likewise
}

// Key identifies a grant: the client, which is another one after a secret was replaced, the token endpoint, the origin of the provider that gets the token, what the token may be used for (the scopes, or what a
// user has consented to), and whose it is; empty: the bridge's.
type Key struct{ Client, TokenURL, Origin, Scopes, Owner string }

func (k Key) String() string {
	return fmt.Sprintf("%q", []string{k.Client, k.TokenURL, k.Origin, k.Scopes, k.Owner})
}

// grant is the state of the tokens from one endpoint for one provider. The store's lock guards it.
type grant struct {
	token    *Access   // nil: none, or rejected
	obtained time.Time // when the newest token was, which may be rejected
	refresh  Refresh

	failure   *run.Failure // of the last fetch; calls before until get it; may be nil
	until     time.Time    // the earliest time of the next token request; zero: now
	renewable time.Time    // the earliest time of the next replacement of a rejected token
	fetching  bool
}

// replace sets the token.
func (g *grant) replace(token *Access) { g.token, g.obtained = token, token.Obtained }

// recentFailure returns the failure of the last fetch if calls still get it, otherwise nil.
func (g *grant) recentFailure(now time.Time) *run.Failure {
	if g.failure == nil || !now.Before(g.until) {
		return nil
	}
	e := new(*g.failure)
	if e.Retry != nil {
		e.Retry = retryOnceAfter(g.until.Sub(now))
	}
	return e
}

// Access is a token and its lifetime.
type Access struct {
	Value    string
	Obtained time.Time
	Expires  time.Time // zero: unknown, so used until it is rejected
}

// Valid reports whether there is a token that has not expired.
func (t *Access) Valid(now time.Time) bool {
	return t != nil && (t.Expires.IsZero() || now.Before(t.Expires))
}

// refreshDue reports whether the token should be replaced: in the last tenth of its lifetime, or in
// its last minute if that is shorter.
func (t *Access) refreshDue(now time.Time) bool {
	if t.Expires.IsZero() {
		return false
	}
	early := min(t.Expires.Sub(t.Obtained)/10, maxEarly)
	return !now.Before(t.Expires.Add(-early))
}

// Refresh is the newest refresh token of a grant.
type Refresh struct {
	Value   string // "": the configured or the stored one
	Unsaved bool   // it could not be stored, or has to be stored again
	Version int64  // of the thing that was to be replaced, if the token is not saved
	// Obtained is when the newest access token was that the store has known, if another instance may have got a newer one.
	Obtained time.Time
	Fixed    bool // the endpoint did not replace it when it was used last
}

// Granted is the result of a token request.
type Granted struct {
	Access  Access
	Scopes  []string // of the response; none: those that were asked for
	Account string   // a digest of whose the token is; empty: the response does not say it
	Refresh Refresh
	After   time.Duration // Retry-After of an error response
}

// Fetch obtains a token. newest is the refresh token that the previous fetch returned. The result
// has a refresh token even with an error.
type Fetch func(ctx context.Context, newest Refresh) (Granted, *run.Failure)

// Get returns a token: the known one if it is valid, otherwise one that f obtains. Shortly before
// the known token expires, Get starts a fetch without waiting for it. A token that a provider has
// rejected is replaced, unless that was done already; it fails if the previous replacement was too
// recent (see renewalPause). Rejected is empty if none was.
func (s *Store) Get(ctx context.Context, key Key, rejected string, f Fetch) (string, error) {
	now := time.Now()
	s.mu.Lock()
	g := s.grant(key)
	if g.token != nil && g.token.Value == rejected {
		if early := g.renewable.Sub(now); early > 0 {
			s.mu.Unlock()
			return "", rejectedAgain(key.TokenURL, early)
		}
		g.token, g.renewable = nil, now.Add(renewalPause)
	}
	if !g.token.Valid(now) {
		return s.await(ctx, key, g, f)
	}
	defer s.mu.Unlock()
	if g.token.refreshDue(now) && !now.Before(g.until) {
		s.fetch(key, g, f)
	}
	return g.token.Value, nil
}

// Adopt takes the access token of a grant from the database, unless the known one is newer.
func (s *Store) Adopt(key Key, token *Access) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.grant(key); token.Obtained.After(g.obtained) {
		g.replace(token)
		g.failure, g.until = nil, time.Time{}
	}
}

// grant returns the grant of key, which it creates if there is none. The caller holds the lock.
func (s *Store) grant(key Key) *grant {
	name := key.String()
	g, ok := s.grants.Get(name)
	if !ok {
		g = new(grant)
	}
	s.grants.Put(name, g, maxGrants)
	return g
}

// await waits for the fetch in progress, or for a new one, and returns its token. It fails at once
// with a recent failure, and when ctx ends. The caller holds the lock; await releases it.
func (s *Store) await(ctx context.Context, key Key, g *grant, f Fetch) (string, error) {
	if !g.fetching {
		if failure := g.recentFailure(time.Now()); failure != nil {
			s.mu.Unlock()
			return "", failure
		}
	}
	fetched := s.fetch(key, g, f)
	s.mu.Unlock()
	select {
	case r := <-fetched:
		if failure, ok := errors.AsType[*run.Failure](r.Err); ok {
			return "", new(*failure) // callers change theirs
		}
		return r.Val.(string), nil
	case <-ctx.Done():
		e := run.NotExecuted(run.DeadlineExceeded, run.PhaseAuth, "The call ended before the token endpoint had answered.")
		e.Cause = context.Cause(ctx)
		return "", e
	}
}

// Fetch starts a fetch unless one is in progress. The fetch continues after its callers and the
// configuration have ended, because others may wait for it, and because a new refresh token in the
// response would be lost. The caller holds the lock.
func (s *Store) fetch(key Key, g *grant, f Fetch) <-chan singleflight.Result {
	g.fetching = true
	newest := g.refresh
	newest.Obtained = g.obtained
	return s.fetches.DoChan(key.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), FetchTimeout)
		defer cancel()
		granted, failure := recovering(ctx, f, newest)
		s.mu.Lock()
		defer s.mu.Unlock()
		g.finish(granted, failure)
		if failure != nil {
			return nil, failure
		}
		return granted.Access.Value, nil
	})
}

// recovering calls f and turns a panic, for example in a storage module, into an error.
func recovering(ctx context.Context, f Fetch, newest Refresh) (granted Granted, err *run.Failure) {
	if bug := panics.Recovered(func() { granted, err = f(ctx, newest) }); bug != nil {
		granted = Granted{Refresh: newest}
		err = run.NotExecuted(run.Internal, run.PhaseAuth, "Fetching a token failed because of a bug in the bridge.")
		err.Cause = bug
	}
	return granted, err
}

// finish records the result of a fetch. The caller holds the lock.
func (g *grant) finish(granted Granted, err *run.Failure) {
	now := time.Now()
	g.fetching = false
	g.refresh = granted.Refresh
	g.failure, g.until = nil, time.Time{}
	if err == nil {
		g.replace(&granted.Access)
		return
	}
	g.until = now.Add(min(max(failureLifetime, granted.After), maxRetryAfter)) // also after a failed early refresh
	if granted.After > 0 || cacheable(err) {
		g.failure = err
	}
}

// cacheable reports whether later calls get the same failure for some time. They do after refusals
// of the token endpoint, but not after temporary failures.
func cacheable(err *run.Failure) bool {
	return err.Kind == run.AuthRequired && err.HTTPStatus >= 400 && err.HTTPStatus < 500
}
