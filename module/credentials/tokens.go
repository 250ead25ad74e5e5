package credentials

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

const (
	// fetchTimeout bounds the fetching of a token.
	fetchTimeout = 10 * time.Second
	// failureLifetime is how long a refusal of the token endpoint stands for
	// later requests, and how long a failed early refresh is not repeated.
	failureLifetime = 5 * time.Second
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
	mu     sync.Mutex
	grants map[audience]*grant
}

func newTokenStore() *tokenStore { return &tokenStore{grants: make(map[audience]*grant)} }

// audience is whom a token comes from and whom it is for.
type audience struct{ tokenURL, origin string }

// grant is what is known of one audience. The store's lock guards it.
type grant struct {
	token    *accessToken // nil: none, or rejected
	previous string       // the token before, which runs may still use
	refresh  refreshToken

	failure  *skillsharing.Error // refusal by the token endpoint, until failedAt+failureLifetime
	failedAt time.Time           // last failure of any kind
	inFlight *flight             // nil: no fetch is under way
}

// accessToken is a token and its life time.
type accessToken struct {
	value    string
	obtained time.Time
	expires  time.Time // zero: not stated, so used until it is rejected
}

func (t *accessToken) valid(now time.Time) bool {
	return t != nil && (t.expires.IsZero() || now.Before(t.expires))
}

// ageing tells whether it is time to replace the token: in the last tenth of its
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

// grantedToken is the fruit of a token request.
type grantedToken struct {
	access  accessToken
	refresh refreshToken
}

// fetch obtains a token. newest is the refresh token that the fetch before
// returned, and the new one is returned even beside an error.
type fetch func(ctx context.Context, newest refreshToken) (grantedToken, *skillsharing.Error)

// flight is a fetch that is under way, for everyone who waits for it. Its result
// is set before done is closed.
type flight struct {
	done  chan struct{}
	token string
	err   *skillsharing.Error
}

// get returns a token for key: the one at hand while it is valid, else one that
// f obtains. Shortly before a token expires it starts to replace it, without
// waiting.
func (s *tokenStore) get(ctx context.Context, key audience, f fetch) (string, error) {
	now := time.Now()
	s.mu.Lock()
	g := s.grant(key)
	if g.token.valid(now) {
		token := g.token.value
		if g.token.ageing(now) && g.inFlight == nil && now.Sub(g.failedAt) >= failureLifetime {
			s.launch(g, f)
		}
		s.mu.Unlock()
		return token, nil
	}
	join, err := s.join(g, now, f)
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	return join.wait(ctx)
}

// renew replaces the rejected token of key, unless that has happened already,
// and tells whether there is another one now.
func (s *tokenStore) renew(ctx context.Context, key audience, rejected string, f fetch) (bool, error) {
	now := time.Now()
	s.mu.Lock()
	g := s.grant(key)
	if g.token != nil && g.token.value != rejected {
		s.mu.Unlock()
		return true, nil
	}
	if g.token != nil {
		g.previous, g.token = g.token.value, nil
	}
	join, err := s.join(g, now, f)
	s.mu.Unlock()
	if err != nil {
		return false, err
	}
	token, err := join.wait(ctx)
	return err == nil && token != rejected, err
}

// use notes the refresh token that a request is about to carry: it is a secret
// from then on, not only when the request has been answered.
func (s *tokenStore) use(key audience, refresh string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, ok := s.grants[key]; ok {
		g.refresh.value = refresh
	}
}

// secrets returns all tokens that may still be in use.
func (s *tokenStore) secrets() (access, refresh []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.grants {
		if g.token != nil {
			access = append(access, g.token.value)
		}
		if g.previous != "" {
			access = append(access, g.previous)
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
		if !g.token.valid(now) && g.inFlight == nil {
			break
		}
	}
	delete(s.grants, victim)
}

// join returns the fetch to wait for, or the refusal that spares it. The caller
// holds the lock.
func (s *tokenStore) join(g *grant, now time.Time, f fetch) (*flight, error) {
	if g.inFlight != nil {
		return g.inFlight, nil
	}
	if g.failure != nil && now.Sub(g.failedAt) < failureLifetime {
		return nil, clone(g.failure)
	}
	return s.launch(g, f), nil
}

// launch starts a fetch that no caller's end can interrupt, since others may be
// waiting for it; nor can the end of the configuration, for as long as a fetch may
// take: the token endpoint may just be replacing a refresh token, which would be
// lost. The caller holds the lock.
func (s *tokenStore) launch(g *grant, f fetch) *flight {
	fl := &flight{done: make(chan struct{})}
	g.inFlight = fl
	newest := g.refresh
	go func() {
		defer close(fl.done)
		ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
		defer cancel()
		granted, err := guarded(ctx, f, newest)
		s.mu.Lock()
		defer s.mu.Unlock()
		g.land(granted, err)
		fl.token, fl.err = granted.access.value, err
	}()
	return fl
}

// guarded makes an error of a panic: storage is a module that anybody may have
// written, and the goroutine is nobody's to recover.
func guarded(ctx context.Context, f fetch, newest refreshToken) (granted grantedToken, err *skillsharing.Error) {
	defer func() {
		if value := recover(); value != nil {
			granted = grantedToken{refresh: newest}
			err = &skillsharing.Error{
				Code: "INTERNAL_ERROR", Message: "Fetching a token failed unexpectedly; this is a bug.",
				Phase: skillsharing.PhaseAuth, Source: skillsharing.SourceBridge, Executed: skillsharing.ExecutedNo,
				Cause: fmt.Errorf("panic: %v\n%s", value, debug.Stack()),
			}
		}
	}()
	return f(ctx, newest)
}

// land notes the outcome of a fetch. The caller holds the lock.
func (g *grant) land(granted grantedToken, err *skillsharing.Error) {
	g.inFlight = nil
	g.refresh = granted.refresh
	g.failure = nil
	if err != nil {
		g.failedAt = time.Now()
		if cacheable(err) {
			g.failure = err
		}
		return
	}
	g.failedAt = time.Time{}
	if g.token != nil {
		g.previous = g.token.value
	}
	g.token = &granted.access
}

// cacheable tells whether asking again at once would be pointless: the token
// endpoint has refused. A network or a server in trouble may recover any time.
func cacheable(err *skillsharing.Error) bool {
	return err.Code == skillsharing.AuthRequired && err.HTTPStatus >= 400 && err.HTTPStatus < 500
}

// wait returns what the fetch obtains, unless ctx ends before.
func (fl *flight) wait(ctx context.Context) (string, error) {
	select {
	case <-fl.done:
	case <-ctx.Done():
		return "", &skillsharing.Error{
			Code:     skillsharing.InvocationTimeout,
			Message:  "The call ended before the token endpoint had answered.",
			Phase:    skillsharing.PhaseAuth,
			Source:   skillsharing.SourceBridge,
			Executed: skillsharing.ExecutedNo,
			Cause:    context.Cause(ctx),
		}
	}
	if fl.err != nil {
		return "", clone(fl.err)
	}
	return fl.token, nil
}

// clone gives each caller an error of its own, to add to.
func clone(err *skillsharing.Error) *skillsharing.Error {
	e := *err
	return &e
}
