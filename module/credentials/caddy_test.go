package credentials_test

import (
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
	_ "github.com/caddyserver/caddy/v2/modules/logging"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

func init() {
	caddy.RegisterModule(host{})
}

// host is an app that loads credentials as the bridge's handler does.
type host struct {
	Credentials []json.RawMessage `json:"credentials" caddy:"namespace=http.skill_bridge.credentials inline_key=type"`
	// The name of the database.
	Database string `json:"database"`
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
		if k, ok := m.(tokens.Keeper); ok {
			k.Keep(tokens.Keeping{Things: databases[h.Database], Sealer: sealer})
		}
	}
	return nil
}

func (*host) Start() error { return nil }
func (*host) Stop() error  { return nil }

// load runs Caddy with a configuration with these modules.
func load(t *testing.T, database string, modules ...string) []credential.Credentials {
	t.Helper()
	if err := tryLoad(database, "", modules...); err != nil {
		t.Fatal(err)
	}
	return loaded
}

func tryLoad(database, log string, modules ...string) error {
	writer := `{"output":"discard"}`
	if log != "" {
		writer = fmt.Sprintf(`{"output":"file","roll":false,"filename":%q}`, log)
	}
	config := fmt.Sprintf(`{"admin":{"disabled":true,"config":{"persist":false}},"logging":{"logs":{"default":{"level":"DEBUG","writer":%s}}},`+
		`"apps":{"credentials_test":{"database":%q,"credentials":[%s]}}}`, writer, database, strings.Join(modules, ","))
	return caddy.Load([]byte(config), true)
}

func stop(t *testing.T) {
	t.Helper()
	if err := caddy.Stop(); err != nil {
		t.Error(err)
	}
}

// key seals what is stored.
type key struct{ runtoken.Key }

func (k key) Current(context.Context) (runtoken.Key, error) { return k.Key, nil }

func (k key) Find(_ context.Context, id runtoken.KeyID) (runtoken.Key, bool, error) {
	return k.Key, id == k.ID, nil
}

var sealer = runtoken.New(key{runtoken.NewKey(time.Now())}, time.Hour, nil)

// databases are those of the tests.
var databases = make(map[string]*memory)

// memory is a database that can fail.
type memory struct {
	mu     sync.Mutex
	things map[string]store.Thing
	calls  []string
	fail   map[string]error // by call
}

// newDatabase returns a new database and its name.
func newDatabase(t *testing.T) (*memory, string) {
	t.Helper()
	m := &memory{things: make(map[string]store.Thing), fail: make(map[string]error)}
	name := fmt.Sprint(t.Name(), len(databases))
	databases[name] = m
	return m, name
}

func (m *memory) called(call string) error {
	m.calls = append(m.calls, call)
	return m.fail[call]
}

func (m *memory) living(name string) (store.Thing, bool) {
	thing, ok := m.things[name]
	return thing, ok && (thing.Expires.IsZero() || time.Now().Before(thing.Expires))
}

func (m *memory) Get(_ context.Context, kind, name string) (*store.Thing, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.called("get " + kind); err != nil {
		return nil, err
	}
	if thing, ok := m.living(kind + " " + name); ok {
		return &thing, nil
	}
	return &store.Thing{Kind: kind, Name: name}, nil
}

func (m *memory) Put(_ context.Context, thing *store.Thing, keep time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.called("put " + thing.Kind); err != nil {
		return false, err
	}
	name := thing.Kind + " " + thing.Name
	if present, ok := m.living(name); ok != (thing.Version != 0) || ok && present.Version != thing.Version {
		return false, nil
	}
	thing.Version, thing.Expires = m.things[name].Version+1, time.Now().Add(keep)
	if keep == 0 {
		thing.Expires = time.Time{}
	}
	m.things[name] = *thing
	return true, nil
}

func (m *memory) Delete(_ context.Context, kind, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.things, kind+" "+name)
	return m.called("delete " + kind)
}

