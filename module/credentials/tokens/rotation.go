package tokens

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

const (
	// SaveTimeout bounds storing a new refresh token. It applies even if the deadline of the fetch is
	// earlier, because a new token that is not stored is lost: the endpoint may refuse the previous one.
	SaveTimeout = 5 * time.Second
	// lockTime is how long one instance uses a refresh token alone: longer than a fetch and storing its result take.
	lockTime = FetchTimeout + 2*SaveTimeout
	// lockLook is the mean time between two looks at a lock of another instance.
	lockLook = 100 * time.Millisecond
	// RefreshKept is how long a refresh token is stored after its last use; that is noted once a day.
	RefreshKept = 400 * 24 * time.Hour
	// RefreshKind and lockKind are the kinds of the things with the newest refresh tokens, and with the locks of these.
	RefreshKind, lockKind = "refresh_tokens", "refresh_token_locks"
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

// Open returns a thing and its decrypted text; old says that there is a newer key. The text is empty if there is none, it was stored with another key, or a
// stranger has written it.
func (k Keeping) Open(ctx context.Context, kind, name string) (thing *store.Thing, text string, old bool, err error) {
	if thing, err = k.Things.Get(ctx, kind, name); err != nil || k.Sealer == nil {
		return thing, "", false, err
	}
	if text, old, err = k.Sealer.OpenText(ctx, string(thing.Value), kind, name); errors.Is(err, runtoken.ErrInvalid) {
		err = nil
	}
	return thing, text, old, err
}

// Put stores a text, encrypted, in the place of a thing. ok is false if another instance has replaced that meanwhile.
func (k Keeping) Put(ctx context.Context, thing *store.Thing, text string, keep time.Duration) (ok bool, err error) {
	sealed, err := k.Sealer.SealText(ctx, text, thing.Kind, thing.Name)
	if err != nil {
		return false, err
	}
	thing.Value = []byte(sealed)
	return k.Things.Put(ctx, thing, keep)
}

// Keeper is implemented by credentials that keep what a server has replaced. Keep is called before they are used; without a
// database, it is not called.
type Keeper interface{ Keep(k Keeping) }

// Rotation sends token requests with the newest refresh token. A token endpoint may replace the
// token with every use (RFC 6749, section 6), and may treat the use of an older one as theft (RFC
// 9700, section 4.14.2). So the database holds the newest token, and a lock there, for some seconds, ensures that
// only one instance at a time uses it. A token that another instance has stored meanwhile is not overwritten.
type Rotation struct {
	Keeping

	Logger     *zap.Logger
	Endpoint   string
	Kind, Name string        // of the thing, which is another one for another client, endpoint or configured token
	Keep       time.Duration // how long it is kept
	Configured string        // the configured refresh token; empty: there is only the stored text
}

// Do sends a token request with the newest refresh token, and stores the one in the response.
func (r Rotation) Do(ctx context.Context, newest Refresh,
	request func(context.Context, string) (Granted, *run.Failure),
) (Granted, *run.Failure) {
	if r.Things == nil {
		return r.send(ctx, newest, request)
	}
	locked := time.Now()
	unlock, failure := r.Lock(ctx)
	var thing *store.Thing
	if failure == nil {
		defer unlock()
		thing, newest, failure = r.newest(ctx, newest)
	}
	if failure != nil && failure.Kind == run.Internal && newest.Fixed {
		return r.send(ctx, newest, request) // its endpoint does not replace it, so that others may use it, too
	}
	if failure == nil && time.Since(locked) > lockTime-FetchTimeout { // this process was paused
		failure = r.InUse(nil)
	}
	if failure != nil {
		return Granted{Refresh: newest}, failure
	}
	granted, failure := r.send(ctx, newest, request)
	if granted.Refresh.Unsaved {
		granted.Refresh = r.save(ctx, thing, granted.Refresh)
	}
	return granted, failure
}

// send sends a token request with a refresh token.
func (r Rotation) send(ctx context.Context, newest Refresh, request func(context.Context, string) (Granted, *run.Failure)) (Granted, *run.Failure) {
	if newest.Value == "" {
		newest.Value = r.Configured
	}
	granted, failure := request(ctx, newest.Value)
	if granted.Refresh.Value != "" {
		granted.Refresh.Unsaved = true
		return granted, failure
	}
	granted.Refresh = newest
	granted.Refresh.Fixed = (failure == nil || newest.Fixed) && r.Configured != ""
	return granted, failure
}

// turns are the locks that goroutines of this process have or wait for. Only the first of them looks into the database.
var turns = lifetime.NewPool[chan struct{}]()

type turnKey struct {
	things Things
	name   string
}

// Lock keeps others from using the same refresh token, in this process and at other instances.
func (r Rotation) Lock(ctx context.Context) (unlock func(), failure *run.Failure) {
	turn, leave, _ := turns.Hold(turnKey{r.Things, r.Name}, func() (chan struct{}, error) { return make(chan struct{}, 1), nil }) // it can't fail
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, r.InUse(ctx.Err())
	}
	for {
		free, failure := r.TryLock(ctx)
		switch {
		case free != nil:
			return func() {
				free()
				<-turn
				leave()
			}, nil
		case failure == nil:
			select {
			case <-time.After(mathrand.N(2 * lockLook)): //nolint:gosec // so that no instance always waits the longest
				continue
			case <-ctx.Done():
				failure = r.InUse(ctx.Err())
			}
		}
		<-turn
		leave()
		return nil, failure
	}
}

