package credentials

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

const (
	// saveTimeout bounds storing a new refresh token. It applies even if the deadline of the fetch is
	// earlier, because a new token that is not stored is lost: the endpoint may refuse the previous one.
	saveTimeout = 5 * time.Second
	// lockTime is how long one instance uses a refresh token alone: longer than a fetch and storing its result take.
	lockTime = fetchTimeout + 2*saveTimeout
	// lockLook is the mean time between two looks at a lock of another instance.
	lockLook = 100 * time.Millisecond
	// refreshKept is how long a refresh token is stored after its last use; that is noted once a day.
	refreshKept = 400 * 24 * time.Hour
	// refreshKind and lockKind are the kinds of the things with the newest refresh tokens, and with the locks of these.
	refreshKind, lockKind = "refresh_tokens", "refresh_token_locks"
)

// Things keep what instances share. They are [store.Things].
type Things interface {
	Get(ctx context.Context, kind, name string) (*store.Thing, error)
	Put(ctx context.Context, thing *store.Thing, keep time.Duration) (ok bool, err error)
	Delete(ctx context.Context, kind, name string) error
	Names(ctx context.Context, kind, prefix string, most int) (sizes map[string]int64, err error)
}

// Keeping is where credentials keep what a server has replaced.
type Keeping struct {
	Things Things
	// Sealer encrypts it.
	Sealer *runtoken.Sealer
	// Trial says that the things are deleted when this process ends, although a later one needs them.
	Trial bool
}

// Keeper is implemented by credentials that keep what a server has replaced. Keep is called before they are used; without a
// database, it is not called.
type Keeper interface{ Keep(k Keeping) }

// rotation sends token requests with the newest refresh token. A token endpoint may replace the
// token with every use (RFC 6749, section 6), and may treat the use of an older one as theft (RFC
// 9700, section 4.14.2). So the database holds the newest token, and a lock there, for some seconds, ensures that
// only one instance at a time uses it. A token that another instance has stored meanwhile is not overwritten.
type rotation struct {
	Keeping

	logger     *zap.Logger
	endpoint   string
	kind, name string        // of the thing, which is another one for another client, endpoint or configured token
	keep       time.Duration // how long it is kept
	configured string        // the configured refresh token; empty: there is only the stored text
}

// do sends a token request with the newest refresh token, and stores the one in the response.
func (r rotation) do(ctx context.Context, newest refreshToken,
	request func(context.Context, string) (grantedToken, *run.Failure),
) (grantedToken, *run.Failure) {
	if r.Things == nil {
		return r.send(ctx, newest, request)
	}
	locked := time.Now()
	unlock, failure := r.lock(ctx)
	var thing *store.Thing
	if failure == nil {
		defer func() { unlock(time.Since(locked)) }()
		thing, newest, failure = r.newest(ctx, newest)
	}
	if failure != nil && failure.Kind == run.Internal && newest.fixed {
		return r.send(ctx, newest, request) // its endpoint does not replace it, so that others may use it, too
	}
	if failure == nil && time.Since(locked) > lockTime-fetchTimeout { // this process was paused
		failure = r.inUse(nil)
	}
	if failure != nil {
		return grantedToken{refresh: newest}, failure
	}
	granted, failure := r.send(ctx, newest, request)
	if granted.refresh.unsaved {
		granted.refresh = r.save(ctx, thing, granted.refresh)
	}
	return granted, failure
}

// send sends a token request with a refresh token.
func (r rotation) send(ctx context.Context, newest refreshToken, request func(context.Context, string) (grantedToken, *run.Failure)) (grantedToken, *run.Failure) {
	if newest.value == "" {
		newest.value = r.configured
	}
	granted, failure := request(ctx, newest.value)
	if granted.refresh.value != "" {
		granted.refresh.unsaved = true
		return granted, failure
	}
	granted.refresh = newest
	granted.refresh.fixed = (failure == nil || newest.fixed) && r.configured != ""
	return granted, failure
}

