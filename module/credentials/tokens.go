package credentials

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// fetchTimeout bounds the fetching of a token.
	fetchTimeout = 10 * time.Second
	// failureLifetime is for how long a refusal of the token endpoint answers later
	// calls, and a failed early refresh is not repeated.
	failureLifetime = 5 * time.Second
	// firstRenewal is for how long a token that replaced a rejected one is not replaced,
	// though it is rejected, too. It doubles each time, up to lastRenewal: if a provider
	// rejects token after token, they are not the reason. Calls go on trying the token.
	firstRenewal = 5 * time.Second
	lastRenewal  = time.Minute
	// longestWait bounds what a token endpoint can ask for (Retry-After).
	longestWait = 10 * time.Minute
	// replacedLifetime is for how long a replaced token without an expiry counts as a
	// secret, and maxReplaced is how many of a grant do: more than are replaced in two
	// hours if each is rejected.
	replacedLifetime = 24 * time.Hour
	maxReplaced      = 128
	// maxEarly is how long before its expiry a token is replaced at most.
	maxEarly = 60 * time.Second
	// maxGrants bounds the audiences of one configuration, since documents can
	// name token endpoints.
	maxGrants = 64
)

// tokenStore holds the tokens obtained with one configuration. It is shared by
// all modules with this configuration and outlives each of them, so it keeps
// data only.
type tokenStore struct {
	mu      sync.Mutex
	grants  map[audience]*grant
	fetches singleflight.Group // keyed by audience
}

func newTokenStore() *tokenStore { return &tokenStore{grants: make(map[audience]*grant)} }

// audience is the token endpoint that issues a token and the origin that it is sent to.
type audience struct{ tokenURL, origin string }

// grant is the state of one audience. The store's lock guards it.
type grant struct {
	token    *accessToken  // nil: none, or rejected
	replaced []accessToken // the tokens before, oldest first, which runs and providers may still use
	refresh  refreshToken

	failure   *run.Failure  // of the last fetch, if it answers calls until then
	until     time.Time     // when the token endpoint is asked again; zero: at once
	renewable time.Time     // when a rejected token may be replaced again
	renewal   time.Duration // how long that was delayed
	fetching  bool
}

// replace puts a token in the place of another, or none. The one before remains a
// secret for as long as it can be used.
func (g *grant) replace(token *accessToken, now time.Time) {
	if g.token != nil {
		g.replaced = append(g.replaced, *g.token)
		for len(g.replaced) > 1 && (len(g.replaced) > maxReplaced || !g.replaced[0].usable(now)) {
			g.replaced = g.replaced[1:]
		}
	}
	g.token = token
}

// putOff records that a rejected token is being replaced, and delays the next
// replacement.
func (g *grant) putOff(now time.Time) {
	if g.token.obtained.IsZero() || now.Sub(g.token.obtained) > 2*g.renewal {
		g.renewal = 0 // the rejected token was accepted for a while
	}
	g.renewal = min(max(firstRenewal, 2*g.renewal), lastRenewal)
	g.renewable = now.Add(g.renewal)
}

// waiting returns the failure that answers a call instead of the token endpoint; nil: the
// endpoint is asked.
func (g *grant) waiting(now time.Time) *run.Failure {
	if g.failure == nil || !now.Before(g.until) {
		return nil
	}
	e := clone(g.failure)
	if e.Retry != nil {
		e.Retry = askLater(g.until.Sub(now))
	}
	return e
}

// accessToken is a token and its life time.
type accessToken struct {
	value    string
	obtained time.Time
	expires  time.Time // zero: not stated, so used until it is rejected
}

// usable reports whether a provider may still accept a token that was replaced.
func (t *accessToken) usable(now time.Time) bool {
	if t.expires.IsZero() {
		return now.Sub(t.obtained) < replacedLifetime
	}
	return now.Before(t.expires)
}

func (t *accessToken) valid(now time.Time) bool {
	return t != nil && (t.expires.IsZero() || now.Before(t.expires))
}

// ageing reports whether it is time to replace the token: in the last tenth of its
// life, or its last minute if that is shorter.
func (t *accessToken) ageing(now time.Time) bool {
	if t.expires.IsZero() {
		return false
	}
	early := min(t.expires.Sub(t.obtained)/10, maxEarly)
	return !now.Before(t.expires.Add(-early))
}

// refreshToken is the newest refresh token of a grant.
type refreshToken struct {
	value   string // "": the configured or the stored one
	unsaved bool   // storage holds an older one
}

// grantedToken is the result of a token request.
type grantedToken struct {
	access  accessToken
	refresh refreshToken
	after   time.Duration // Retry-After of a response that is an error
}

// fetch obtains a token. newest is the refresh token that the fetch before
// returned, and the new one is returned even beside an error.
type fetch func(ctx context.Context, newest refreshToken) (grantedToken, *run.Failure)

// get returns a token for key: the known one while it is valid, else one that f obtains.
// Shortly before the token expires, it starts to replace it, without waiting.
func (s *tokenStore) get(ctx context.Context, key audience, f fetch) (string, error) {
	now := time.Now()
	s.mu.Lock()
	g := s.grant(key)
	if g.token.valid(now) {
		token := g.token.value
		if g.token.ageing(now) && !now.Before(g.until) {
			s.fetch(key, g, f)
		}
		s.mu.Unlock()
		return token, nil
	}
	return s.await(ctx, key, g, f)
}