func (m *memory) Names(_ context.Context, kind, prefix string, _ int) (map[string]int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := map[string]int64{}
	for name, thing := range m.things {
		if _, living := m.living(name); living && thing.Kind == kind && strings.HasPrefix(thing.Name, prefix) {
			names[thing.Name] = int64(len(thing.Value))
		}
	}
	return names, m.called("names " + kind)
}

// stored calls f with the thing with the newest refresh token.
func (m *memory) stored(f func(*store.Thing)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, thing := range m.things {
		if thing.Kind == "refresh_tokens" {
			f(&thing)
			m.things[name] = thing
		}
	}
}

// tokens returns the newest refresh tokens.
func (m *memory) tokens() (tokens []string) {
	m.stored(func(thing *store.Thing) {
		text, _, _ := sealer.OpenText(context.Background(), string(thing.Value), thing.Kind, thing.Name)
		tokens = append(tokens, text)
	})
	return tokens
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
	memory, database := newDatabase(t)
	m := load(t, database, refreshing)[0]
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
	if got := strings.Join(memory.calls, ", "); got != "put refresh_token_locks, get refresh_tokens, put refresh_tokens, put refresh_token_locks" {
		t.Errorf("got %s", got)
	}
	if got := memory.tokens(); len(got) != 1 || got[0] != "refresh-1" {
		t.Errorf("stored %q", got)
	}
	for name, thing := range memory.things {
		text := name + string(thing.Value)
		assertNoCanary(t, text)
		if strings.Contains(text, "refresh-") {
			t.Errorf("stored %s", text)
		}
	}

	// Another instance replaces the token; this one then uses the new one.
	other := rotating()
	for i := range 2 {
		other.forms = append(other.forms, map[string][]string{"grant_type": {"refresh_token"}, "refresh_token": {fmt.Sprintf("refresh-%d", i)}})
		if _, err := other.answer(0, nil); err != nil {
			t.Fatal(err)
		}
	}
	memory.stored(func(thing *store.Thing) {
		sealed, err := sealer.SealText(t.Context(), "refresh-2", thing.Kind, thing.Name)
		if err != nil {
			t.Fatal(err)
		}
		thing.Value = []byte(sealed)
	})
	if token, err := use(t, m, other, "access-1"); token != "access-3" || err != nil {
		t.Errorf("got %s, %v", token, err)
	}
}

func TestANewlyConfiguredRefreshTokenTakesPrecedence(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", canary)
	t.Setenv("BRIDGE_REFRESH", "refresh-0")
	_, database := newDatabase(t)
	m := load(t, database, refreshing)[0]
	if _, err := use(t, m, rotating(), ""); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BRIDGE_REFRESH", "fresh")
	m = load(t, database, refreshing)[0]
	defer stop(t)
	e := rotating()
	if _, err := use(t, m, e, ""); err == nil || e.forms[0].Get("refresh_token") != "fresh" {
		t.Errorf("used %s", e.forms[0].Get("refresh_token"))
	}
}

