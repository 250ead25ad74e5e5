package runtokens

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	zaptest "go.uber.org/zap/zaptest/observer"

	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// watchedThings are those of a real database. They count what is done with them, and fail or
// hang when they are told to.
type watchedThings struct {
	things
	loads, stores atomic.Int32
	kept          atomic.Int64 // for how long the last one was stored

	mu    sync.Mutex
	fail  error // of every access
	write error // of those that write
	hang  bool
	first func() // is called once, before the next access that writes
}

func (s *watchedThings) set(change func(s *watchedThings)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *watchedThings) access(ctx context.Context, count *atomic.Int32, writes bool) error {
	count.Add(1)
	s.mu.Lock()
	fail, hang, first := s.fail, s.hang, s.first
	if writes {
		fail, s.first = cmp.Or(fail, s.write), nil
	}
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if writes && first != nil {
		first()
	}
	return fail
}

func (s *watchedThings) Get(ctx context.Context, kind, name string) (*store.Thing, error) {
	if err := s.access(ctx, &s.loads, false); err != nil {
		return nil, err
	}
	return s.things.Get(ctx, kind, name)
}

func (s *watchedThings) All(ctx context.Context, kind string) ([]*store.Thing, error) {
	if err := s.access(ctx, &s.loads, false); err != nil {
		return nil, err
	}
	return s.things.All(ctx, kind)
}

func (s *watchedThings) Put(ctx context.Context, thing *store.Thing, keep time.Duration) (bool, error) {
	if err := s.access(ctx, &s.stores, true); err != nil {
		return false, err
	}
	s.kept.Store(int64(keep))
	return put(ctx, s.things, thing, keep)
}

// outside calls a function in a goroutine outside of all bubbles of package synctest, since the goroutine that writes to the database is in none.
var outside = func() func(f func()) {
	var turn sync.Mutex
	calls, done := make(chan func()), make(chan struct{})
	go func() {
		for f := range calls {
			f()
			done <- struct{}{}
		}
	}()
	return func(f func()) {
		turn.Lock()
		defer turn.Unlock()
		calls <- f
		<-done
	}
}()

func put(ctx context.Context, to things, thing *store.Thing, keep time.Duration) (ok bool, err error) {
	outside(func() { ok, err = to.Put(context.WithoutCancel(ctx), thing, keep) })
	return ok, err
}

// newDB returns a database, which is open.
func newDB(t *testing.T) *store.DB {
	t.Helper()
	return opened(t, store.Settings{Kind: store.SQLite, File: filepath.Join(t.TempDir(), "skill_bridge.db")})
}

