package storage

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
	zaptest "go.uber.org/zap/zaptest/observer"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// watchedStorage is a real storage that counts what is done with it, and fails or
// hangs when it is told to.
type watchedStorage struct {
	certmagic.Storage
	loads, locks, stores atomic.Int32

	mu    sync.Mutex
	fail  error // of every access
	write error // of those that write
	hang  bool
}

func (s *watchedStorage) set(change func(s *watchedStorage)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *watchedStorage) access(ctx context.Context, count *atomic.Int32, writes bool) error {
	count.Add(1)
	s.mu.Lock()
	fail, hang := s.fail, s.hang
	if fail == nil && writes {
		fail = s.write
	}
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return fail
}

// Stat is called before each Load.
func (s *watchedStorage) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	if err := s.access(ctx, &s.loads, false); err != nil {
		return certmagic.KeyInfo{}, err
	}
	return s.Storage.Stat(ctx, key)
}

func (s *watchedStorage) Store(ctx context.Context, key string, value []byte) error {
	if err := s.access(ctx, &s.stores, true); err != nil {
		return err
	}
	return s.Storage.Store(ctx, key, value)
}

func (s *watchedStorage) Lock(ctx context.Context, name string) error {
	if err := s.access(ctx, &s.locks, true); err != nil {
		return err
	}
	return s.Storage.Lock(ctx, name)
}

// tokenInstance is what one instance of the bridge makes run tokens with.
type tokenInstance struct {
	*RunTokenKeys
	*runtoken.Sealer
	storage *watchedStorage
	logs    *zaptest.ObservedLogs
}

func newTokenInstance(folder string) *tokenInstance {
	core, logs := zaptest.New(zap.DebugLevel)
	storage := &watchedStorage{Storage: &certmagic.FileStorage{Path: folder}}
	keys := newRunTokenKeys(storage, zap.New(core))
	keys.ending = nil // made outside of what the test may be in a bubble of
	return &tokenInstance{keys, runtoken.New(keys, nil), storage, logs}
}

// lockKept is how long the file storage has a goroutine for a lock that was released.
const lockKept = 10 * time.Second

var followed = run.Ref{Source: "acme", SkillID: "acme/forecast", Version: "1.0.0", ExecutionID: "exec-1"}

func (i *tokenInstance) seal(t *testing.T) string {
	t.Helper()
	token, err := i.Seal(t.Context(), followed, runtoken.Block{Bridge: "bridge"}, "alice")
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// opens says what comes of a token.
func (i *tokenInstance) opens(t *testing.T, token string) error {
	t.Helper()
	ref, err := i.Open(t.Context(), token, func(string) runtoken.Block { return runtoken.Block{Bridge: "bridge"} }, "alice")
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

func storedTokenKeys(t *testing.T, folder string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, "skill_bridge", "run_token_keys.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return data
}

// countTokenKeys counts those in the storage.
func countTokenKeys(t *testing.T, folder string) int {
	t.Helper()
	keys, err := parseRunTokenKeys(storedTokenKeys(t, folder))
	if err != nil {
		t.Fatal(err)
	}
	return len(keys)
}

func keyIDOf(token string) string { return token[:6] }

func TestInstancesUnderstandEachOther(t *testing.T) {
	folder := t.TempDir()
	one, two := newTokenInstance(folder), newTokenInstance(folder)
	if err := two.opens(t, strings.Repeat("A", 200)); !errors.Is(err, runtoken.ErrInvalid) {
		t.Errorf("a forged token: %v", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Fatalf("%v, %v: no token was made yet", left, err)
	}
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(lockKept)
		time.Sleep(runTokenInterval) // two has looked for keys just now
		first := one.seal(t)
		two.mustOpen(t, "the other's token", first)
		one.mustOpen(t, "the answer", two.seal(t))
		newTokenInstance(folder).mustOpen(t, "after a restart", first)
		if again := newTokenInstance(folder); keyIDOf(again.seal(t)) != keyIDOf(first) || again.storage.locks.Load() != 0 {
			t.Error("after a restart there is another key")
		}
	})
	if n := countTokenKeys(t, folder); n != 1 {
		t.Errorf("%d keys, want 1", n)
	}
	if one.storage.stores.Load() != 1 || two.storage.stores.Load() != 0 || two.storage.locks.Load() != 0 {
		t.Error("more than one of them has written")
	}
	one.expectLogs(t)
	two.expectLogs(t)
}

// TestCurrentKeyIsRemembered: while there is a fresh key, no token is worth a look
// at the storage.
func TestCurrentKeyIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(lockKept)
		i := newTokenInstance(t.TempDir())
		token := i.seal(t)
		loads := i.storage.loads.Load()
		i.storage.set(func(s *watchedStorage) { s.fail = errors.New("down") })
		for range 24 {
			i.mustOpen(t, "a token of the same key", token)
			i.mustOpen(t, "a token just made", i.seal(t))
			time.Sleep(time.Hour - time.Second)
		}
		if i.storage.loads.Load() != loads || i.storage.locks.Load() != 1 || i.storage.stores.Load() != 1 {
			t.Errorf("read %d times, locked %d times, written %d times", i.storage.loads.Load(), i.storage.locks.Load(), i.storage.stores.Load())
		}
		i.expectLogs(t)
	})
}