// lock keeps other instances from using the same refresh token. unlock gets the time since then: a lock that may have ended is not ended again.
func (r rotation) lock(ctx context.Context) (unlock func(held time.Duration), failure *run.Failure) {
	thing := &store.Thing{Kind: lockKind, Name: r.name, Value: []byte(rand.Text())}
	for {
		ok, err := r.Things.Put(ctx, thing, lockTime)
		switch {
		case err != nil && ctx.Err() == nil:
			return nil, r.unavailable(err)
		case ok && err == nil:
			return func(held time.Duration) { r.unlock(ctx, thing, held) }, nil
		}
		timer := time.NewTimer(mathrand.N(2 * lockLook)) //nolint:gosec // so that nobody waits the longest
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, r.inUse(ctx.Err())
		}
	}
}

func (r rotation) unlock(ctx context.Context, thing *store.Thing, held time.Duration) {
	if held > lockTime-saveTimeout {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if _, err := r.Things.Put(ctx, thing, time.Millisecond); err != nil {
		r.logger.Warn("the refresh token could not be unlocked in the database; other instances wait for it for some seconds", zap.Error(err))
	}
}

// inUse is the failure of a call that can't have the refresh token.
func (r rotation) inUse(cause error) *run.Failure {
	e := failed(run.Unreachable, run.Bridge, "The refresh token is in use by another instance of the bridge.")
	e.Retry, e.Reach, e.Cause = run.RetryIn(2*time.Second, 3), &run.Reach{URL: redactURL(r.endpoint), Reason: "locked"}, cause
	return e
}

// unavailable is the failure of a call that needs a new access token while the database can't be used: another instance may have
// replaced the refresh token.
func (r rotation) unavailable(err error) *run.Failure {
	e := failed(run.Internal, run.Bridge, "Internal error: the bridge can't use its database at the moment, which has the newest refresh token for this provider. "+
		"Nothing was sent to the provider; "+run.StorageAdvice(err))
	e.Retry, e.Cause = run.RetryIn(2*time.Second, 5), err
	return e
}

// newest returns the refresh token to use: the stored one, which another instance may have stored, unless the known one could not be stored since
// then. The thing is where the next one is to be stored.
func (r rotation) newest(ctx context.Context, known refreshToken) (*store.Thing, refreshToken, *run.Failure) {
	thing, err := r.Things.Get(ctx, r.kind, r.name)
	switch {
	case errors.Is(err, store.ErrNoThing):
		if r.configured == "" {
			known = refreshToken{}
		}
		return &store.Thing{Kind: r.kind, Name: r.name}, known, nil
	case err != nil:
		return nil, known, r.unavailable(err)
	case known.unsaved && thing.Version == known.version:
		return thing, known, nil
	}
	value, old, err := r.Sealer.OpenText(ctx, string(thing.Value), r.kind, r.name)
	switch {
	case errors.Is(err, runtoken.ErrInvalid):
		return nil, known, authRequired(run.Bridge, r.endpoint, refusal{
			"refresh_token_unreadable", "The newest refresh token in the database can't be decrypted.",
			"configure the seal_key with which it was stored, or a new refresh_token",
		})
	case err != nil:
		return nil, known, r.unavailable(err)
	}
	stored := refreshToken{value: value, fixed: known.fixed && known.value == value}
	stored.unsaved = old || time.Until(thing.Expires) < r.keep-24*time.Hour // so that it is stored again
	return thing, stored, nil
}

// save stores a refresh token.
func (r rotation) save(ctx context.Context, thing *store.Thing, token refreshToken) refreshToken {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	token.version = thing.Version
	sealed, err := r.Sealer.SealText(ctx, token.value, r.kind, r.name)
	stored := false
	if err == nil {
		thing.Value = []byte(sealed)
		stored, err = r.Things.Put(ctx, thing, r.keep)
	}
	switch {
	case err != nil:
		r.logger.Error("a new refresh token could not be written to the database; it is lost when Caddy stops", zap.Error(err))
	case stored:
		token.unsaved = false
	default:
		r.logger.Error("another instance has stored a refresh token meanwhile, which is used from now on")
		return refreshToken{}
	}
	return token
}