func opened(t *testing.T, settings store.Settings) *store.DB {
	t.Helper()
	db := store.New(settings)
	t.Cleanup(db.Close)
	db.Start(zap.NewNop())
	if err := db.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// inBubble calls test in a bubble of package synctest, with a database from outside.
func inBubble(t *testing.T, test func(t *testing.T, db *store.DB)) {
	t.Helper()
	db := newDB(t)
	synctest.Test(t, func(t *testing.T) { test(t, db) })
}

// tokenInstance is what one instance of the bridge makes run tokens with.
type tokenInstance struct {
	*ring
	*runtoken.Sealer
	storage *watchedThings
	logs    *zaptest.ObservedLogs
}

func newTokenInstance(db *store.DB) *tokenInstance {
	core, logs := zaptest.New(zap.DebugLevel)
	storage := &watchedThings{things: db.Things()}
	logger := zap.New(core)
	keys := newRing(storage, func() *zap.Logger { return logger })
	keys.ending = nil // made outside of what the test may be in a bubble of
	return &tokenInstance{keys, runtoken.New(keys, runtoken.Lifetime, nil), storage, logs}
}

var followed = run.Ref{Source: "acme", SkillID: "acme/forecast", Version: "1.0.0", ExecutionID: "exec-1"}

func (i *tokenInstance) seal(t *testing.T) string {
	t.Helper()
	token, err := i.Seal(t.Context(), followed, "bridge", "alice")
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// opens says what comes of a token.
func (i *tokenInstance) opens(t *testing.T, token string) error {
	t.Helper()
	ref, err := i.Open(t.Context(), token, func(string) runtoken.Block { return "bridge" }, "alice")
	if err == nil && ref != followed {
		t.Errorf("opened %+v", ref)
	}
	return err
}

func (i *tokenInstance) mustOpen(t *testing.T, what, token string) {
	t.Helper()
	if err := i.opens(t, token); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// expectLogs also forgets them.
func (i *tokenInstance) expectLogs(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, line := range i.logs.TakeAll() {
		if line.Level != zap.WarnLevel {
			t.Errorf("logged as %v: %s", line.Level, line.Message)
		}
		got = append(got, line.Message)
	}
	if !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
}

// storedTokenKeys returns the keys in the database.
func storedTokenKeys(t *testing.T, db *store.DB) []*store.Thing {
	t.Helper()
	all, err := db.Things().All(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// replaceTokenKey stores a text in the place of the only key.
func replaceTokenKey(t *testing.T, db *store.DB, text string) {
	t.Helper()
	key := storedTokenKeys(t, db)[0]
	key.Value = []byte(text)
	if ok, err := put(t.Context(), db.Things(), key, 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

// deleteTokenKeys deletes the keys in the database.
func deleteTokenKeys(t *testing.T, db *store.DB) {
	t.Helper()
	for _, key := range storedTokenKeys(t, db) {
		var err error
		outside(func() { err = db.Things().Delete(context.WithoutCancel(t.Context()), kind, key.Name) })
		if err != nil {
			t.Fatal(err)
		}
	}
}

// countTokenKeys counts those in the database.
func countTokenKeys(t *testing.T, db *store.DB) int {
	t.Helper()
	return len(storedTokenKeys(t, db))
}

func keyIDOf(token string) string { return token[:6] }

func TestInstancesUnderstandEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, db *store.DB) { //nolint:thelper // it is the test
		one, two := newTokenInstance(db), newTokenInstance(db)
		if err := two.opens(t, strings.Repeat("A", 200)); !errors.Is(err, runtoken.ErrInvalid) {
			t.Errorf("a forged token: %v", err)
		}
		if countTokenKeys(t, db) != 0 {
			t.Fatal("no token was made yet")
		}
		time.Sleep(readInterval) // two has looked for keys just now
		first := one.seal(t)
		two.mustOpen(t, "the other's token", first)
		one.mustOpen(t, "the answer", two.seal(t))
		newTokenInstance(db).mustOpen(t, "after a restart", first)
		if again := newTokenInstance(db); keyIDOf(again.seal(t)) != keyIDOf(first) || again.storage.stores.Load() != 0 {
			t.Error("after a restart there is another key")
		}
		if n := countTokenKeys(t, db); n != 1 {
			t.Errorf("%d keys, want 1", n)
		}
		if one.storage.stores.Load() != 1 || two.storage.stores.Load() != 0 {
			t.Error("more than one of them has written")
		}
		one.expectLogs(t)
		two.expectLogs(t)
	})
}

// TestCurrentKeyIsRemembered: while there is a fresh key, no token is worth a look
// at the storage.
func TestCurrentKeyIsRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T, db *store.DB) { //nolint:thelper // it is the test
		i := newTokenInstance(db)
		token := i.seal(t)
		loads := i.storage.loads.Load()
		i.storage.set(func(s *watchedThings) { s.fail = errors.New("down") })
		for range 24 {
			i.mustOpen(t, "a token of the same key", token)
			i.mustOpen(t, "a token just made", i.seal(t))
			time.Sleep(time.Hour - time.Second)
		}
		if i.storage.loads.Load() != loads || i.storage.stores.Load() != 1 {
			t.Errorf("read %d times, written %d times", i.storage.loads.Load(), i.storage.stores.Load())
		}
		i.expectLogs(t)
	})
}

// TestFirstUseTogether: several instances make their first tokens at once.
func TestFirstUseTogether(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { firstUse(t, newDB(t)) })
	t.Run("postgres", func(t *testing.T) {
		firstUse(t, opened(t, store.Settings{Kind: store.Postgres, DSN: postgrestest.Start(t)}))
	})
}