// TestFirstUseTogether: several instances make their first tokens at once.
func TestFirstUseTogether(t *testing.T) {
	folder := t.TempDir()
	instances := []*tokenInstance{newTokenInstance(folder), newTokenInstance(folder)}
	begin, tokens := make(chan struct{}), make(chan string, 32)
	var busy sync.WaitGroup
	for n := range cap(tokens) {
		busy.Go(func() {
			<-begin
			token, err := instances[n%2].Seal(t.Context(), followed, runtoken.Block{Bridge: "bridge"}, "alice")
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
		for n, i := range append(instances, newTokenInstance(folder)) {
			i.mustOpen(t, "instance "+strconv.Itoa(n), token)
		}
	}
	if n := countTokenKeys(t, folder); n != 1 {
		t.Errorf("%d keys, want 1", n)
	}
	if n := instances[0].storage.stores.Load() + instances[1].storage.stores.Load(); n != 1 {
		t.Errorf("written %d times, want once", n)
	}
}

// TestKeyIsMadeUnderTheLock: an instance that waited for the lock takes the key that was made
// meanwhile.
func TestKeyIsMadeUnderTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(lockKept)
		folder := t.TempDir()
		one, two := newTokenInstance(folder), newTokenInstance(folder)
		if err := one.storage.Lock(t.Context(), runTokenKeysKey); err != nil {
			t.Fatal(err)
		}
		sealed := make(chan string)
		go func() {
			token, err := two.Seal(t.Context(), followed, runtoken.Block{Bridge: "bridge"}, "alice")
			if err != nil {
				t.Error(err)
			}
			sealed <- token
		}()
		synctest.Wait() // two waits for the lock
		data, err := marshalRunTokenKeys([]runtoken.Key{runtoken.NewKey(time.Now())})
		if err == nil {
			err = one.storage.Store(t.Context(), runTokenKeysKey, data)
		}
		if err := errors.Join(err, one.storage.Unlock(t.Context(), runTokenKeysKey)); err != nil {
			t.Fatal(err)
		}
		one.mustOpen(t, "the token of who waited", <-sealed)
		if n := countTokenKeys(t, folder); n != 1 || two.storage.stores.Load() != 0 {
			t.Errorf("%d keys, want 1", n)
		}
	})
}

func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(lockKept)
		folder := t.TempDir()
		one, two := newTokenInstance(folder), newTokenInstance(folder)
		first := one.seal(t)
		two.mustOpen(t, "the first", first)

		time.Sleep(runTokenKeyAge - time.Second)
		last := one.seal(t)
		if keyIDOf(last) != keyIDOf(first) || countTokenKeys(t, folder) != 1 {
			t.Error("a new key too early")
		}
		time.Sleep(time.Second)
		_ = one.seal(t) // has a new key made, and does not wait for it
		synctest.Wait()
		next := one.seal(t)
		if keyIDOf(next) == keyIDOf(first) || countTokenKeys(t, folder) != 2 {
			t.Error("no new key")
		}
		two.mustOpen(t, "a token of a key that was not known", next)
		if keyIDOf(two.seal(t)) != keyIDOf(next) || two.storage.stores.Load() != 0 {
			t.Error("the other makes a key of its own")
		}
		for _, i := range []*tokenInstance{one, two, newTokenInstance(folder)} {
			i.mustOpen(t, "a valid token of the old key", last)
			if err := i.opens(t, first); !errors.Is(err, runtoken.ErrInvalid) {
				t.Errorf("an expired token: %v", err)
			}
		}

		// Every key lives for as long as there may be tokens of it, and no longer.
		for range 5 {
			time.Sleep(runTokenKeyAge)
			_ = one.seal(t)
			synctest.Wait()
		}
		if n := countTokenKeys(t, folder); n != 4 {
			t.Errorf("%d keys, want those of 0, 1, 2 and 3 days ago", n)
		}
		one.expectLogs(t)
		two.expectLogs(t)
	})
}

