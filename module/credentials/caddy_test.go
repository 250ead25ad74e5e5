package credentials_test

import (
	"bytes"
	"context"
	"encoding/json" // as Caddy's configurations
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"
	_ "github.com/caddyserver/caddy/v2/modules/logging"
	"github.com/caddyserver/certmagic"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

func init() {
	caddy.RegisterModule(host{})
	caddy.RegisterModule(memory{})
}

// host is an app that loads credentials as the bridge's handler does.
type host struct {
	Credentials []json.RawMessage `json:"credentials" caddy:"namespace=http.skill_bridge.credentials inline_key=type"`
}

// loaded are the credentials of the running configuration.
var loaded []credential.Credentials

func (host) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "credentials_test", New: func() caddy.Module { return new(host) }}
}

func (h *host) Provision(ctx caddy.Context) error {
	modules, err := ctx.LoadModule(h, "Credentials")
	if err != nil {
		return err
	}
	loaded = nil
	for _, m := range modules.([]any) {
		loaded = append(loaded, m.(credential.Credentials))
	}
	return nil
}

func (*host) Start() error { return nil }
func (*host) Stop() error  { return nil }

// load runs Caddy with a configuration with these modules.
func load(t *testing.T, storage string, modules ...string) []credential.Credentials {
	t.Helper()
	if err := tryLoad(storage, "", modules...); err != nil {
		t.Fatal(err)
	}
	return loaded
}

func tryLoad(storage, log string, modules ...string) error {
	writer := `{"output":"discard"}`
	if log != "" {
		writer = fmt.Sprintf(`{"output":"file","roll":false,"filename":%q}`, log)
	}
	config := fmt.Sprintf(`{"admin":{"disabled":true,"config":{"persist":false}},"logging":{"logs":{"default":{"level":"DEBUG","writer":%s}}},`+
		`"storage":%s,"apps":{"credentials_test":{"credentials":[%s]}}}`, writer, storage, strings.Join(modules, ","))
	return caddy.Load([]byte(config), true)
}

func stop(t *testing.T) {
	t.Helper()
	if err := caddy.Stop(); err != nil {
		t.Error(err)
	}
}

// fileStorage returns the configuration of a new file storage.
func fileStorage(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf(`{"module":"file_system","root":%q}`, t.TempDir())
}

// memory is a storage in memory that can fail.
type memory struct {
	// The test's name.
	Name string `json:"name"`
}

func (memory) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.storage.credentials_test", New: func() caddy.Module { return new(memory) }}
}

func (m *memory) CertMagicStorage() (certmagic.Storage, error) { return memories[m.Name], nil }

// memories are the storages of the tests.
var memories = make(map[string]*memoryStorage)

// memoryStorage implements what the module uses of a storage.
type memoryStorage struct {
	certmagic.Storage

	mu       sync.Mutex
	locked   chan struct{} // holds an element while locked
	values   map[string][]byte
	calls    []string
	failLock error
	failLoad error
	failSave error
}

// memoryOf returns the storage of a test, and its configuration.
func memoryOf(t *testing.T) (*memoryStorage, string) {
	t.Helper()
	s := &memoryStorage{locked: make(chan struct{}, 1), values: make(map[string][]byte)}
	memories[t.Name()] = s
	return s, fmt.Sprintf(`{"module":"credentials_test","name":%q}`, t.Name())
}

func (s *memoryStorage) note(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
}

func (s *memoryStorage) Lock(ctx context.Context, _ string) error {
	s.note("lock")
	if s.failLock != nil {
		return s.failLock
	}
	select {
	case s.locked <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *memoryStorage) Unlock(context.Context, string) error {
	s.note("unlock")
	<-s.locked
	return nil
}

// Stat is called before each Load.
func (s *memoryStorage) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	s.note("load")
	value, err := s.Load(ctx, key)
	return certmagic.KeyInfo{Key: key, Size: int64(len(value)), IsTerminal: true}, err
}

func (s *memoryStorage) Load(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failLoad != nil {
		return nil, s.failLoad
	}
	if v, ok := s.values[key]; ok {
		return v, nil
	}
	return nil, fs.ErrNotExist
}