func firstUse(t *testing.T, db *store.DB) {
	t.Helper()
	instances := []*tokenInstance{newTokenInstance(db), newTokenInstance(db)}
	begin, tokens := make(chan struct{}), make(chan string, 32)
	var busy sync.WaitGroup
	for n := range cap(tokens) {
		busy.Go(func() {
			<-begin
			token, err := instances[n%2].Seal(t.Context(), followed, "bridge", "alice")
			if err != nil {
				t.Error(err)
			}
			tokens <- token
		})
	}
	close(begin)
	busy.Wait()
	close(tokens)
	for token := range tokens {
		for n, i := range append(instances, newTokenInstance(db)) {
			i.mustOpen(t, "instance "+strconv.Itoa(n), token)
		}
	}
	if n := countTokenKeys(t, db); n != 1 {
		t.Errorf("%d keys, want 1", n)
	}
	if n := instances[0].storage.stores.Load() + instances[1].storage.stores.Load(); n > 2 {
		t.Errorf("written %d times, want once, or one of the instances once in vain", n)
	}
}

// TestKeyIsMadeOnce: an instance that makes a key takes the one that another has stored in between.
func TestKeyIsMadeOnce(t *testing.T) {
	db := newDB(t)
	one, two := newTokenInstance(db), newTokenInstance(db)
	var first string
	two.storage.first = func() { first = one.seal(t) }
	token := two.seal(t)
	one.mustOpen(t, "the token of the slower one", token)
	if n := countTokenKeys(t, db); n != 1 || first == "" || keyIDOf(token) != keyIDOf(first) || two.storage.stores.Load() != 1 {
		t.Errorf("%d keys, want 1; it was stored %d times", n, two.storage.stores.Load())
	}
	two.expectLogs(t)
}

func TestRotation(t *testing.T) {
	inBubble(t, func(t *testing.T, db *store.DB) { //nolint:thelper // it is the test
		one, two := newTokenInstance(db), newTokenInstance(db)
		first := one.seal(t)
		two.mustOpen(t, "the first", first)

		time.Sleep(keyAge - time.Second)
		last := one.seal(t)
		if keyIDOf(last) != keyIDOf(first) || countTokenKeys(t, db) != 1 {
			t.Error("a new key too early")
		}
		time.Sleep(time.Second)
		_ = one.seal(t) // has a new key made, and does not wait for it
		synctest.Wait()
		next := one.seal(t)
		if keyIDOf(next) == keyIDOf(first) || countTokenKeys(t, db) != 2 {
			t.Error("no new key")
		}
		two.mustOpen(t, "a token of a key that was not known", next)
		if keyIDOf(two.seal(t)) != keyIDOf(next) || two.storage.stores.Load() != 0 {
			t.Error("the other makes a key of its own")
		}
		for _, i := range []*tokenInstance{one, two, newTokenInstance(db)} {
			i.mustOpen(t, "a valid token of the old key", last)
			if err := i.opens(t, first); !errors.Is(err, runtoken.ErrInvalid) {
				t.Errorf("an expired token: %v", err)
			}
		}

		if kept := time.Duration(one.storage.kept.Load()); kept != keyLife {
			t.Errorf("a key is stored for %v", kept)
		}
		one.expectLogs(t)
		two.expectLogs(t)
	})
}

// TestRotationFails: tokens go on to be made and opened while there is no storage.
func TestRotationFails(t *testing.T) {
	inBubble(t, func(t *testing.T, db *store.DB) { //nolint:thelper // it is the test
		i, other := newTokenInstance(db), newTokenInstance(db)
		first := i.seal(t)
		other.mustOpen(t, "the first token", first)
		i.storage.set(func(s *watchedThings) { s.write = errors.New("read-only") })
		time.Sleep(keyAge)
		for range 100 {
			if token := i.seal(t); keyIDOf(token) != keyIDOf(first) {
				t.Fatal("another key")
			}
			synctest.Wait()
		}
		if n := i.storage.stores.Load(); n != 2 {
			t.Errorf("a key was stored %d times, want once a second", n-1)
		}
		i.expectLogs(t, "the key of run tokens can't be replaced; the old one remains in use")
		time.Sleep(readInterval)
		_ = i.seal(t)
		synctest.Wait()
		if n := i.storage.stores.Load(); n != 3 {
			t.Errorf("a key was stored %d times, want once a second", n-1)
		}
		i.expectLogs(t) // once a minute

		time.Sleep(keyUse - keyAge - 2*time.Second)
		last := i.seal(t)
		synctest.Wait()
		i.expectLogs(t, "the key of run tokens can't be replaced; the old one remains in use")
		time.Sleep(time.Second)
		if token, err := i.Seal(t.Context(), followed, "bridge", "alice"); err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("%q of a key that is too old, error %v", token, err)
		}
		i.expectLogs(t, "run tokens can't be made")
		i.mustOpen(t, "a token of the old key", last)

		// Once it works again, no token is lost, to the last of the old key.
		i.storage.set(func(s *watchedThings) { s.write = nil })
		time.Sleep(runtoken.Lifetime - 2*time.Second)
		if token := i.seal(t); keyIDOf(token) == keyIDOf(first) || countTokenKeys(t, db) != 2 {
			t.Error("no new key")
		}
		for _, i := range []*tokenInstance{i, other, newTokenInstance(db)} {
			i.mustOpen(t, "the last token of the old key", last)
		}
	})
}