// TestRotationFails: tokens go on to be made and opened while there is no storage.
func TestRotationFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(lockKept)
		folder := t.TempDir()
		i, other := newTokenInstance(folder), newTokenInstance(folder)
		first := i.seal(t)
		other.mustOpen(t, "the first token", first)
		i.storage.set(func(s *watchedStorage) { s.write = errors.New("read-only") })
		time.Sleep(runTokenKeyAge)
		for range 100 {
			if token := i.seal(t); keyIDOf(token) != keyIDOf(first) {
				t.Fatal("another key")
			}
			synctest.Wait()
		}
		if n := i.storage.locks.Load(); n != 2 {
			t.Errorf("the lock was tried %d times, want once a second", n-1)
		}
		i.expectLogs(t, "the key of run tokens can't be replaced; the old one remains in use")
		time.Sleep(runTokenInterval)
		_ = i.seal(t)
		synctest.Wait()
		if n := i.storage.locks.Load(); n != 3 {
			t.Errorf("the lock was tried %d times, want once a second", n-1)
		}
		i.expectLogs(t) // once a minute

		time.Sleep(runTokenKeyUse - runTokenKeyAge - 2*time.Second)
		last := i.seal(t)
		synctest.Wait()
		i.expectLogs(t, "the key of run tokens can't be replaced; the old one remains in use")
		time.Sleep(time.Second)
		if token, err := i.Seal(t.Context(), followed, runtoken.Block{Bridge: "bridge"}, "alice"); err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("%q of a key that is too old, error %v", token, err)
		}
		i.expectLogs(t, "run tokens can't be made")
		i.mustOpen(t, "a token of the old key", last)

		// Once it works again, no token is lost, to the last of the old key.
		i.storage.set(func(s *watchedStorage) { s.write = nil })
		time.Sleep(runtoken.Lifetime - 2*time.Second)
		if token := i.seal(t); keyIDOf(token) == keyIDOf(first) || countTokenKeys(t, folder) != 2 {
			t.Error("no new key")
		}
		for _, i := range []*tokenInstance{i, other, newTokenInstance(folder)} {
			i.mustOpen(t, "the last token of the old key", last)
		}
	})
}

// TestForgedTokensDoNotReachTheStorage more than once a second.
func TestForgedTokensDoNotReachTheStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(lockKept)
		folder := t.TempDir()
		i, other := newTokenInstance(folder), newTokenInstance(folder)
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
		time.Sleep(runTokenInterval - time.Nanosecond)
		forge(2) // they have to wait for the look
		time.Sleep(time.Nanosecond)
		forge(3)
		if took := time.Since(start); took != 2*runTokenInterval {
			t.Errorf("three looks took %v", took)
		}

		// A storage that fails is not asked more often, and is no reason to call a token
		// invalid for ever.
		i.storage.set(func(s *watchedStorage) { s.fail = errors.New("down") })
		time.Sleep(runTokenInterval)
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

// TestKeysOutliveTheirFile: what an instance knows it goes on to know if a storage
// is empty all of a sudden.
func TestKeysOutliveTheirFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(lockKept)
		folder := t.TempDir()
		i := newTokenInstance(folder)
		token := i.seal(t)
		if err := os.RemoveAll(filepath.Join(folder, "skill_bridge")); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := i.Find(t.Context(), runtoken.KeyID{7}); ok || err != nil {
			t.Error(ok, err)
		}
		i.mustOpen(t, "a known key", token)
	})
}

