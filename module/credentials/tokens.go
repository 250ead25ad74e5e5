package credentials

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// fetchTimeout bounds the fetching of a token.
	fetchTimeout = 10 * time.Second
	// failureLifetime is how long a refusal of the token endpoint stands for
	// later requests, and how long a failed early refresh is not repeated.
	failureLifetime = 5 * time.Second
	// firstRenewal is how long after a token was fetched because a provider had rejected
	// the one before, that one is not replaced for being rejected, too; lastRenewal is
	// what that grows to where it happens again and again: then the tokens are not the
	// reason. Until then the token is tried with every call.
	firstRenewal = 5 * time.Second
	lastRenewal  = time.Minute
	// longestWait bounds what a token endpoint can ask for (Retry-After).
	longestWait = 10 * time.Minute
	// replacedLifetime is how long a replaced token counts as a secret if it is not known
	// when it expires, and maxReplaced how many do: more than are replaced in two hours in
	// which each is rejected.
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
	mu     sync.Mutex
	grants map[audience]*grant
}

func newTokenStore() *tokenStore { return &tokenStore{grants: make(map[audience]*grant)} }

// audience is whom a token comes from and whom it is for.
type audience struct{ tokenURL, origin string }

// grant is what is known of one audience. The store's lock guards it.
type grant struct {
	token    *accessToken  // nil: none, or rejected
	replaced []accessToken // the tokens before, oldest first, which runs and providers may still use
	refresh  refreshToken

	failure   *run.Failure  // of the last fetch, which stands until asking again makes sense
	until     time.Time     // when that is; zero: it does
	renewable time.Time     // when a rejected token may be replaced again
	renewal   time.Duration // how long that was put off
	inFlight  *flight       // nil: no fetch is under way
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

// putOff notes that a rejected token is being replaced, and how long the next one is
// not.
func (g *grant) putOff(now time.Time) {
	if g.token.obtained.IsZero() || now.Sub(g.token.obtained) > 2*g.renewal {
		g.renewal = 0 // that one was good for a while
	}
	g.renewal = min(max(firstRenewal, 2*g.renewal), lastRenewal)
	g.renewable = now.Add(g.renewal)
}

// waiting returns the failure that stands for what would be asked now, nil if asking
// makes sense.
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

// usable tells whether a token that was replaced may still be accepted by someone.
func (t *accessToken) usable(now time.Time) bool {
	if t.expires.IsZero() {
		return now.Sub(t.obtained) < replacedLifetime
	}
	return now.Before(t.expires)
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
	after   time.Duration // that the token endpoint does not want to be asked again for, if it failed
}

// fetch obtains a token. newest is the refresh token that the fetch before
// returned, and the new one is returned even beside an error.
type fetch func(ctx context.Context, newest refreshToken) (grantedToken, *run.Failure)

// flight is a fetch that is under way, for everyone who waits for it. Its result
// is set before done is closed.
type flight struct {
	done  chan struct{}
	token string
	err   *run.Failure
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
		if g.token.ageing(now) && g.inFlight == nil && !now.Before(g.until) {
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
// and tells whether there is another one now. It fails if that was done just before:
// a provider that accepts no token has not the token endpoint asked for every call.
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
	if failure := g.waiting(now); failure != nil {
		return nil, failure
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
func guarded(ctx context.Context, f fetch, newest refreshToken) (granted grantedToken, err *run.Failure) {
	defer func() {
		if value := recover(); value != nil {
			granted = grantedToken{refresh: newest}
			err = &run.Failure{
				Kind: run.Internal, Message: "Fetching a token failed unexpectedly; this is a bug.",
				Phase: run.PhaseAuth, By: run.Bridge, Executed: run.ExecutedNo,
				Cause: fmt.Errorf("panic: %v\n%s", value, debug.Stack()),
			}
		}
	}()
	return f(ctx, newest)
}

// land notes the outcome of a fetch. The caller holds the lock.
func (g *grant) land(granted grantedToken, err *run.Failure) {
	now := time.Now()
	g.inFlight = nil
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

// cacheable tells whether asking again at once would be pointless: the token
// endpoint has refused. A network or a server in trouble may recover any time.
func cacheable(err *run.Failure) bool {
	return err.Kind == run.AuthRequired && err.HTTPStatus >= 400 && err.HTTPStatus < 500
}

// wait returns what the fetch obtains, unless ctx ends before.
func (fl *flight) wait(ctx context.Context) (string, error) {
	select {
	case <-fl.done:
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
	if fl.err != nil {
		return "", clone(fl.err)
	}
	return fl.token, nil
}

// clone gives each caller an error of its own, to add to.
func clone(err *run.Failure) *run.Failure {
	e := *err
	return &e
}