func (s *memoryStorage) Store(_ context.Context, key string, value []byte) error {
	s.note("store")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failSave != nil {
		return s.failSave
	}
	s.values[key] = bytes.Clone(value)
	return nil
}

func (s *memoryStorage) set(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.values {
		s.values[key] = []byte(value)
	}
}

// rotating returns a token endpoint that accepts only the newest refresh token, at first refresh-0.
func rotating() *tokenEndpoint {
	e := new(tokenEndpoint)
	newest := 0
	e.answer = func(int, *http.Request) (*reply, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		form := e.forms[len(e.forms)-1]
		if form.Get("grant_type") != "refresh_token" || form.Get("refresh_token") != fmt.Sprintf("refresh-%d", newest) {
			return response(400, `{"error":"invalid_grant"}`), nil
		}
		newest++
		return response(200, fmt.Sprintf(`{"access_token":"access-%d","refresh_token":"refresh-%d","token_type":"Bearer"}`, newest, newest)), nil
	}
	return e
}

const refreshing = `{"type":"oauth2","client_id":"me","client_secret":"{env.BRIDGE_SECRET}","refresh_token":"{env.BRIDGE_REFRESH}",` +
	`"scopes":["read"],"params":{"audience":["x"]}}`

// use authenticates with m after the previous token was rejected.
func use(t *testing.T, m credential.Credentials, e *tokenEndpoint, before string) (string, error) {
	t.Helper()
	a := rejected(t, e, before)
	if before != "" {
		if _, err := m.(credential.Renewer).Renew(t.Context(), a); err != nil {
			return "", err
		}
	}
	err := m.Authenticate(t.Context(), a)
	return strings.TrimPrefix(a.Request.Header.Get("Authorization"), "Bearer "), err
}

func TestRefreshTokenGrant(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", canary)
	t.Setenv("BRIDGE_REFRESH", "refresh-0")
	memory, storage := memoryOf(t)
	m := load(t, storage, refreshing)[0]
	defer stop(t)
	if len(memory.calls) > 0 {
		t.Errorf("loading a configuration did %v", memory.calls)
	}
	e := rotating()
	if token, err := use(t, m, e, ""); token != "access-1" || err != nil {
		t.Fatalf("got %s, %v", token, err)
	}
	if form := e.forms[0]; form.Get("scope") != "read" || form.Get("audience") != "x" || len(form) != 4 {
		t.Errorf("got %v", form)
	}
	if got := strings.Join(memory.calls, " "); got != "lock load store unlock" {
		t.Errorf("got %s", got)
	}
	for key, value := range memory.values {
		assertNoCanary(t, key, string(value))
		if strings.Contains(key, "refresh") || strings.Contains(string(value), "refresh-0") {
			t.Errorf("stored %s: %s", key, value)
		}
	}

	// Another instance replaces the token; this one then uses the new one.
	newer := rotating()
	for i := range 2 {
		newer.forms = append(newer.forms, map[string][]string{"grant_type": {"refresh_token"}, "refresh_token": {fmt.Sprintf("refresh-%d", i)}})
		if _, err := newer.answer(0, nil); err != nil {
			t.Fatal(err)
		}
	}
	for key, value := range memory.values {
		memory.values[key] = bytes.ReplaceAll(value, []byte("refresh-1"), []byte("refresh-2"))
	}
	if token, err := use(t, m, newer, "access-1"); token != "access-3" || err != nil {
		t.Errorf("got %s, %v", token, err)
	}
}

func TestANewlyConfiguredRefreshTokenTakesPrecedence(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", canary)
	t.Setenv("BRIDGE_REFRESH", "refresh-0")
	_, storage := memoryOf(t)
	m := load(t, storage, refreshing)[0]
	if _, err := use(t, m, rotating(), ""); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BRIDGE_REFRESH", "fresh")
	m = load(t, storage, refreshing)[0]
	defer stop(t)
	e := rotating()
	if _, err := use(t, m, e, ""); err == nil || e.forms[0].Get("refresh_token") != "fresh" {
		t.Errorf("used %s", e.forms[0].Get("refresh_token"))
	}
}