// TestDamagedRunTokenKeys: what can't be understood is named, left as it is, and not
// quoted.
func TestDamagedRunTokenKeys(t *testing.T) {
	made := time.Date(2026, time.May, 4, 10, 0, 0, 0, time.UTC)
	key := runtoken.NewKey(made)
	other := runtoken.NewKey(made)
	marshal := func(keys ...runtoken.Key) string {
		data, err := marshalRunTokenKeys(keys)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	good := marshal(key, other)
	id := base64.StdEncoding.EncodeToString(key.ID[:])
	secret := good[strings.Index(good, `"secret":"`)+len(`"secret":"`):][:44]
	edit := func(old, replacement string) string {
		edited := strings.Replace(good, old, replacement, 1)
		if edited == good {
			t.Fatalf("%s is not in it", old)
		}
		return edited
	}
	damaged := "damaged: restore it, or remove it"
	for name, c := range map[string]struct{ data, want string }{
		"good":            {good, ""},
		"empty":           {"", damaged},
		"no JSON":         {"damaged", damaged},
		"another value":   {"[]", damaged},
		"cut short":       {good[:len(good)-1], damaged},
		"more after it":   {good + "{}", damaged},
		"no version":      {edit(`"version":1,`, ``), damaged},
		"version 0":       {edit(`"version":1`, `"version":0`), damaged},
		"version as text": {edit(`"version":1`, `"version":"1"`), damaged},
		"a later version": {`{"version":2,"rings":{"` + secret + `":true}}`, "another version of the bridge"},
		"no keys":         {`{"version":1,"keys":[]}`, damaged},
		"null":            {`{"version":1,"keys":null}`, damaged},
		"another member":  {edit(`{"id"`, `{"use":"sig","id"`), damaged},
		"a member twice":  {edit(`{"id"`, `{"id":"AAAAAA==","id"`), damaged},
		"an id twice":     {marshal(key, key), damaged},
		"a long id":       {edit(id, "AAAA"+id), damaged},
		"no id":           {edit(id, "!"+id[1:]), damaged},
		"a short secret":  {edit(secret, secret[4:]), damaged},
		"a long secret":   {edit(secret, "AAAA"+secret), damaged},
		"no base64":       {edit(secret, "!"+secret[1:]), damaged},
		"no secret":       {edit(`"secret":"`+secret+`",`, ``), damaged},
		"secret of zeros": {edit(secret, strings.Repeat("A", 43)+"="), damaged},
		"no time":         {edit(`,"made":"2026-05-04T10:00:00Z"`, ``), damaged},
		"secret as time":  {edit("2026-05-04T10:00:00Z", secret), damaged},
		"secret as name":  {edit(`"made"`, `"`+secret+`"`), damaged},
		"very long":       {strings.Repeat(" ", maxRunTokenFile) + good, damaged},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			i := newTokenInstance(folder)
			if err := i.storage.Store(t.Context(), runTokenKeysKey, []byte(c.data)); err != nil {
				t.Fatal(err)
			}
			found, ok, err := i.Find(t.Context(), key.ID)
			if c.want == "" {
				if !ok || err != nil || found.Secret() != key.Secret() || !found.Made.Equal(key.Made) {
					t.Errorf("found %v, %s, error %v", ok, found, err)
				}
				return
			}
			_, made := i.Current(t.Context())
			for _, err := range []error{err, made} {
				if ok || err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), runTokenKeysKey) {
					t.Errorf("error %v, want one with %q", err, c.want)
				}
				if err != nil && strings.Contains(err.Error(), secret[1:]) {
					t.Errorf("the secret is in %v", err)
				}
			}
			for _, line := range i.logs.All() {
				if text, _ := line.ContextMap()["error"].(string); !strings.Contains(text, c.want) || strings.Contains(text, secret[1:]) {
					t.Errorf("logged %q, %v", line.Message, line.ContextMap())
				}
			}
			i.expectLogs(t, "the keys of run tokens can't be read: run tokens of other instances are refused", "run tokens can't be made")
			if !bytes.Equal(storedTokenKeys(t, folder), []byte(c.data)) {
				t.Error("it was overwritten")
			}
		})
	}
}