// What the database says decides which token is used. One that can't be read is not replaced by an older one, which the endpoint may take for stolen.
func TestBrokenDatabase(t *testing.T) {
	down := &ledger.Unavailable{Err: errors.New("the database is down")}
	for name, test := range map[string]struct {
		damage func(*memory) // after the first use
		used   string        // at the second use after a restart; empty: none
		log    string
	}{
		"nothing": {func(*memory) {}, "refresh-1", ""},
		"damaged": {func(m *memory) { m.stored(func(thing *store.Thing) { thing.Value = []byte("{") }) }, "", ""},
		"sealed by another": {func(m *memory) {
			other := runtoken.New(key{runtoken.NewKey(time.Now())}, time.Hour, nil)
			m.stored(func(thing *store.Thing) {
				text, _ := other.SealText(context.Background(), "refresh-1", thing.Kind, thing.Name)
				thing.Value = []byte(text)
			})
		}, "", ""},
		"lost":           {func(m *memory) { clear(m.things) }, "refresh-0", ""},
		"unreadable":     {func(m *memory) { m.fail["get refresh_tokens"] = down }, "", ""},
		"cannot be kept": {func(m *memory) { m.fail["put refresh_tokens"] = down }, "refresh-1", "could not be written"},
		"no lock":        {func(m *memory) { m.fail["put refresh_token_locks"] = down }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("BRIDGE_SECRET", canary)
			t.Setenv("BRIDGE_REFRESH", "refresh-0")
			memory, database := newDatabase(t)
			log := filepath.Join(t.TempDir(), "log")
			if err := tryLoad(database, log, refreshing); err != nil {
				t.Fatal(err)
			}
			if _, err := use(t, loaded[0], rotating(), ""); err != nil {
				t.Fatal(err)
			}
			stop(t)
			test.damage(memory)
			if err := tryLoad(database, log, refreshing); err != nil {
				t.Fatal(err)
			}
			e := &tokenEndpoint{answer: func(n int, _ *http.Request) (*reply, error) {
				return response(200, fmt.Sprintf(`{"access_token":"access-%d","refresh_token":"next-%d"}`, n, n)), nil
			}}
			token, err := use(t, loaded[0], e, "")
			if test.used == "" {
				f, ok := errors.AsType[*run.Failure](err)
				if !ok || f.Executed != run.ExecutedNo || e.count() != 0 {
					t.Errorf("%d requests, %+v", e.count(), err)
				}
			} else if err != nil || token != "access-1" || e.forms[0].Get("refresh_token") != test.used {
				t.Errorf("got %s, %v, used %v", token, err, e.forms)
			} else if _, err := use(t, loaded[0], e, "access-1"); err != nil || e.forms[1].Get("refresh_token") != "next-1" {
				// Without a restart, the newest token is in memory.
				t.Errorf("used %s: %v", e.forms[1].Get("refresh_token"), err)
			}
			stop(t)
			text := readFile(t, log)
			if test.log == "" && strings.Contains(text, "refresh token") && test.used != "" || !strings.Contains(text, test.log) {
				t.Errorf("logged %s", text)
			}
			assertNoCanary(t, text)
		})
	}
}

// While the database is down, a valid access token is used, and so is a refresh token that its endpoint does not replace.
func TestWithoutDatabase(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", canary)
	t.Setenv("BRIDGE_REFRESH", "refresh-0")
	memory, database := newDatabase(t)
	m := load(t, database, refreshing)[0]
	defer stop(t)
	e := &tokenEndpoint{answer: func(n int, _ *http.Request) (*reply, error) {
		return response(200, fmt.Sprintf(`{"access_token":"access-%d"}`, n)), nil
	}}
	if _, err := use(t, m, e, ""); err != nil {
		t.Fatal(err)
	}
	down := &ledger.Unavailable{Err: errors.New("the database is down")}
	memory.fail = map[string]error{"put refresh_token_locks": down, "get refresh_tokens": down, "put refresh_tokens": down}
	if token, err := use(t, m, e, ""); token != "access-1" || err != nil {
		t.Errorf("a valid access token: %s, %v", token, err)
	}
	if token, err := use(t, m, e, "access-1"); token != "access-2" || err != nil {
		t.Errorf("a refresh token that is not replaced: %s, %v", token, err)
	}
}