// TestForgedTokensDoNotReachTheStorage more than once a second.
func TestForgedTokensDoNotReachTheStorage(t *testing.T) {
	inBubble(t, func(t *testing.T, db *store.DB) { //nolint:thelper // it is the test
		i, other := newTokenInstance(db), newTokenInstance(db)
		_ = i.seal(t)
		before := i.storage.loads.Load()
		forge := func(want int32) {
			t.Helper()
			var busy sync.WaitGroup
			for n := range 200 {
				busy.Go(func() {
					id := runtoken.KeyID{1, 2, 3, byte(n)}
					if key, ok, err := i.Find(t.Context(), id); ok || err != nil {
						t.Errorf("found %s, error %v", key, err)
					}
				})
			}
			busy.Wait()
			if n := i.storage.loads.Load() - before; n != want {
				t.Errorf("the storage was read %d times, want %d", n, want)
			}
		}
		start := time.Now()
		forge(1)
		time.Sleep(readInterval - time.Nanosecond)
		forge(2) // they have to wait for the look
		time.Sleep(time.Nanosecond)
		forge(3)
		if took := time.Since(start); took != 2*readInterval {
			t.Errorf("three looks took %v", took)
		}

		// A storage that fails is not asked more often, and is no reason to call a token
		// invalid for ever.
		i.storage.set(func(s *watchedThings) { s.fail = errors.New("down") })
		time.Sleep(readInterval)
		for range 10 {
			if _, ok, err := i.Find(t.Context(), runtoken.KeyID{7}); ok || err == nil || !strings.Contains(err.Error(), "down") {
				t.Errorf("found %v, error %v", ok, err)
			}
		}
		if n := i.storage.loads.Load() - before; n != 4 {
			t.Errorf("the storage was read %d times, want 4", n)
		}
		i.expectLogs(t, "the keys of run tokens can't be read: run tokens of other instances are refused")
		if other.storage.loads.Load() != 0 {
			t.Error("somebody else's storage was read")
		}
	})
}

// TestKeysOutliveTheirRecord: what an instance knows it goes on to know if a database
// is empty all of a sudden.
func TestKeysOutliveTheirRecord(t *testing.T) {
	inBubble(t, func(t *testing.T, db *store.DB) { //nolint:thelper // it is the test
		i := newTokenInstance(db)
		token := i.seal(t)
		deleteTokenKeys(t, db)
		if _, ok, err := i.Find(t.Context(), runtoken.KeyID{7}); ok || err != nil {
			t.Error(ok, err)
		}
		i.mustOpen(t, "a known key", token)
	})
}

