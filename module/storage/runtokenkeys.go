package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

const (
	// runTokenKeysKey is the storage key of the file with the run-token keys, which all
	// instances with the same storage share. It is also the name of the lock for writing it.
	runTokenKeysKey = "skill_bridge/run_token_keys.json"

	// runTokenKeyAge is the age at which a key is replaced.
	runTokenKeyAge = 24 * time.Hour
	// runTokenKeyUse is the age up to which a key still makes tokens if it can't be replaced.
	runTokenKeyUse = 2 * runTokenKeyAge
	// runTokenKeyLife is the age of a key at which all tokens made with it have expired.
	runTokenKeyLife = runTokenKeyUse + runtoken.Lifetime + runtoken.Skew

	// runTokenInterval is the shortest time between two reads of the storage, and between
	// two attempts to make a key. Without it, agents could cause any number of them.
	runTokenInterval = time.Second
)

// HoldRunTokenKeys returns the run-token keys in the storage of a configuration. They
// stay in the pool until release is called.
func HoldRunTokenKeys(ctx caddy.Context) (keys *RunTokenKeys, release func(), err error) {
	storage, logger := Of(ctx), ctx.Logger()
	return runTokenPool.Hold(storageKey(storage), func() (*RunTokenKeys, error) { return newRunTokenKeys(storage, logger), nil })
}

// runTokenPool keeps the keys of each storage over reloads, and also the keys that are only
// in memory.
var runTokenPool = lifetime.NewPool[*RunTokenKeys]()

// When the process begins to exit, a key is made if none is fresh: the last answers may need one.
func init() {
	lifetime.BeforeExit(func() {
		for keys := range runTokenPool.All() {
			keys.Prepare()
		}
	})
}

// Of returns Caddy's storage. It returns nil if a handler is provisioned without a
// running Caddy: only a running one has an events app.
func Of(ctx caddy.Context) certmagic.Storage {
	if _, err := ctx.AppIfConfigured("events"); err != nil {
		return nil
	}
	return ctx.Storage()
}

// storageKey returns the key of a storage in the pool. A reload creates a new storage value,
// unless it is the default one, and the keys are then read again. The new value does not get
// the keys of the old one: it may store in another place, and Caddy may close the old one.
func storageKey(storage certmagic.Storage) any {
	if storage != nil && !reflect.ValueOf(storage).Comparable() {
		return new(byte) // equal to no other key
	}
	return storage
}

// RunTokenKeys holds a copy of the run-token keys in Caddy's storage. It implements
// [runtoken.Keys]. It reads and writes nothing before the first token is made or opened.
type RunTokenKeys struct {
	storage  certmagic.Storage // nil: the keys are only in memory
	warnings *observe.Warnings

	keys atomic.Pointer[[]runtoken.Key] // never nil
	// turn is empty while a goroutine uses the storage and the fields below. It is a
	// channel, not a mutex, so that waiting for it can time out.
	turn    chan struct{}
	ending  <-chan struct{} // closed when all calls in progress have to be answered at once
	looked  time.Time       // the last reading of the storage for keys of other instances
	lookErr error
	failed  time.Time // the last failure to make a key
	makeErr error
}

func newRunTokenKeys(storage certmagic.Storage, logger *zap.Logger) *RunTokenKeys {
	r := &RunTokenKeys{storage: storage, warnings: observe.NewWarnings(logger, 16), turn: make(chan struct{}, 1), ending: lifetime.Ending()}
	r.keys.Store(new([]runtoken.Key))
	r.yield()
	return r
}