// Instances with one database never use a refresh token twice, so that an endpoint that takes this for theft goes on.
func TestRefreshTokensOfInstances(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", canary)
	t.Setenv("BRIDGE_REFRESH", "refresh-0")
	for name, settings := range map[string]func() store.Settings{
		"sqlite": func() store.Settings {
			return store.Settings{Kind: store.SQLite, File: filepath.Join(t.TempDir(), "s.db")}
		},
		"postgres": func() store.Settings { return store.Settings{Kind: store.Postgres, DSN: postgrestest.Start(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			of := settings()
			_, database := newDatabase(t)
			modules := load(t, database, refreshing, refreshing)
			defer stop(t)
			for _, m := range modules {
				db := store.New(of)
				defer db.Close()
				db.Start(zap.NewNop())
				m.(tokens.Keeper).Keep(tokens.Keeping{Things: db.Things(), Sealer: sealer})
			}
			e := rotating()
			var wg sync.WaitGroup
			for i := range 10 {
				wg.Go(func() {
					a := authentication(t, oauth2Auth(tokenURL))
					a.Transport, a.Origin = e, fmt.Sprintf("https://%d.example.com", i) // each with an own token store
					if err := modules[i%2].Authenticate(t.Context(), a); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if e.count() != 10 {
				t.Errorf("%d token requests", e.count())
			}
		})
	}
}

// The lock of an instance that is gone ends by itself. Until then, nobody uses the token.
func TestARefreshTokenInUseElsewhere(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", canary)
	t.Setenv("BRIDGE_REFRESH", "refresh-0")
	memory, database := newDatabase(t)
	m := load(t, database, refreshing)[0].(*credentials.OAuth2)
	defer stop(t)
	if _, err := use(t, m, rotating(), ""); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		for name, thing := range memory.things {
			if thing.Kind == "refresh_token_locks" {
				thing.Expires = time.Now().Add(15 * time.Second)
				memory.things[name] = thing
			}
		}
		a := authentication(t, oauth2Auth(tokenURL)) // its transport fails the test on a request
		a.Origin = "https://other.example.com"
		e := failure(t, m, a)
		if d := details(t, e); e.Kind != run.Unreachable || d["reason"] != "locked" || d["url"] != tokenURL || front.Retry(e) == nil {
			t.Errorf("got %+v %s", e, front.Details(e))
		}
		time.Sleep(15 * time.Second)
		a = authentication(t, oauth2Auth(tokenURL))
		a.Transport, a.Origin = &tokenEndpoint{answer: issue(time.Hour)}, "https://other.example.com"
		if err := m.Authenticate(t.Context(), a); err != nil {
			t.Error(err)
		}
	})
}

// A process that was paused after its request does not overwrite what another instance has stored since.
func TestPausedWithTheLock(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", canary)
	t.Setenv("BRIDGE_REFRESH", "refresh-0")
	memory, database := newDatabase(t)
	m := load(t, database, refreshing)[0]
	defer stop(t)
	e := &tokenEndpoint{answer: func(n int, _ *http.Request) (*reply, error) {
		if n == 2 { // meanwhile, another instance
			memory.stored(func(thing *store.Thing) {
				text, _ := sealer.SealText(context.Background(), "of another", thing.Kind, thing.Name)
				thing.Value = []byte(text)
				thing.Version++
			})
		}
		return response(200, fmt.Sprintf(`{"access_token":"access-%d","refresh_token":"next-%d"}`, n, n)), nil
	}}
	for _, before := range []string{"", "access-1", "access-2"} {
		if _, err := use(t, m, e, before); err != nil && before != "access-2" {
			t.Fatal(err)
		}
	}
	if got := memory.tokens(); got[0] != "of another" {
		t.Errorf("stored %q", got)
	}
}

func TestConcurrentInstancesUseARefreshTokenInTurn(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", canary)
	t.Setenv("BRIDGE_REFRESH", "refresh-0")
	_, database := newDatabase(t)
	m := load(t, database, refreshing)[0]
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
	_, database := newDatabase(t)
	const module = `{"type":"oauth2","client_id":"reload","client_secret":"{env.BRIDGE_SECRET}"}`
	e := &tokenEndpoint{answer: issue(time.Hour)}
	old := load(t, database, module)[0].(*credentials.OAuth2)
	first := bearerOf(t, old, e)
	for range 3 {
		if token := bearerOf(t, load(t, database, module)[0].(*credentials.OAuth2), e); token != first {
			t.Errorf("got %s", token)
		}
	}
	// A configuration that fails to load releases its tokens.
	if err := tryLoad(database, "", module, `{"type":"api_key"}`); err == nil {
		t.Error("a key is missing, and nobody complains")
	}
	if token := bearerOf(t, old, e); token != first {
		t.Errorf("got %s", token)
	}
	stop(t)
	if token := bearerOf(t, load(t, database, module)[0].(*credentials.OAuth2), e); token == first {
		t.Error("the token was kept although nothing ran any more")
	}
	stop(t)
}

func TestLiteralSecretsAreWarnedOf(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", canary)
	_, database := newDatabase(t)
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
			if err := tryLoad(database, log, test.module); err != nil {
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