// TestDamagedRunTokenKeys: what can't be understood is named, left as it is, and not
// quoted.
func TestDamagedRunTokenKeys(t *testing.T) {
	db := newDB(t)
	newTokenInstance(db).seal(t)
	good := storedTokenKeys(t, db)[0]
	secret := string(good.Value[4:])
	for name, change := range map[string]func(key *store.Thing){
		"good":      func(*store.Thing) {},
		"empty":     func(key *store.Thing) { key.Value = nil },
		"cut short": func(key *store.Thing) { key.Value = key.Value[1:] },
		"longer":    func(key *store.Thing) { key.Value = append(key.Value, 0) },
		"no day":    func(key *store.Thing) { key.Name = secret },
	} {
		t.Run(name, func(t *testing.T) {
			db := newDB(t)
			i := newTokenInstance(db)
			key := &store.Thing{Kind: kind, Name: good.Name, Value: bytes.Clone(good.Value)}
			change(key)
			if ok, err := put(t.Context(), db.Things(), key, 0); !ok || err != nil {
				t.Fatal(ok, err)
			}
			found, ok, err := i.Find(t.Context(), runtoken.KeyID(good.Value))
			if name == "good" {
				if of := found.Secret(); !ok || err != nil || string(of[:]) != secret {
					t.Errorf("found %v, %s, error %v", ok, found, err)
				}
				return
			}
			_, made := i.Current(t.Context())
			for _, err := range []error{err, made} {
				if ok || !errors.Is(err, errDamaged) {
					t.Errorf("error %v", err)
				}
			}
			for _, line := range i.logs.All() {
				if text, _ := line.ContextMap()["error"].(string); text != errDamaged.Error() {
					t.Errorf("logged %q, %v", line.Message, line.ContextMap())
				}
			}
			i.expectLogs(t, "the keys of run tokens can't be read: run tokens of other instances are refused", "run tokens can't be made")
			if now := storedTokenKeys(t, db); len(now) != 1 || !bytes.Equal(now[0].Value, key.Value) {
				t.Error("it was overwritten")
			}
		})
	}
}

// TestDamagedAtRotation: what can't be understood is not replaced either, and once
// it is removed all is well by itself.
func TestDamagedAtRotation(t *testing.T) {
	inBubble(t, func(t *testing.T, db *store.DB) { //nolint:thelper // it is the test
		i := newTokenInstance(db)
		first := i.seal(t)
		replaceTokenKey(t, db, "damaged")
		time.Sleep(keyAge)
		token := i.seal(t)
		synctest.Wait()
		i.mustOpen(t, "a token of the old key", token)
		i.expectLogs(t, "the key of run tokens can't be replaced; the old one remains in use")
		if now := storedTokenKeys(t, db); len(now) != 1 || string(now[0].Value) != "damaged" {
			t.Error("it was overwritten")
		}
		deleteTokenKeys(t, db)
		time.Sleep(readInterval)
		_ = i.seal(t)
		synctest.Wait()
		if next := i.seal(t); keyIDOf(next) == keyIDOf(first) || countTokenKeys(t, db) != 1 {
			t.Error("no new key")
		}
	})
}

// TestDatabaseFails: a first token that can't be made is no token that is invalid.
func TestDatabaseFails(t *testing.T) {
	down := &ledger.Unavailable{Err: errors.New("down")}
	for name, c := range map[string]struct {
		change func(*watchedThings)
		stores int32
	}{
		"reading": {func(s *watchedThings) { s.fail = down }, 0},
		"writing": {func(s *watchedThings) { s.write = down }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, db *store.DB) { //nolint:thelper // it is the test
				i := newTokenInstance(db)
				i.storage.set(c.change)
				for range 10 {
					if token, err := i.Seal(t.Context(), followed, "bridge", "alice"); !errors.Is(err, down) {
						t.Errorf("%q, error %v", token, err)
					}
				}
				if n := i.storage.loads.Load(); n != 1 || i.storage.stores.Load() != c.stores {
					t.Errorf("read %d times, want once a second", n)
				}
				i.expectLogs(t, "run tokens can't be made")
				i.storage.set(func(s *watchedThings) { s.fail, s.write = nil, nil })
				time.Sleep(readInterval)
				i.mustOpen(t, "once it works", i.seal(t))
			})
		})
	}
}

// TestDatabaseThatCannotBeOpened fails by itself.
func TestDatabaseThatCannotBeOpened(t *testing.T) {
	db := store.New(store.Settings{Kind: store.SQLite, File: "/dev/null/skill_bridge.db"})
	t.Cleanup(db.Close)
	db.Start(zap.NewNop())
	i := newTokenInstance(db)
	token, err := i.Seal(t.Context(), followed, "bridge", "alice")
	if _, ok := errors.AsType[*ledger.Unavailable](err); !ok {
		t.Errorf("%q, error %v", token, err)
	}
	i.expectLogs(t, "run tokens can't be made")
}