// renew replaces the rejected token of key, unless that has happened already, and reports
// whether there is another one now. It fails if a token was renewed shortly before: a
// provider that accepts no token must not cause a token request for every call.
func (s *tokenStore) renew(ctx context.Context, key audience, rejected string, f fetch) (bool, error) {
	now := time.Now()
	s.mu.Lock()
	g := s.grant(key)
	if g.token != nil && g.token.value != rejected {
		s.mu.Unlock()
		return true, nil
	}
	if g.token != nil {
		if early := g.renewable.Sub(now); early > 0 {
			s.mu.Unlock()
			return false, rejectedAgain(key.tokenURL, early)
		}
		g.putOff(now)
		g.replace(nil, now)
	}
	token, err := s.await(ctx, key, g, f)
	return err == nil && token != rejected, err
}

// use records the refresh token that a request is about to send: it is a secret from
// then on, not only once the response has come.
func (s *tokenStore) use(key audience, refresh string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, ok := s.grants[key]; ok {
		g.refresh.value = refresh
	}
}

// secrets returns all tokens that may still be in use.
func (s *tokenStore) secrets() (access, refresh []string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.grants {
		if g.token != nil {
			access = append(access, g.token.value)
		}
		for i, t := range g.replaced {
			if i == len(g.replaced)-1 || t.usable(now) {
				access = append(access, t.value)
			}
		}
		if g.refresh.value != "" {
			refresh = append(refresh, g.refresh.value)
		}
	}
	return access, refresh
}

// grant finds the grant of key or makes one. The caller holds the lock.
func (s *tokenStore) grant(key audience) *grant {
	if g, ok := s.grants[key]; ok {
		return g
	}
	if len(s.grants) >= maxGrants {
		s.evict(time.Now())
	}
	g := new(grant)
	s.grants[key] = g
	return g
}

// evict makes room: it drops a grant without a valid token, or else any.
func (s *tokenStore) evict(now time.Time) {
	var victim audience
	for key, g := range s.grants {
		victim = key
		if !g.token.valid(now) && !g.fetching {
			break
		}
	}
	delete(s.grants, victim)
}

// await returns the token of the fetch in progress, or of a new one, unless a failure still
// stands for it, or ctx ends before. The caller holds the lock, which await releases.
func (s *tokenStore) await(ctx context.Context, key audience, g *grant, f fetch) (string, error) {
	if !g.fetching {
		if failure := g.waiting(time.Now()); failure != nil {
			s.mu.Unlock()
			return "", failure
		}
	}
	fetched := s.fetch(key, g, f)
	s.mu.Unlock()
	select {
	case r := <-fetched:
		if failure, ok := errors.AsType[*run.Failure](r.Err); ok {
			return "", clone(failure)
		}
		return r.Val.(string), nil
	case <-ctx.Done():
		return "", &run.Failure{
			Kind:     run.DeadlineExceeded,
			Message:  "The call ended before the token endpoint had answered.",
			Phase:    run.PhaseAuth,
			By:       run.Bridge,
			Executed: run.ExecutedNo,
			Cause:    context.Cause(ctx),
		}
	}
}

// fetch starts a fetch unless one is in progress. It goes on when its callers end, since
// others may be waiting for it, and when the configuration ends: the token endpoint may
// just be replacing a refresh token, which would be lost. The caller holds the lock.
func (s *tokenStore) fetch(key audience, g *grant, f fetch) <-chan singleflight.Result {
	g.fetching = true
	newest := g.refresh
	return s.fetches.DoChan(key.tokenURL+" "+key.origin, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
		defer cancel()
		granted, failure := guarded(ctx, f, newest)
		s.mu.Lock()
		defer s.mu.Unlock()
		g.land(granted, failure)
		if failure != nil {
			return nil, failure
		}
		return granted.access.value, nil
	})
}

// guarded turns a panic, which a storage module may cause, into an error: nothing else
// recovers in this goroutine.
func guarded(ctx context.Context, f fetch, newest refreshToken) (granted grantedToken, err *run.Failure) {
	defer func() {
		if value := recover(); value != nil {
			granted = grantedToken{refresh: newest}
			err = &run.Failure{
				Kind: run.Internal, Message: "Fetching a token failed because of a bug in the bridge.",
				Phase: run.PhaseAuth, By: run.Bridge, Executed: run.ExecutedNo,
				Cause: fmt.Errorf("panic: %v\n%s", value, debug.Stack()),
			}
		}
	}()
	return f(ctx, newest)
}

// land records the result of a fetch. The caller holds the lock.
func (g *grant) land(granted grantedToken, err *run.Failure) {
	now := time.Now()
	g.fetching = false
	g.refresh = granted.refresh
	g.failure, g.until = nil, time.Time{}
	if err == nil {
		g.replace(&granted.access, now)
		return
	}
	g.until = now.Add(min(max(failureLifetime, granted.after), longestWait)) // also of an early refresh
	if granted.after > 0 || cacheable(err) {
		g.failure = err
	}
}

// cacheable reports whether a failure is kept: the token endpoint has refused. A network
// or a server that fails may recover at any time.
func cacheable(err *run.Failure) bool {
	return err.Kind == run.AuthRequired && err.HTTPStatus >= 400 && err.HTTPStatus < 500
}

// clone gives each caller an error of its own, to add to.
func clone(err *run.Failure) *run.Failure {
	e := *err
	return &e
}