// Prepare reads or makes a key in the background if no fresh one is known, so that there
// is one when a token is needed.
func (r *RunTokenKeys) Prepare() {
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
func (r *RunTokenKeys) Current(ctx context.Context) (runtoken.Key, error) {
	now := time.Now()
	key, age, ok := newestKey(*r.keys.Load(), now)
	if ok && age < runTokenKeyUse {
		if age >= runTokenKeyAge {
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
func (r *RunTokenKeys) inTurn(ctx context.Context, use func(context.Context) error) error {
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
// and one read of the storage answers all of them.
func (r *RunTokenKeys) Find(ctx context.Context, id runtoken.KeyID) (runtoken.Key, bool, error) {
	key, ok := findKey(*r.keys.Load(), id)
	if ok || r.storage == nil {
		return key, ok, nil
	}
	asked := time.Now()
	err := r.inTurn(ctx, func(storing context.Context) error {
		if r.looked.Before(asked) { // otherwise another call has read the storage meanwhile
			if _, err := await(ctx, r.ending, time.After(time.Until(r.looked.Add(runTokenInterval)))); err != nil {
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

// take waits for the turn.
func (r *RunTokenKeys) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	_, err := await(ctx, r.ending, r.turn)
	return err
}

func (r *RunTokenKeys) yield() { r.turn <- struct{}{} }

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
func (r *RunTokenKeys) look(ctx context.Context) error {
	if justNow(r.looked) {
		return r.lookErr
	}
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	keys, err := r.read(ctx)
	if err == nil && len(keys) > 0 {
		r.keep(keys)
	}
	if r.looked, r.lookErr = time.Now(), err; err != nil {
		r.warnings.Warn("the keys of run tokens can't be read: run tokens of other instances are refused", err)
	}
	return err
}

// renew reads a fresh key that another instance has made, or makes one. The caller holds
// the turn.
func (r *RunTokenKeys) renew(ctx context.Context) error {
	keys, now := *r.keys.Load(), time.Now()
	if fresh(keys, now) {
		return nil // another goroutine has renewed it
	}
	if r.storage == nil {
		r.keep(withNewKey(keys, now))
		return nil
	}
	if justNow(r.failed) {
		return r.makeErr
	}
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	keys, err := r.stored(ctx, now)
	if err == nil {
		r.keep(keys)
		return nil
	}
	r.failed, r.makeErr = time.Now(), err
	if _, age, ok := newestKey(*r.keys.Load(), now); ok && age < runTokenKeyUse {
		r.warnings.Warn("the key of run tokens can't be replaced; the old one remains in use", err)
	} else {
		r.warnings.Warn("run tokens can't be made", err)
	}
	return err
}

func (r *RunTokenKeys) keep(keys []runtoken.Key) { r.keys.Store(&keys) }

// stored returns the stored keys. It adds a fresh one unless another instance did.
func (r *RunTokenKeys) stored(ctx context.Context, now time.Time) ([]runtoken.Key, error) {
	keys, err := r.read(ctx)
	if err != nil || fresh(keys, now) {
		return keys, err
	}
	if err := r.storage.Lock(ctx, runTokenKeysKey); err != nil {
		return nil, fmt.Errorf("locking %s in Caddy's storage: %w", runTokenKeysKey, err)
	}
	defer r.unlock(ctx)
	keys, err = r.read(ctx) // another instance may have written while this one waited for the lock
	if err != nil || fresh(keys, now) {
		return keys, err
	}
	keys = withNewKey(keys, now)
	data, err := marshalRunTokenKeys(keys)
	if err != nil {
		return nil, err
	}
	if err := r.storage.Store(ctx, runTokenKeysKey, data); err != nil {
		return nil, fmt.Errorf("writing %s to Caddy's storage: %w", runTokenKeysKey, err)
	}
	return keys, nil
}

// unlock releases the lock, even if the context has ended.
func (r *RunTokenKeys) unlock(ctx context.Context) {
	if err := release(ctx, r.storage, runTokenKeysKey); err != nil {
		r.warnings.Warn("the keys of run tokens can't be unlocked", err)
	}
}

// read returns the keys in the storage; none if no instance has made one yet.
func (r *RunTokenKeys) read(ctx context.Context) ([]runtoken.Key, error) {
	data, err := Load(ctx, r.storage, runTokenKeysKey, maxRunTokenFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, run.ErrDamaged) {
		return nil, errRunTokenKeysDamaged
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s from Caddy's storage: %w", runTokenKeysKey, err)
	}
	return parseRunTokenKeys(data)
}

// justNow reports whether a time is less than runTokenInterval ago.
func justNow(then time.Time) bool { return time.Since(then) < runTokenInterval }

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
	return ok && age < runTokenKeyAge
}

func findKey(keys []runtoken.Key, id runtoken.KeyID) (runtoken.Key, bool) {
	i := slices.IndexFunc(keys, func(key runtoken.Key) bool { return key.ID == id })
	if i < 0 {
		return runtoken.Key{}, false
	}
	return keys[i], true
}

// withNewKey adds a new key, and removes the keys whose tokens have all expired.
func withNewKey(keys []runtoken.Key, now time.Time) []runtoken.Key {
	kept := make([]runtoken.Key, 0, len(keys)+1)
	for _, key := range keys {
		if now.Sub(key.Made) < runTokenKeyLife {
			kept = append(kept, key)
		}
	}
	for {
		made := runtoken.NewKey(now.UTC().Truncate(time.Second))
		if _, taken := findKey(kept, made.ID); !taken {
			return append(kept, made)
		}
	}
}