func TestBrokenStorage(t *testing.T) {
	broken := errors.New("storage is broken")
	for name, test := range map[string]struct {
		damage func(*memoryStorage) // after the first use
		used   string               // at the second use after a restart
		log    string
	}{
		"nothing":        {func(*memoryStorage) {}, "refresh-1", ""},
		"no JSON":        {func(s *memoryStorage) { s.set("{") }, "refresh-0", "damaged"},
		"empty":          {func(s *memoryStorage) { s.set("") }, "refresh-0", "damaged"},
		"no token":       {func(s *memoryStorage) { s.set("{}") }, "refresh-0", "damaged"},
		"too long":       {func(s *memoryStorage) { s.set(strings.Repeat(" ", 2<<20) + "{}") }, "refresh-0", "damaged"},
		"of another":     {func(s *memoryStorage) { s.set(`{"refresh_token":"x","configured":"y"}`) }, "refresh-0", ""},
		"unreadable":     {func(s *memoryStorage) { s.failLoad = broken }, "refresh-0", "could not be read"},
		"cannot be kept": {func(s *memoryStorage) { s.failSave = broken }, "refresh-1", "could not be written"},
		"no lock":        {func(s *memoryStorage) { s.failLock = broken }, "refresh-1", "could not be locked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("BRIDGE_SECRET", canary)
			t.Setenv("BRIDGE_REFRESH", "refresh-0")
			memory, storage := memoryOf(t)
			log := filepath.Join(t.TempDir(), "log")
			if err := tryLoad(storage, log, refreshing); err != nil {
				t.Fatal(err)
			}
			if _, err := use(t, loaded[0], rotating(), ""); err != nil {
				t.Fatal(err)
			}
			stop(t)
			test.damage(memory)
			if err := tryLoad(storage, log, refreshing); err != nil {
				t.Fatal(err)
			}
			e := &tokenEndpoint{answer: func(n int, _ *http.Request) (*reply, error) {
				return response(200, fmt.Sprintf(`{"access_token":"access-%d","refresh_token":"next-%d"}`, n, n)), nil
			}}
			if token, err := use(t, loaded[0], e, ""); err != nil || token != "access-1" {
				t.Errorf("got %s, %v", token, err)
			}
			if got := e.forms[0].Get("refresh_token"); got != test.used {
				t.Errorf("used %s", got)
			}
			// Without a restart, the newest token is in memory.
			if memory.failLoad == nil {
				if _, err := use(t, loaded[0], e, "access-1"); err != nil || e.forms[1].Get("refresh_token") != "next-1" {
					t.Errorf("used %s: %v", e.forms[1].Get("refresh_token"), err)
				}
			}
			stop(t)
			text := readFile(t, log)
			if test.log == "" && strings.Contains(text, "refresh token") || !strings.Contains(text, test.log) {
				t.Errorf("logged %s", text)
			}
			assertNoCanary(t, text)
		})
	}
}

func TestARefreshTokenInUseElsewhere(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", canary)
	t.Setenv("BRIDGE_REFRESH", "refresh-0")
	memory, storage := memoryOf(t)
	m := load(t, storage, refreshing)[0].(*credentials.OAuth2)
	defer stop(t)
	synctest.Test(t, func(t *testing.T) {
		memory.locked = make(chan struct{}, 1) // created in this bubble
		memory.locked <- struct{}{}
		a := authentication(t, oauth2Auth(tokenURL)) // its transport fails the test on a request
		e := failure(t, m, a)
		if d := details(t, e); e.Kind != run.Unreachable || d["reason"] != "locked" || d["url"] != tokenURL || front.Retry(e) == nil {
			t.Errorf("got %+v %s", e, front.Details(e))
		}
	})
}