// TryLock is like Lock, but does not wait: unlock is nil if another instance uses the token.
func (r Rotation) TryLock(ctx context.Context) (unlock func(), failure *run.Failure) {
	thing, began := &store.Thing{Kind: lockKind, Name: r.Name, Value: []byte(rand.Text())}, time.Now()
	ok, err := r.Things.Put(ctx, thing, lockTime)
	switch {
	case err != nil && ctx.Err() == nil:
		return nil, r.Unavailable(err)
	case err != nil || !ok:
		return nil, nil
	}
	return func() {
		if time.Since(began) > lockTime-SaveTimeout { // it may have ended
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), SaveTimeout)
		defer cancel()
		if _, err := r.Things.Put(ctx, thing, time.Millisecond); err != nil {
			r.Logger.Warn("the refresh token could not be unlocked in the database; other instances wait for it for some seconds", zap.Error(err))
		}
	}, nil
}

// InUse is the failure of a call that can't have the refresh token.
func (r Rotation) InUse(cause error) *run.Failure {
	e := run.NotExecuted(run.Unreachable, run.PhaseAuth, "The refresh token is in use by another instance of the bridge.")
	e.Retry, e.Reach, e.Cause = run.RetryIn(2*time.Second, 3), &run.Reach{URL: RedactURL(r.Endpoint), Reason: "locked"}, cause
	return e
}

// Unavailable is the failure of a call that needs a new access token while the database can't be used: another instance may have
// replaced the refresh token.
func (r Rotation) Unavailable(err error) *run.Failure {
	return run.StorageFailed(run.PhaseAuth, run.ExecutedNo,
		"the bridge can't use its database at the moment, which has the newest refresh token for this provider. Nothing was sent to the provider", err)
}

// newest returns the refresh token to use: the stored one, which another instance may have stored, unless the known one could not be stored since
// then. The thing is where the next one is to be stored.
func (r Rotation) newest(ctx context.Context, known Refresh) (*store.Thing, Refresh, *run.Failure) {
	thing, value, old, err := r.Open(ctx, r.Kind, r.Name)
	switch {
	case err != nil:
		return nil, known, r.Unavailable(err)
	case thing.Version == 0:
		if r.Configured == "" {
			known = Refresh{}
		}
		return thing, known, nil
	case known.Unsaved && thing.Version == known.Version:
		return thing, known, nil
	case value == "":
		return nil, known, AuthRequired(run.Bridge, r.Endpoint, Refusal{
			"refresh_token_unreadable", "The newest refresh token in the database can't be decrypted.",
			"configure the seal_key with which it was stored, or a new refresh_token",
		})
	}
	stored := Refresh{Value: value, Fixed: known.Fixed && known.Value == value}
	stored.Unsaved = old || time.Until(thing.Expires) < r.Keep-24*time.Hour // so that it is stored again
	return thing, stored, nil
}

// save stores a refresh token.
func (r Rotation) save(ctx context.Context, thing *store.Thing, token Refresh) Refresh {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), SaveTimeout)
	defer cancel()
	token.Version = thing.Version
	switch stored, err := r.Put(ctx, thing, token.Value, r.Keep); {
	case err != nil:
		r.Logger.Error("a new refresh token could not be written to the database; it is lost when Caddy stops", zap.Error(err))
	case stored:
		token.Unsaved = false
	default:
		r.Logger.Error("a new refresh token was not stored, since another instance has replaced or deleted the earlier one meanwhile")
		return Refresh{}
	}
	return token
}