// TestDatabaseHangs: no call waits for longer than an access to the database may take,
// and those who leave do not wait at all.
func TestDatabaseHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, db *store.DB) { //nolint:thelper // it is the test
		i := newTokenInstance(db)
		i.storage.set(func(s *watchedThings) { s.hang = true })
		start := time.Now()
		results := make(chan error, 8)
		for n := range cap(results) {
			go func() {
				if n%2 == 0 {
					_, err := i.Current(t.Context())
					results <- err
					return
				}
				_, _, err := i.Find(t.Context(), runtoken.KeyID{7})
				results <- err
			}()
		}
		synctest.Wait() // one of them has its turn
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := i.Current(gone); !errors.Is(err, context.Canceled) || time.Since(start) != 0 {
			t.Errorf("who leaves waits for %v, error %v", time.Since(start), err)
		}
		for range cap(results) {
			if err := <-results; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
		}
		if waited := time.Since(start); waited > 2*storeTimeout {
			t.Errorf("waited for %v", waited)
		}
	})
}

// TestRotationHangs: no call waits for a new key while the old one can be used.
func TestRotationHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, db *store.DB) { //nolint:thelper // it is the test
		i := newTokenInstance(db)
		first := i.seal(t)
		time.Sleep(keyAge)
		i.storage.set(func(s *watchedThings) { s.hang = true })
		start := time.Now()
		for range 10 {
			i.mustOpen(t, "a token of the old key", i.seal(t))
			synctest.Wait()
		}
		if keyIDOf(i.seal(t)) != keyIDOf(first) || time.Since(start) != 0 {
			t.Errorf("a call waited for %v", time.Since(start))
		}
		time.Sleep(storeTimeout)
		synctest.Wait()
		i.expectLogs(t, "the key of run tokens can't be replaced; the old one remains in use")
	})
}

// TestCallerLeaves: what was begun is ended for those who wait behind.
func TestCallerLeaves(t *testing.T) {
	i := newTokenInstance(newDB(t))
	stored := i.storage.things
	leaving := func() context.Context {
		ctx, leave := context.WithCancel(t.Context())
		i.storage.things = contextThings{stored, leave}
		return ctx
	}
	usedToTheEnd := func() {
		<-i.turn
		i.yield()
	}
	if _, _, err := i.Find(leaving(), runtoken.KeyID{7}); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	usedToTheEnd()
	if _, err := i.Current(leaving()); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	usedToTheEnd()
	if n := len(*i.keys.Load()); n != 1 {
		t.Errorf("%d keys, want the one that the caller who left asked for", n)
	}
	i.expectLogs(t)

	gone := leaving()
	i.storage.things.(contextThings).leave()
	<-i.turn
	if _, _, err := i.Find(gone, runtoken.KeyID{7}); !errors.Is(err, context.Canceled) {
		t.Errorf("who has left waits: %v", err)
	}
}

// contextThings have the caller leave when they are read, and fail for callers who
// have left.
type contextThings struct {
	things
	leave func()
}

func (s contextThings) Get(ctx context.Context, kind, name string) (*store.Thing, error) {
	s.leave()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return s.things.Get(ctx, kind, name)
}

func (s contextThings) All(ctx context.Context, kind string) ([]*store.Thing, error) {
	s.leave()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return s.things.All(ctx, kind)
}

// TestWithoutDatabase: keys are then in memory only.
func TestWithoutDatabase(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *store.DB) { //nolint:thelper // it is the test
		core, logs := zaptest.New(zap.DebugLevel)
		keys := newRing(nil, func() *zap.Logger { return zap.New(core) })
		keys.ending = nil
		i := &tokenInstance{keys, runtoken.New(keys, runtoken.Lifetime, nil), nil, logs}
		if err := i.opens(t, strings.Repeat("A", 200)); !errors.Is(err, runtoken.ErrInvalid) {
			t.Error(err)
		}
		<-i.turn
		var busy sync.WaitGroup
		for range 8 {
			busy.Go(func() { i.seal(t) })
		}
		synctest.Wait() // all of them are to make the first key
		i.yield()
		busy.Wait()
		if n := len(*keys.keys.Load()); n != 1 {
			t.Errorf("%d keys, want 1", n)
		}
		first := i.seal(t)
		i.mustOpen(t, "the first", first)
		time.Sleep(keyAge)
		last := i.seal(t)
		synctest.Wait()
		if next := i.seal(t); keyIDOf(next) == keyIDOf(first) {
			t.Error("no new key")
		}
		i.mustOpen(t, "a token of the old key", last)
		for range 100 {
			time.Sleep(keyAge)
			_ = i.seal(t)
			synctest.Wait()
		}
		if n := len(*keys.keys.Load()); n != 93 {
			t.Errorf("%d keys, want 93", n)
		}
		i.expectLogs(t)
	})
}

