package storage

import (
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
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

const (
	// runTokenKeysKey is where the keys of run tokens are stored, for all instances with
	// the same storage. It is the name of the lock, too, under which they are written.
	runTokenKeysKey = "skill_bridge/run_token_keys.json"
	// maxRunTokenKeys bounds what is read there, in bytes. It is some hundred keys.
	maxRunTokenKeys = 64 << 10

	// runTokenKeyAge is after how long there is to be a new key.
	runTokenKeyAge = 24 * time.Hour
	// runTokenKeyUse is how long tokens are made with a key if none can be stored.
	runTokenKeyUse = 2 * runTokenKeyAge
	// runTokenKeyLife is how long there may be a token that was made with a key.
	runTokenKeyLife = runTokenKeyUse + runtoken.Lifetime + runtoken.Skew

	// runTokenInterval is how often keys are looked for in the storage at most, and how
	// soon one that could not be made is tried again: agents can ask for either as
	// often as they like.
	runTokenInterval = time.Second
)

// HoldRunTokenKeys takes the keys of run tokens from the pool.
func HoldRunTokenKeys(ctx caddy.Context) (keys *RunTokenKeys, release func(), err error) {
	storage, logger := storageOf(ctx), ctx.Logger()
	return runTokenPool.Hold(storageKey(storage), func() (*RunTokenKeys, error) { return newRunTokenKeys(storage, logger), nil })
}

// runTokenPool has the keys for each storage, and over reloads, those that are
// stored nowhere.
var runTokenPool = lifetime.NewPool[*RunTokenKeys]()

// A key that is made when the process begins to exit serves the answers that are given
// last.
func init() {
	lifetime.BeforeExit(func() {
		for keys := range runTokenPool.All() {
			keys.Prepare()
		}
	})
}

// storageOf returns Caddy's storage, or nil where a handler is provisioned without a
// running Caddy, which has an events app.
func storageOf(ctx caddy.Context) certmagic.Storage {
	if _, err := ctx.AppIfConfigured("events"); err != nil {
		return nil
	}
	return ctx.Storage()
}

// storageKey identifies a storage. A reload makes a new one unless it is the
// default, even if it leads to the same place: then what is there is read once more.
// What it leads to can't be told for sure, and the old one may have been closed.
func storageKey(storage certmagic.Storage) any {
	if storage != nil && !reflect.ValueOf(storage).Comparable() {
		return new(byte) // shared with nobody
	}
	return storage
}

// RunTokenKeys are the keys of run tokens: those in Caddy's storage, as they were
// when it was last looked at. It implements [runtoken.Keys]. Nothing is read or
// written before the first token is to be made or opened.
type RunTokenKeys struct {
	storage  certmagic.Storage // nil: none
	warnings *observe.Warnings

	keys atomic.Pointer[[]runtoken.Key] // never nil
	// turn is held by who uses the storage, and what follows. It is a channel so that
	// nobody has to wait for it longer than for a storage.
	turn    chan struct{}
	ending  <-chan struct{} // closed when what is still under way has to be answered at once
	looked  time.Time       // for keys of others
	lookErr error
	failed  time.Time // to make one
	makeErr error
}

func newRunTokenKeys(storage certmagic.Storage, logger *zap.Logger) *RunTokenKeys {
	r := &RunTokenKeys{storage: storage, warnings: observe.NewWarnings(logger, 16), turn: make(chan struct{}, 1), ending: lifetime.Ending()}
	r.keys.Store(new([]runtoken.Key))
	return r
}

// Prepare has a key made, or read, in the background if no fresh one is known, so that
// there is one by the time a token is needed.
func (r *RunTokenKeys) Prepare() {
	if fresh(*r.keys.Load(), time.Now()) {
		return
	}
	select {
	case r.turn <- struct{}{}:
		go func() {
			defer r.yield()
			_ = r.renew(context.Background()) // it has been logged
		}()
	default: // it is being done
	}
}

// Current implements runtoken.Keys. That a new key is due makes nobody wait while
// there is one that will do.
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

// inTurn uses the storage with the turn. It waits no longer than the context and the
// process last; the use goes on, for the next ones in turn.
func (r *RunTokenKeys) inTurn(ctx context.Context, use func(context.Context) error) error {
	if err := r.take(ctx); err != nil {
		return err
	}
	used := make(chan error, 1)
	go func() {
		defer r.yield()
		used <- use(context.WithoutCancel(ctx))
	}()
	select {
	case err := <-used:
		return err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the keys of run tokens: %w", ctx.Err())
	case <-r.ending:
		return errExiting
	}
}

// errExiting is the error of calls that wait for the keys when the process is about to end.
var errExiting = errors.New("waiting for the keys of run tokens: the process ends")

// Find implements runtoken.Keys. Those who ask for a key that is not known wait for
// each other, and one look at the storage is enough for all of them.
func (r *RunTokenKeys) Find(ctx context.Context, id runtoken.KeyID) (runtoken.Key, bool, error) {
	key, ok := findKey(*r.keys.Load(), id)
	if ok || r.storage == nil {
		return key, ok, nil
	}
	asked := time.Now()
	err := r.inTurn(ctx, func(storing context.Context) error {
		if r.looked.Before(asked) { // else another call has looked for this one, too
			if err := r.pauseUntil(ctx, r.looked.Add(runTokenInterval)); err != nil {
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
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the keys of run tokens: %w", ctx.Err())
	case <-r.ending:
		return errExiting
	}
}

func (r *RunTokenKeys) yield() { <-r.turn }

// look reads the keys that others may have made. With the turn.
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

// renew sees to it that there is a key that new tokens can be made with, be it
// another's. With the turn.
func (r *RunTokenKeys) renew(ctx context.Context) error {
	keys, now := *r.keys.Load(), time.Now()
	if fresh(keys, now) {
		return nil // since the last one's turn
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

// stored returns the stored keys, with a fresh one among them, which it adds if
// nobody else did.
func (r *RunTokenKeys) stored(ctx context.Context, now time.Time) ([]runtoken.Key, error) {
	keys, err := r.read(ctx)
	if err != nil || fresh(keys, now) {
		return keys, err
	}
	if err := r.storage.Lock(ctx, runTokenKeysKey); err != nil {
		return nil, fmt.Errorf("locking %s in Caddy's storage: %w", runTokenKeysKey, err)
	}
	defer r.unlock(ctx)
	keys, err = r.read(ctx) // as it was left by who had the lock before
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

// unlock has to be tried even if there is no time left.
func (r *RunTokenKeys) unlock(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storageTimeout)
	defer cancel()
	if err := r.storage.Unlock(ctx, runTokenKeysKey); err != nil {
		r.warnings.Warn("the keys of run tokens can't be unlocked", err)
	}
}

// read returns the keys in the storage; none if nobody made one yet.
func (r *RunTokenKeys) read(ctx context.Context) ([]runtoken.Key, error) {
	data, err := r.storage.Load(ctx, runTokenKeysKey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s from Caddy's storage: %w", runTokenKeysKey, err)
	}
	return parseRunTokenKeys(data)
}

// pauseUntil waits, unless the context or the process ends before.
func (r *RunTokenKeys) pauseUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ending:
		return errExiting
	}
}

// justNow tells whether something happened less than an interval ago.
func justNow(then time.Time) bool { return time.Since(then) < runTokenInterval }

// newestKey returns the key to make tokens with, and its age. One that is of a
// future which no clock of ours should know is left to who made it.
func newestKey(keys []runtoken.Key, now time.Time) (newest runtoken.Key, age time.Duration, ok bool) {
	for _, key := range keys {
		if now.Sub(key.Made) >= -runtoken.Skew && (!ok || key.Made.After(newest.Made)) {
			newest, ok = key, true
		}
	}
	return newest, now.Sub(newest.Made), ok
}

// fresh tells whether no new key is due.
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

// withNewKey adds a key, and leaves out those of which no token can be valid.
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

// runTokenFile is what is stored.
type runTokenFile struct {
	Version int              `json:"version"`
	Keys    []storedTokenKey `json:"keys"`
}

type storedTokenKey struct {
	ID     [4]byte   `json:"id"`     // in base64
	Secret [32]byte  `json:"secret"` // not of the type that hides it
	Made   time.Time `json:"made"`
}

const runTokenFileVersion = 1

// What is stored is never overwritten unless it is understood: that would make
// other instances' tokens worthless. These errors say what to do instead. They
// have no cause, since those of package json quote what they have read.
var (
	errRunTokenKeysVersion = errors.New(runTokenKeysKey + " in Caddy's storage was written by another version of the bridge: use that version, or remove it, which makes all run tokens invalid")
	errRunTokenKeysDamaged = errors.New(runTokenKeysKey + " in Caddy's storage is damaged: restore it, or remove it, which makes all run tokens invalid")
)

func marshalRunTokenKeys(keys []runtoken.Key) ([]byte, error) {
	file := runTokenFile{Version: runTokenFileVersion}
	for _, key := range keys {
		file.Keys = append(file.Keys, storedTokenKey{key.ID, key.Secret(), key.Made})
	}
	return json.Marshal(file)
}

func parseRunTokenKeys(data []byte) ([]runtoken.Key, error) {
	if len(data) > maxRunTokenKeys {
		return nil, errRunTokenKeysDamaged
	}
	var other struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(data, &other) != nil || other.Version < runTokenFileVersion {
		return nil, errRunTokenKeysDamaged
	}
	if other.Version > runTokenFileVersion {
		return nil, errRunTokenKeysVersion
	}
	var file runTokenFile
	if json.Unmarshal(data, &file, json.RejectUnknownMembers(true)) != nil || len(file.Keys) == 0 {
		return nil, errRunTokenKeysDamaged
	}
	keys := make([]runtoken.Key, 0, len(file.Keys))
	for _, stored := range file.Keys {
		_, twice := findKey(keys, stored.ID)
		if twice || stored.Secret == [32]byte{} || stored.Made.IsZero() {
			return nil, errRunTokenKeysDamaged
		}
		keys = append(keys, runtoken.RestoreKey(stored.ID, stored.Secret, stored.Made))
	}
	return keys, nil
}