// TestDamagedAtRotation: what can't be understood is not replaced either, and once
// it is removed all is well by itself.
func TestDamagedAtRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(lockKept)
		folder := t.TempDir()
		i := newTokenInstance(folder)
		first := i.seal(t)
		file := filepath.Join(folder, "skill_bridge", "run_token_keys.json")
		if err := os.WriteFile(file, []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(runTokenKeyAge)
		token := i.seal(t)
		synctest.Wait()
		i.mustOpen(t, "a token of the old key", token)
		i.expectLogs(t, "the key of run tokens can't be replaced; the old one remains in use")
		if string(storedTokenKeys(t, folder)) != "damaged" {
			t.Error("it was overwritten")
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(runTokenInterval)
		_ = i.seal(t)
		synctest.Wait()
		if next := i.seal(t); keyIDOf(next) == keyIDOf(first) || countTokenKeys(t, folder) != 1 {
			t.Error("no new key")
		}
	})
}

// TestStorageFails: a first token that can't be made is no token that is invalid.
func TestStorageFails(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*watchedStorage)
		locks  int32
	}{
		"reading": {func(s *watchedStorage) { s.fail = fs.ErrPermission }, 0},
		"locking": {func(s *watchedStorage) { s.write = fs.ErrPermission }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(lockKept)
				i := newTokenInstance(t.TempDir())
				i.storage.set(c.change)
				for range 10 {
					if token, err := i.Seal(t.Context(), followed, runtoken.Block{Bridge: "bridge"}, "alice"); !errors.Is(err, fs.ErrPermission) {
						t.Errorf("%q, error %v", token, err)
					}
				}
				if n := i.storage.loads.Load(); n != 1 || i.storage.locks.Load() != c.locks {
					t.Errorf("read %d times, want once a second", n)
				}
				i.expectLogs(t, "run tokens can't be made")
				i.storage.set(func(s *watchedStorage) { s.fail, s.write = nil, nil })
				time.Sleep(runTokenInterval)
				i.mustOpen(t, "once it works", i.seal(t))
			})
		})
	}
}

// TestFolderThatCannotBeWritten is a storage that fails by itself.
func TestFolderThatCannotBeWritten(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	i := newTokenInstance(folder)
	if token, err := i.Seal(t.Context(), followed, runtoken.Block{Bridge: "bridge"}, "alice"); err == nil || !strings.Contains(err.Error(), runTokenKeysKey) {
		t.Errorf("%q, error %v", token, err)
	}
	i.expectLogs(t, "run tokens can't be made")
}

// TestStorageHangs: no call waits for longer than an access to the storage may take,
// and those who leave do not wait at all.
func TestStorageHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(lockKept)
		i := newTokenInstance(t.TempDir())
		i.storage.set(func(s *watchedStorage) { s.hang = true })
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
		if waited := time.Since(start); waited > 2*storageTimeout {
			t.Errorf("waited for %v", waited)
		}
	})
}

// TestRotationHangs: no call waits for a new key while the old one can be used.
func TestRotationHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(lockKept)
		i := newTokenInstance(t.TempDir())
		first := i.seal(t)
		time.Sleep(runTokenKeyAge)
		i.storage.set(func(s *watchedStorage) { s.hang = true })
		start := time.Now()
		for range 10 {
			i.mustOpen(t, "a token of the old key", i.seal(t))
			synctest.Wait()
		}
		if keyIDOf(i.seal(t)) != keyIDOf(first) || time.Since(start) != 0 {
			t.Errorf("a call waited for %v", time.Since(start))
		}
		time.Sleep(storageTimeout)
		synctest.Wait()
		i.expectLogs(t, "the key of run tokens can't be replaced; the old one remains in use")
	})
}

// TestCallerLeaves: what was begun is ended for those who wait behind.
func TestCallerLeaves(t *testing.T) {
	i := newTokenInstance(t.TempDir())
	leaving := func() context.Context {
		ctx, leave := context.WithCancel(t.Context())
		i.storage.Storage = contextStorage{&certmagic.FileStorage{Path: t.TempDir()}, leave}
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
	i.storage.Storage.(contextStorage).leave()
	<-i.turn
	if _, _, err := i.Find(gone, runtoken.KeyID{7}); !errors.Is(err, context.Canceled) {
		t.Errorf("who has left waits: %v", err)
	}
}

// contextStorage has the caller leave when it is read, and fails for callers who
// have left.
type contextStorage struct {
	certmagic.Storage
	leave func()
}

func (s contextStorage) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	s.leave()
	if ctx.Err() != nil {
		return certmagic.KeyInfo{}, ctx.Err()
	}
	return s.Storage.Stat(ctx, key)
}