func TestConcurrentInstancesUseARefreshTokenInTurn(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", canary)
	t.Setenv("BRIDGE_REFRESH", "refresh-0")
	_, storage := memoryOf(t)
	m := load(t, storage, refreshing)[0]
	defer stop(t)
	e := rotating()
	var wg sync.WaitGroup
	for i := range 20 { // each with an own token store, as in another process
		wg.Go(func() {
			a := authentication(t, oauth2Auth(tokenURL))
			a.Transport, a.Origin = e, fmt.Sprintf("https://%d.example.com", i)
			if err := m.Authenticate(t.Context(), a); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if e.count() != 20 {
		t.Errorf("%d token requests", e.count())
	}
}

func TestReloadingCaddyKeepsTokens(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", canary)
	_, storage := memoryOf(t)
	const module = `{"type":"oauth2","client_id":"reload","client_secret":"{env.BRIDGE_SECRET}"}`
	e := &tokenEndpoint{answer: issue(time.Hour)}
	old := load(t, storage, module)[0].(*credentials.OAuth2)
	first := bearerOf(t, old, e)
	for range 3 {
		if token := bearerOf(t, load(t, storage, module)[0].(*credentials.OAuth2), e); token != first {
			t.Errorf("got %s", token)
		}
	}
	// A configuration that fails to load releases its tokens.
	if err := tryLoad(storage, "", module, `{"type":"api_key"}`); err == nil {
		t.Error("a key is missing, and nobody complains")
	}
	if token := bearerOf(t, old, e); token != first {
		t.Errorf("got %s", token)
	}
	stop(t)
	if token := bearerOf(t, load(t, storage, module)[0].(*credentials.OAuth2), e); token == first {
		t.Error("the token was kept although nothing ran any more")
	}
	stop(t)
}

func TestLiteralSecretsAreWarnedOf(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", canary)
	_, storage := memoryOf(t)
	for name, test := range map[string]struct {
		module  string
		options string // as logged; "" for no warning
	}{
		"api_key":                {`{"type":"api_key","key":"` + canary + `"}`, `["key"]`},
		"api_key, placeholder":   {`{"type":"api_key","key":"{env.BRIDGE_SECRET}","header":"X-A","prefix":"p"}`, ""},
		"headers":                {`{"type":"headers","headers":{"X-B":"` + canary + `","X-A":"` + canary + `","X-C":"a {env.BRIDGE_SECRET}"}}`, `["X-A","X-B"]`},
		"hmac":                   {`{"type":"hmac","secret":"` + canary + `"}`, `["secret"]`},
		"oauth2":                 {`{"type":"oauth2","client_id":"a","client_secret":"` + canary + `","refresh_token":"` + canary + `"}`, `["client_secret","refresh_token"]`},
		"oauth2, placeholder":    {`{"type":"oauth2","client_id":"a","client_secret":"{env.BRIDGE_SECRET}","params":{"a":["b"]}}`, ""},
		"escaped is literal too": {`{"type":"api_key","key":"\\{` + canary + `\\}"}`, `["key"]`},
	} {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			if err := tryLoad(storage, log, test.module); err != nil {
				t.Fatal(err)
			}
			stop(t)
			text := readFile(t, log)
			warnings := strings.Count(text, "a secret is written in the configuration")
			if test.options == "" && warnings != 0 || test.options != "" && (warnings != 1 || !strings.Contains(text, `"options":`+test.options)) {
				t.Errorf("logged %s", text)
			}
			if test.options != "" && !strings.Contains(text, `"logger":"http.skill_bridge.credentials.`) {
				t.Errorf("logged %s", text)
			}
			assertNoCanary(t, text)
		})
	}
}

func TestFailuresAreLoggedWithoutSecrets(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", canary)
	_, storage := memoryOf(t)
	log := filepath.Join(t.TempDir(), "log")
	if err := tryLoad(storage, log, `{"type":"oauth2","client_id":"a","client_secret":"{env.BRIDGE_SECRET}","token_url":"https://id.example.com/token?key=`+canary+`"}`); err != nil {
		t.Fatal(err)
	}
	a := authentication(t, nil)
	a.Transport = &tokenEndpoint{answer: func(int, *http.Request) (*reply, error) {
		return response(400, `{"error":"invalid_client","error_description":"`+canary+`"}`), nil
	}}
	failure(t, loaded[0].(*credentials.OAuth2), a)
	stop(t)
	text := readFile(t, log)
	if !strings.Contains(text, "invalid_client") || !strings.Contains(text, `"token_url":"https://id.example.com/token"`) {
		t.Errorf("logged %s", text)
	}
	assertNoCanary(t, text)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
