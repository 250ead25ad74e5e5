package runtokens

import (
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

const (
	// kind is the kind of the things with the keys, which all instances with the same database share. There is one for each day, which is its name, so
	// that instances that make it at the same time have one. Its value is the id and the secret.
	kind = "run_token_key"
	// secretKind is the kind of the thing with the secret from which others than keys of run tokens are derived.
	secretKind = "derived_secrets"

	// keyAge is the age at which a key is replaced.
	keyAge = 24 * time.Hour
	// keyUse is the age up to which a key still makes tokens if it can't be replaced.
	keyUse = 2 * keyAge
	// keyLife is the age of a key at which all tokens made with it have expired, however long handlers and instances let them be valid.
	keyLife = keyUse + runtoken.MaxLifetime + runtoken.Skew

	// readInterval is the shortest time between two reads of the database, and between
	// two attempts to make a key. Without it, agents could cause any number of them.
	readInterval = time.Second
	// storeTimeout bounds one use of the database.
	storeTimeout = 5 * time.Second
)

// Keys are the keys of run tokens.
type Keys interface {
	runtoken.Keys
	// Prepare makes a key in the background if there is none, so that there is one when a token is needed.
	Prepare()
	// Secret returns a secret for another purpose than tokens, which has a name. It stays the same as long as the seal_key does, or the database.
	Secret(ctx context.Context, name string) ([]byte, error)
}

// HoldKeys returns the keys of run tokens in a database; nil: they are only in memory. They stay in the pool until release is called.
func HoldKeys(db *store.DB) (keys Keys, release func(), err error) {
	return rings.Hold(db, func() (Keys, error) {
		if db == nil {
			return newRing(nil, zap.L), nil
		}
		return newRing(db.Things(), db.Logger), nil
	})
}

// rings are the keys in each database, over reloads, and those that are only in memory.
var rings = lifetime.NewPool[Keys]()

// When the process begins to exit, a key is made if none is fresh: the last answers may need one.
func init() {
	lifetime.BeforeExit(func() {
		for keys := range rings.All() {
			keys.Prepare()
		}
	})
}

// Sealed are keys that are in no database. The first makes tokens, and all open them.
type Sealed []runtoken.Key

// Prepare implements [Keys].
func (Sealed) Prepare() {}

// Current implements [runtoken.Keys].
func (s Sealed) Current(context.Context) (runtoken.Key, error) { return s[0], nil }

// Find implements [runtoken.Keys].
func (s Sealed) Find(_ context.Context, id runtoken.KeyID) (runtoken.Key, bool, error) {
	key, ok := findKey(s, id)
	return key, ok, nil
}

// Secret implements [Keys].
func (s Sealed) Secret(_ context.Context, name string) ([]byte, error) {
	secret := s[0].Secret()
	return hkdf.Key(sha256.New, secret[:], nil, name, len(secret))
}

// things keep the keys. They are [store.Things].
type things interface {
	Get(ctx context.Context, kind, name string) (*store.Thing, error)
	All(ctx context.Context, kind string) ([]*store.Thing, error)
	Put(ctx context.Context, thing *store.Thing, keep time.Duration) (ok bool, err error)
}

// ring has a copy of the keys in a database. It reads and writes nothing before the first token is made or opened.
type ring struct {
	things   things // nil: the keys are only in memory
	warnings *observe.Warnings

	keys   atomic.Pointer[[]runtoken.Key]  // never nil
	secret atomic.Pointer[runtoken.Secret] // from which others are derived, once it is known
	// turn is empty while a goroutine uses the database and the fields below. It is a
	// channel, not a mutex, so that waiting for it can time out.
	turn    chan struct{}
	ending  <-chan struct{} // closed when all calls in progress have to be answered at once
	looked  time.Time       // the last reading of the database for keys of other instances
	lookErr error
	failed  time.Time // the last failure to make a key
	makeErr error
}

func newRing(things things, logger func() *zap.Logger) *ring {
	r := &ring{things: things, warnings: observe.NewWarnings(logger, 16), turn: make(chan struct{}, 1), ending: lifetime.Ending()}
	r.keys.Store(new([]runtoken.Key))
	r.yield()
	return r
}

// Prepare reads or makes a key in the background if no fresh one is known, so that there
// is one when a token is needed.
func (r *ring) Prepare() {
	if fresh(*r.keys.Load(), time.Now()) {
		return
	}
	select {
	case <-r.turn:
		go func() {
			defer r.yield()
			_ = r.renew(context.Background()) // renew has logged it
		}()
	default: // another goroutine is reading or making a key
	}
}

// Current implements runtoken.Keys. It does not wait for a new key while an older one may
// still be used.
func (r *ring) Current(ctx context.Context) (runtoken.Key, error) {
	now := time.Now()
	key, age, ok := newestKey(*r.keys.Load(), now)
	if ok && age < keyUse {
		if age >= keyAge {
			r.Prepare()
		}
		return key, nil
	}
	if err := r.inTurn(ctx, r.renew); err != nil {
		return runtoken.Key{}, err
	}
	key, _, _ = newestKey(*r.keys.Load(), time.Now())
	return key, nil
}

// inTurn takes the turn and calls use. If the context or the process ends before use does,
// inTurn returns an error, and use continues in the background for other calls.
func (r *ring) inTurn(ctx context.Context, use func(context.Context) error) error {
	if err := r.take(ctx); err != nil {
		return err
	}
	used := make(chan error, 1)
	go func() {
		defer r.yield()
		used <- use(context.WithoutCancel(ctx))
	}()
	failure, err := await(ctx, r.ending, used)
	return cmp.Or(err, failure)
}

// errExiting is the error of calls that wait for the keys when the process is about to end.
var errExiting = errors.New("waiting for the keys of run tokens: the process ends")

// Find implements runtoken.Keys. Calls that look for an unknown key wait for each other,
// and one read of the database answers all of them.
func (r *ring) Find(ctx context.Context, id runtoken.KeyID) (runtoken.Key, bool, error) {
	key, ok := findKey(*r.keys.Load(), id)
	if ok || r.things == nil {
		return key, ok, nil
	}
	asked := time.Now()
	err := r.inTurn(ctx, func(storing context.Context) error {
		if r.looked.Before(asked) { // otherwise another call has read the database meanwhile
			if _, err := await(ctx, r.ending, time.After(time.Until(r.looked.Add(readInterval)))); err != nil {
				return err
			}
		}
		return r.look(storing)
	})
	if err != nil {
		return runtoken.Key{}, false, err
	}
	key, ok = findKey(*r.keys.Load(), id)
	return key, ok, nil
}

// Secret implements [Keys].
func (r *ring) Secret(ctx context.Context, name string) ([]byte, error) {
	if r.secret.Load() == nil {
		if err := r.inTurn(ctx, r.readSecret); err != nil {
			return nil, err
		}
	}
	return hkdf.Key(sha256.New, r.secret.Load()[:], nil, name, len(runtoken.Secret{}))
}

// readSecret reads the secret from which others are derived, or makes it: it stays for ever. The caller holds the turn.
func (r *ring) readSecret(ctx context.Context) error {
	if r.secret.Load() != nil {
		return nil // another goroutine has read it
	}
	made := runtoken.NewKey(time.Time{}).Secret()
	if r.things == nil {
		r.secret.Store(&made)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	thing, err := r.things.Get(ctx, secretKind, "")
	if err == nil && thing.Version == 0 {
		var stored bool
		thing.Value = made[:]
		if stored, err = r.things.Put(ctx, thing, 0); err == nil && !stored { // another instance was first
			thing, err = r.things.Get(ctx, secretKind, "")
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("reading the secret in the database: %w", err)
	case len(thing.Value) != len(made):
		return errDamagedSecret
	}
	r.secret.Store((*runtoken.Secret)(thing.Value))
	return nil
}

// take waits for the turn.
func (r *ring) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	_, err := await(ctx, r.ending, r.turn)
	return err
}

func (r *ring) yield() { r.turn <- struct{}{} }

// await receives from a channel, unless the context or the process ends before.
func await[T any](ctx context.Context, ending <-chan struct{}, from <-chan T) (received T, err error) {
	select {
	case received = <-from:
	case <-ctx.Done():
		err = fmt.Errorf("waiting for the keys of run tokens: %w", ctx.Err())
	case <-ending:
		err = errExiting
	}
	return received, err
}

// look reads the keys that other instances may have made. The caller holds the turn.
func (r *ring) look(ctx context.Context) error {
	if justNow(r.looked) {
		return r.lookErr
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := r.read(ctx)
	if r.looked, r.lookErr = time.Now(), err; err != nil {
		r.warnings.Warn("the keys of run tokens can't be read: run tokens of other instances are refused", err)
	}
	return err
}

// renew reads a fresh key that another instance has made, or makes one. The caller holds
// the turn.
func (r *ring) renew(ctx context.Context) error {
	now := time.Now()
	if fresh(*r.keys.Load(), now) {
		return nil // another goroutine has renewed it
	}
	if justNow(r.failed) {
		return r.makeErr
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := r.makeKey(ctx, now)
	if err == nil {
		return nil
	}
	r.failed, r.makeErr = time.Now(), err
	if _, age, ok := newestKey(*r.keys.Load(), now); ok && age < keyUse {
		r.warnings.Warn("the key of run tokens can't be replaced; the old one remains in use", err)
	} else {
		r.warnings.Warn("run tokens can't be made", err)
	}
	return err
}

// makeKey makes the key of a day, unless another instance has made it.
func (r *ring) makeKey(ctx context.Context, now time.Time) error {
	if err := r.read(ctx); err != nil || fresh(*r.keys.Load(), now) {
		return err
	}
	key := runtoken.NewKey(now.UTC().Truncate(keyAge))
	if r.things != nil {
		id, secret := key.ID, key.Secret()
		thing := &store.Thing{Kind: kind, Name: key.Made.Format(time.DateOnly), Value: append(id[:], secret[:]...)}
		stored, err := r.things.Put(ctx, thing, keyLife)
		switch {
		case err != nil:
			return fmt.Errorf("storing the keys of run tokens: %w", err)
		case !stored: // another instance was first
			return r.read(ctx)
		}
	}
	left := slices.DeleteFunc(slices.Clone(*r.keys.Load()), func(old runtoken.Key) bool { return now.Sub(old.Made) >= keyLife })
	r.keys.Store(new(append(left, key)))
	return nil
}

// read reads the stored keys. If there are none, those that are known stay.
func (r *ring) read(ctx context.Context) error {
	if r.things == nil {
		return nil
	}
	all, err := r.things.All(ctx, kind)
	if err != nil {
		return fmt.Errorf("reading the keys of run tokens: %w", err)
	}
	keys := make([]runtoken.Key, len(all))
	for i, thing := range all {
		day, err := time.Parse(time.DateOnly, thing.Name)
		if err != nil || len(thing.Value) != len(runtoken.KeyID{})+len(runtoken.Secret{}) {
			return errDamaged
		}
		id, secret := runtoken.KeyID(thing.Value), runtoken.Secret(thing.Value[len(runtoken.KeyID{}):])
		keys[i] = runtoken.RestoreKey(id, secret, day)
	}
	if len(keys) > 0 {
		r.keys.Store(&keys)
	}
	return nil
}

// A key that can't be read is never overwritten: that would invalidate the tokens of other instances. These errors say what to do instead.
var (
	errDamaged = errors.New("the keys of run tokens in the database are damaged: restore them, or remove them, which makes all run tokens invalid: " +
		"DELETE FROM things WHERE kind = '" + kind + "'")
	errDamagedSecret = errors.New("the secret in the database that principal_hash is made with is damaged: restore it, or remove it, " +
		"which changes all hashes: DELETE FROM things WHERE kind = '" + secretKind + "'")
)

// justNow reports whether a time is less than readInterval ago.
func justNow(then time.Time) bool { return time.Since(then) < readInterval }

// newestKey returns the newest key, which makes tokens, and its age. It ignores keys whose time is in the
// future by more than the clocks of instances may differ.
func newestKey(keys []runtoken.Key, now time.Time) (newest runtoken.Key, age time.Duration, ok bool) {
	for _, key := range keys {
		if now.Sub(key.Made) >= -runtoken.Skew && (!ok || key.Made.After(newest.Made)) {
			newest, ok = key, true
		}
	}
	return newest, now.Sub(newest.Made), ok
}

// fresh reports whether the newest key need not be replaced yet.
func fresh(keys []runtoken.Key, now time.Time) bool {
	_, age, ok := newestKey(keys, now)
	return ok && age < keyAge
}

func findKey(keys []runtoken.Key, id runtoken.KeyID) (runtoken.Key, bool) {
	i := slices.IndexFunc(keys, func(key runtoken.Key) bool { return key.ID == id })
	if i < 0 {
		return runtoken.Key{}, false
	}
	return keys[i], true
}