// TestWithoutStorage: keys are then in memory only.
func TestWithoutStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(lockKept)
		core, logs := zaptest.New(zap.DebugLevel)
		keys := newRunTokenKeys(nil, zap.New(core))
		keys.ending = nil
		i := &tokenInstance{keys, runtoken.New(keys, nil), nil, logs}
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
		time.Sleep(runTokenKeyAge)
		last := i.seal(t)
		synctest.Wait()
		if next := i.seal(t); keyIDOf(next) == keyIDOf(first) {
			t.Error("no new key")
		}
		i.mustOpen(t, "a token of the old key", last)
		for range 10 {
			time.Sleep(runTokenKeyAge)
			_ = i.seal(t)
			synctest.Wait()
		}
		if n := len(*keys.keys.Load()); n != 4 {
			t.Errorf("%d keys, want 4", n)
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
	ahead, far, old, dead := hour(0.9), hour(30), hour(-72.9), hour(-73)
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
	kept := withNewKey([]runtoken.Key{far, dead, old}, now)
	if len(kept) != 3 || kept[0].ID != far.ID || kept[1].ID != old.ID || !fresh(kept, now) {
		t.Errorf("kept %v", kept)
	}
}

// TestRunTokenPool: who has the same storage has the same keys, until the last of
// them gives them up.
func TestRunTokenPool(t *testing.T) {
	held := func() int { return len(slices.Collect(runTokenPool.All())) }
	before := held()
	config := func(caller string) string {
		return testbed.Bridge("caller " + caller)
	}
	hold := func(ctx caddy.Context) (*RunTokenKeys, func()) {
		t.Helper()
		keys, release, err := HoldRunTokenKeys(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return keys, release
	}
	c := testbed.StartCaddy(t, config("first"))
	one, releaseOne := hold(caddy.ActiveContext())
	two, releaseTwo := hold(caddy.ActiveContext())
	if one != two || one.storage == nil || held() != before+1 {
		t.Fatalf("%p with %v and %p", one, one.storage, two)
	}
	if one.storage.Exists(t.Context(), runTokenKeysKey) || one.storage.Exists(t.Context(), "skill_bridge") {
		t.Error("something was written before it was needed")
	}
	token, err := runtoken.New(one, nil).Seal(t.Context(), followed, runtoken.Block{Bridge: "bridge"}, "alice")
	if err != nil || !one.storage.Exists(t.Context(), runTokenKeysKey) {
		t.Fatal(err)
	}
	if err := c.Reload(config("second")); err != nil {
		t.Fatal(err)
	}
	next, releaseNext := hold(caddy.ActiveContext())
	if ref, err := runtoken.New(next, nil).Open(t.Context(), token, func(string) runtoken.Block { return runtoken.Block{Bridge: "bridge"} }, "alice"); err != nil || ref != followed {
		t.Errorf("after a reload: %+v, error %v", ref, err)
	}
	for _, release := range []func(){releaseOne, releaseTwo, releaseNext} {
		release()
	}
	if n := held(); n != before+1 { // the handler's own
		t.Errorf("%d are held, want %d", n, before+1)
	}

	// Without a running Caddy there is no storage, and nothing is written.
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	memory, release := hold(ctx)
	defer release()
	if again, release := hold(ctx); again != memory || memory.storage != nil {
		t.Errorf("%p and %p with %v", memory, again, memory.storage)
	} else {
		release()
	}
}

// TestRunTokenPoolKey: storages of all kinds can be keys of a map.
func TestRunTokenPoolKey(t *testing.T) {
	type plain struct{ certmagic.Storage }
	type odd struct {
		certmagic.Storage
		_ []string
	}
	a, b := &certmagic.FileStorage{Path: "a"}, &certmagic.FileStorage{Path: "a"}
	for name, c := range map[string]struct {
		one, two certmagic.Storage
		same     bool
	}{
		"none":           {nil, nil, true},
		"the same":       {a, a, true},
		"another":        {a, b, false},
		"equal":          {plain{a}, plain{a}, true},
		"not comparable": {odd{Storage: a}, odd{Storage: a}, false},
		"not in depth":   {plain{odd{Storage: a}}, plain{odd{Storage: a}}, false},
	} {
		keys := map[any]bool{storageKey(c.one): true, storageKey(c.two): true}
		if (len(keys) == 1) != c.same {
			t.Errorf("%s: %v", name, keys)
		}
	}
}