// TestClocksDiffer: a key of the future is used by who made it, and neither
// replaced nor removed by others.
func TestClocksDiffer(t *testing.T) {
	now := time.Now()
	hour := func(n float64) runtoken.Key {
		return runtoken.NewKey(now.Add(time.Duration(n * float64(time.Hour))))
	}
	ahead, far, old := hour(0.9), hour(30), hour(-2208.9)
	for name, c := range map[string]struct {
		keys  []runtoken.Key
		want  runtoken.Key
		fresh bool
	}{
		"a little ahead":    {[]runtoken.Key{hour(-1), ahead, hour(-2)}, ahead, true},
		"far ahead":         {[]runtoken.Key{far, old}, old, false},
		"nothing but ahead": {[]runtoken.Key{far}, runtoken.Key{}, false},
		"none":              {nil, runtoken.Key{}, false},
	} {
		if got, _, _ := newestKey(c.keys, now); got.ID != c.want.ID || fresh(c.keys, now) != c.fresh {
			t.Errorf("%s: %s, fresh: %v", name, got, fresh(c.keys, now))
		}
	}
}

// TestKeysArePooled: handlers with the same database have the same keys, until the last of
// them gives them up.
func TestKeysArePooled(t *testing.T) {
	one, other := newDB(t), newDB(t)
	held := map[Keys]int{}
	var releases []func()
	for _, db := range []*store.DB{one, one, other, nil, nil} {
		keys, release, err := HoldKeys(db)
		if err != nil {
			t.Fatal(err)
		}
		held[keys]++
		releases = append(releases, release)
	}
	if len(held) != 3 || countTokenKeys(t, one) != 0 {
		t.Errorf("%v", held)
	}
	for _, release := range releases {
		release()
	}
	if n := len(slices.Collect(rings.All())); n != 0 {
		t.Errorf("%d are held", n)
	}
}

// The secret from which others are derived is made once for all instances, whoever is first, and stays. Another purpose has another one.
func TestSecretIsMadeOnce(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { inBubble(t, secretIsMadeOnce) })
	t.Run("PostgreSQL", func(t *testing.T) {
		secretIsMadeOnce(t, opened(t, store.Settings{Kind: store.Postgres, DSN: postgrestest.Start(t)}))
	})
}

func secretIsMadeOnce(t *testing.T, db *store.DB) {
	t.Helper()
	one, other := newTokenInstance(db), newTokenInstance(db)
	secret := func(i *tokenInstance, name string) string {
		t.Helper()
		got, err := i.ring.Secret(t.Context(), name)
		if err != nil || len(got) != 32 {
			t.Fatal(got, err)
		}
		return string(got)
	}
	var before string
	one.storage.set(func(s *watchedThings) { s.first = func() { before = secret(other, "a") } })
	if got := secret(one, "a"); got != before || got == secret(one, "b") {
		t.Error("two instances, or two purposes")
	}
	if secret(newTokenInstance(db), "a") != before {
		t.Error("a later instance has another one")
	}
	loads := one.storage.loads.Load()
	if secret(one, "a"); one.storage.loads.Load() != loads {
		t.Error("it is read again")
	}
	alone := &tokenInstance{ring: newRing(nil, zap.NewNop)}
	if first := secret(alone, "a"); first == before || first != secret(alone, "a") {
		t.Error("without a database")
	}

	failing := newTokenInstance(db)
	failing.storage.set(func(s *watchedThings) { s.fail = errors.New("down") })
	if _, err := failing.ring.Secret(t.Context(), "a"); err == nil {
		t.Error("a database that fails")
	}
	failing.storage.set(func(s *watchedThings) { s.fail = nil })
	if secret(failing, "a") != before {
		t.Error("after a failure")
	}
	thing, err := db.Things().Get(t.Context(), secretKind, "")
	if err != nil {
		t.Fatal(err)
	}
	thing.Value = thing.Value[1:]
	if ok, err := put(t.Context(), db.Things(), thing, 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := newTokenInstance(db).ring.Secret(t.Context(), "a"); !errors.Is(err, errDamagedSecret) {
		t.Errorf("a damaged secret: %v", err)
	}
}
