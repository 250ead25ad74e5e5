package attacks_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/guards"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// endless is how many polls a run takes that is not to end.
const endless = 1 << 30

// noWait leaves a run as soon as it is accepted.
func noWait() testbed.Option { return testbed.Param("wait_ms", 0) }

// leave starts a run, does not wait for its end, and returns its token.
func leave(t *testing.T, c *testbed.Client, skill string) string {
	t.Helper()
	a := c.With(noWait()).Execute(skill, nil)
	token := runTokenOf(a)
	if a.Outcome() != "running" || token == "" {
		t.Fatalf("no run that goes on: %v", a)
	}
	return token
}

// runTokenOf is the run token of an answer, wherever it stands.
func runTokenOf(a testbed.Answer) string {
	var result, data struct {
		RunToken string `json:"run_token"`
	}
	_ = json.Unmarshal(a.Result, &result) // what is missing is seen
	_ = json.Unmarshal(a.Data.Raw, &data) // as above
	return result.RunToken + data.RunToken
}

// look asks about a run, and does not wait for its end.
func look(c *testbed.Client, token string) testbed.Answer {
	return c.Call("get_run", hostile.Object{"run_token": token, "wait_ms": 0})
}

// refused is the body of the answer to every token that is not valid.
func refused(t *testing.T, c *testbed.Client) string {
	t.Helper()
	a := look(c, "nonsense")
	if a.Code != -32602 || a.Data.Param != "run_token" || a.Data.Reason != "invalid" || a.Data.Executed != "no" || a.Data.Next != "fix_params" {
		t.Fatalf("nonsense for a token: %v", a)
	}
	return string(a.Body)
}

// storedIn is a Caddyfile that has its storage in a folder.
func storedIn(folder, caddyfile string) string {
	return "{\n\tstorage file_system " + folder + "\n}\n" + caddyfile
}

// database is the file of the database of such a Caddy.
func database(folder string) string { return filepath.Join(folder, "caddy", "skill_bridge.db") }

// keyIn returns the key of run tokens in a database; without a version, there is none.
func keyIn(t *testing.T, folder string) *store.Thing {
	t.Helper()
	all, err := thingsIn(t, folder).All(t.Context(), "run_token_key")
	if err != nil || len(all) > 1 {
		t.Fatal(len(all), err)
	}
	if len(all) == 0 {
		return &store.Thing{Kind: "run_token_key", Name: time.Now().UTC().Format(time.DateOnly)}
	}
	return all[0]
}

// setKey replaces the key of run tokens in a database; empty: it is deleted.
func setKey(t *testing.T, folder, text string) {
	t.Helper()
	things, key := thingsIn(t, folder), keyIn(t, folder)
	if key.Value = []byte(text); text == "" {
		if err := things.Delete(t.Context(), key.Kind, key.Name); err != nil {
			t.Fatal(err)
		}
		return
	}
	if ok, err := things.Put(t.Context(), key, 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

// thingsIn opens the database of a folder until the test ends.
func thingsIn(t *testing.T, folder string) store.Things {
	t.Helper()
	db := store.New(store.Settings{Kind: store.SQLite, File: database(folder)})
	t.Cleanup(db.Close)
	db.Start(zap.NewNop())
	if err := db.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db.Things()
}

// requests is how many requests providers have got.
func requests(providers ...*hostile.Provider) (n int) {
	for _, p := range providers {
		n += len(p.All())
	}
	return n
}

// A run token is worth something to the caller who got it, at the bridge that gave
// it out, and to nobody else anywhere, not even where everything but the name is configured
// alike. Nobody learns why, and no provider is asked, though each of them has a run
// of that id.
func TestRunTokenOfAnother(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/slow"})
	q := hostile.NewProvider(t, hostile.Skill{ID: "s/slow"})
	for _, provider := range []*hostile.Provider{p, q} {
		provider.On("s/slow", hostile.Invoke, hostile.Accept(endless))
	}
	block := func(path string, lines ...string) string {
		return "skill_bridge " + path + " {\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\t" + strings.Join(lines, "\n\t") + "\n}\n"
	}
	same := provider(p.URL(), "acme")
	auth := "@claims header Authorization *\nbasic_auth @claims {\n\tagent " + agentHash + "\n\tbob " + bobHash + "\n}"
	text := testbed.Site(auth,
		block("/rpc", same), block("/alike", "name alike", same), block("/alike/too", "name too", same, provider(q.URL(), "beta")),
		block("/renamed", "name renamed", provider(p.URL(), "other")), block("/elsewhere", "name elsewhere", provider(q.URL(), "acme")),
		block("/other", "name other", "principal {http.request.header.Nobody}", same)) +
		strings.Replace(testbed.Site(auth, block("/rpc", "name port", same)), "{$PORT}", "{$PORT_B}", 1)
	c := testbed.StartCaddy(t, text)
	type use struct {
		name, skill string
		client      *testbed.Client
	}
	var uses []use
	for _, door := range []struct{ path, skill string }{
		{c.URL, "acme.s.slow"},
		{strings.Replace(c.URL, "/rpc", "/alike", 1), "acme.s.slow"},
		{strings.Replace(c.URL, "/rpc", "/alike/too", 1), "acme.s.slow"},
		{strings.Replace(c.URL, "/rpc", "/alike/too", 1), "beta.s.slow"},
		{strings.Replace(c.URL, "/rpc", "/renamed", 1), "other.s.slow"},
		{strings.Replace(c.URL, "/rpc", "/elsewhere", 1), "acme.s.slow"},
		{strings.Replace(c.URL, c.Port("PORT"), c.Port("PORT_B"), 1), "acme.s.slow"},
	} {
		for name, options := range map[string][]testbed.Option{
			"anonymous": nil, "agent": {testbed.BasicAuth("agent", agentMark)}, "bob": {testbed.BasicAuth("bob", bobPassword)},
		} {
			client := c.With(options...)
			client.URL = door.path
			uses = append(uses, use{name + " at " + door.path, door.skill, client})
		}
	}
	want := refused(t, c.Client)
	for _, own := range uses {
		token := leave(t, own.client, own.skill)
		for _, other := range uses {
			before := requests(p, q)
			a := look(other.client, token)
			if other.name == own.name { // at /alike/too there is another skill, of the same bridge
				if a.Outcome() != "running" || requests(p, q) != before+1 {
					t.Errorf("%s can't use his own token: %v", own.name, a)
				}
				continue
			}
			if string(a.Body) != want {
				t.Errorf("%s used a token of %s: %v", other.name, own.name, a)
			}
			if n := requests(p, q) - before; n > 0 {
				t.Errorf("%s used a token of %s: %d requests", other.name, own.name, n)
			}
		}
	}
	// Who is nobody there is not who is nobody here.
	nobody := c.With()
	nobody.URL = strings.Replace(c.URL, "/rpc", "/other", 1)
	if a := look(nobody, leave(t, c.Client, "acme.s.slow")); string(a.Body) != want {
		t.Errorf("where callers are named otherwise: %v", a)
	}
}

// A token that was changed in whatever way is refused as one that never was a
// token, and no provider is asked.
func TestDamagedRunTokens(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/slow"}, hostile.Skill{ID: "s/slow-1"}, hostile.Skill{ID: "s/slow-22"})
	for _, id := range []string{"s/slow", "s/slow-1", "s/slow-22"} {
		p.On(id, hostile.Invoke, hostile.Accept(endless))
	}
	c := testbed.StartCaddy(t, testbed.Bridge(provider(p.URL(), "acme")))
	token, second := leave(t, c.Client, "acme.s.slow"), leave(t, c.Client, "acme.s.slow")
	// Of each length modulo 3, of which two leave bits of the last character unused.
	longer := []string{leave(t, c.Client, "acme.s.slow-1"), leave(t, c.Client, "acme.s.slow-22")}
	want, before := refused(t, c.Client), requests(p)
	damaged := map[string]string{
		"upper case": strings.ToUpper(token), "lower case": strings.ToLower(token),
		"padded": token + "=", "padded twice": token + "==", "doubled": token + token, "with another": token + second,
		"of two halves": token[:len(token)/2] + second[len(token)/2:], "another's beginning": second[:7] + token[7:],
		"as a header has it": "Bearer " + token, "quoted": quoted(token), "in a URL": "?run_token=" + token,
		"NUL": token + "\x00", "NUL before": "\x00" + token, "byte order mark": "\ufeff" + token, "invisible": token[:9] + "\u200b" + token[9:],
		"the run's id": "run-1", "a dot": token + ".", "zeros": strings.Repeat("A", len(token)), "long": strings.Repeat("A", 5000),
		"very long": strings.Repeat(token, 1000), "fullwidth": token[:9] + "Ａ" + token[10:],
	}
	for _, space := range []string{" ", "\n", "\r\n", "\t", "\u00a0"} {
		damaged[fmt.Sprintf("%q before", space)] = space + token
		damaged[fmt.Sprintf("%q behind", space)] = token + space
		damaged[fmt.Sprintf("%q within", space)] = token[:20] + space + token[20:]
	}
	for i := range len(token) {
		damaged[fmt.Sprint("first ", i)] = token[:i]
		damaged[fmt.Sprint("without the first ", i)] = token[i+1:]
		damaged[fmt.Sprint("without number ", i)] = token[:i] + token[i+1:]
		for _, other := range []string{"A", "_", "+", string(token[i] ^ ' '), string(token[i] ^ 1)} {
			damaged[fmt.Sprintf("number %d is %q", i, other)] = token[:i] + other + token[i+1:]
		}
	}
	for _, own := range append(longer, token) {
		for _, other := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
			if last := len(own) - 1; rune(own[last]) != other {
				damaged[fmt.Sprintf("%s ends in %c", own, other)] = own[:last] + string(other)
			}
		}
	}
	// At the same time, for those that name a key that nobody knows wait for the database, which is read once a second for all of them.
	names := slices.Collect(maps.Keys(damaged))
	testbed.Load{Workers: 100, Calls: len(names), Do: func(_, call int) testbed.Answer {
		name, text := names[call], damaged[names[call]]
		if text == token || text == "" { // nothing at all is no token, and said to be missing
			return testbed.Answer{}
		}
		a := look(c.Client, text)
		if string(a.Body) != want {
			t.Errorf("%s: %v", name, a)
		}
		return a
	}}.Run(t)
	if n := requests(p) - before; n != 0 {
		t.Errorf("%d requests to the provider", n)
	}
	for _, own := range append(longer, token, second) {
		if a := look(c.Client, own); a.Outcome() != "running" {
			t.Errorf("as it was: %v", a)
		}
	}
}

// A token is worth something as long as its provider is where it was, the bridge has
// the same name, and callers are told apart as they were, whatever else a new
// configuration changes.
func TestRunTokensAfterReloads(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/slow"})
	q := hostile.NewProvider(t, hostile.Skill{ID: "s/slow"})
	for _, provider := range []*hostile.Provider{p, q} {
		provider.On("s/slow", hostile.Invoke, hostile.Accept(endless))
	}
	first := testbed.Bridge(provider(p.URL(), "acme"))
	c := testbed.StartCaddy(t, first)
	token, want := leave(t, c.Client, "acme.s.slow"), refused(t, c.Client)
	t.Setenv("S_KEY", "s-key")
	for _, next := range []struct {
		name, caddyfile string
		valid           bool
	}{
		{"the same", first, true},
		{"the provider removed", testbed.Bridge(provider(q.URL(), "beta")), false},
		{"as before", first, true},
		{"the provider elsewhere", testbed.Bridge(provider(q.URL(), "acme")), false},
		{"the provider renamed", testbed.Bridge(provider(p.URL(), "beta")), false},
		{"two providers with their names exchanged", testbed.Bridge(provider(q.URL(), "acme"), provider(p.URL(), "beta")), false},
		{"a skill instead of the provider", testbed.Bridge("skill acme " + p.URLOf("s/slow", hostile.Descriptor)), false},
		{"a registry instead of the provider", testbed.Bridge("registry " + p.URL() + " {\n\tnamespace acme\n}"), false},
		{"other principals", testbed.Bridge("principal {http.request.header.Remote-User}", provider(p.URL(), "acme")), false},
		{"another provider before it", testbed.Bridge(provider(q.URL(), "aaa"), provider(p.URL(), "acme")), true},
		{"other limits", testbed.Bridge("timeout 9s", "poll_interval 1s 1s", "caller another", "limits {\n\truns 100\n}", provider(p.URL(), "acme")), true},
		{"another matcher", strings.Replace(first, "/rpc", "/*", 1), false},
		{"another matcher, and the name that it had", strings.Replace(testbed.Bridge("name skill_bridge/rpc", provider(p.URL(), "acme")), "/rpc {", "/* {", 1), true},
		{"another host", strings.Replace(first, "127.0.0.1", "127.0.0.1:{$PORT}, http://localhost", 1), true},
		{"a site before it", "http://127.0.0.1:{$PORT}/before {\n\trespond 404\n}\n" + first, true},
		{"another bridge before it", "http://127.0.0.1:{$PORT_B} {\n\tskill_bridge {\n\t\tname before\n\t}\n}\n" + first, true},
		{"a name", testbed.Bridge("name agents", provider(p.URL(), "acme")), false},
		{"the name that it had", testbed.Bridge("name skill_bridge/rpc", provider(p.URL(), "acme")), true},
		{"credentials", testbed.Bridge("allow_anonymous", provider(p.URL(), "acme", "credentials api_key {env.S_KEY}", "alias slow s/slow")), true},
	} {
		if err := reload(c, next.caddyfile); err != nil {
			t.Fatalf("%s: %v", next.name, err)
		}
		polls, others := p.Count("s/slow", hostile.Status), requests(q)
		a := look(c.Client, token)
		if next.valid {
			if a.Outcome() != "running" || p.Count("s/slow", hostile.Status) != polls+1 {
				t.Errorf("%s: %v", next.name, a)
			}
		} else if string(a.Body) != want || p.Count("s/slow", hostile.Status) != polls {
			t.Errorf("%s, and the token is still used: %v", next.name, a)
		}
		if n := requests(q) - others; n != 0 {
			t.Errorf("%s: %d requests to another provider", next.name, n)
		}
	}
	// A source that is closed to anonymous callers now is so for their runs, too.
	if err := reload(c, testbed.Bridge(provider(p.URL(), "acme", "require_principal"))); err != nil {
		t.Fatal(err)
	}
	before := requests(p)
	if a := look(c.Client, token); a.Code != -32050 || requests(p) != before {
		t.Errorf("an anonymous caller follows a run of a provider that is closed to him: %v", a)
	}
}

// That somebody may follow a run says nothing about the secrets and the addresses
// that it takes: they are judged when they are used, by the configuration and the
// descriptor of that moment.
func TestRunTokensOpenNoDoors(t *testing.T) {
	s := newStage(t)
	beyond := "https://b.example.test:" + s.own.Port()
	skill := hostile.Skill{ID: "acme/x", Auth: hostile.APIKey("X-API-Key"), StatusURL: beyond + "/status/acme%2Fx/{execution_id}"}
	s.own.Publish(skill)
	s.other.Publish(hostile.Skill{ID: "acme/x"})
	s.own.On("acme/x", hostile.Invoke, hostile.Accept(endless))
	s.other.On("acme/x", hostile.Status, hostile.State("running"))
	trust, key := "trust b.example.test:"+s.own.Port(), "credentials api_key first-key"
	c := s.start(t, trust, key)
	c.Log.MustNotShow("second-key")
	token := leave(t, c.Client, "acme.x")
	sent := func() (keys []string) { // with the requests for the status, in their order
		polls := append(s.own.Requests("acme/x", hostile.Status), s.other.Requests("acme/x", hostile.Status)...)
		slices.SortFunc(polls, func(a, b *hostile.Request) int { return a.At.Compare(b.At) })
		for _, r := range polls {
			keys = append(keys, r.Header.Get("X-API-Key"))
		}
		return keys
	}
	follow := func(what string, use ...string) {
		t.Helper()
		before := len(sent())
		a := look(c.Client, token)
		if keys := sent()[before:]; a.Outcome() != "running" || !slices.Equal(keys, use) {
			t.Errorf("%s: %v, sent %q", what, a, keys)
		}
	}
	refuse := func(what, outcome string) {
		t.Helper()
		before := len(sent())
		a := look(c.Client, token)
		if a.Outcome() != outcome || a.Data.Executed != "yes" || a.Data.ExecutionID != "run-1" || runTokenOf(a) == "" || len(sent()) != before {
			t.Errorf("%s: %v, sent %q", what, a, sent()[before:])
		}
	}
	change := func(lines ...string) {
		t.Helper()
		if err := reload(c, s.config(lines...)); err != nil {
			t.Fatal(err)
		}
	}
	follow("as it was", "first-key")
	change(key)
	refuse("not trusted any more", "AUTH_REQUIRED")
	change(trust)
	refuse("no credentials any more", "AUTH_REQUIRED")
	change(trust, "credentials api_key second-key")
	follow("another key", "second-key")
	change("credentials api_key second-key")
	for _, stranger := range s.strangers() {
		moved := skill
		moved.StatusURL = stranger + "/status/acme%2Fx/{execution_id}"
		s.own.Publish(moved)
		before := s.other.Connections()
		if a := look(c.Client, token); a.Data.Executed != "yes" || runTokenOf(a) == "" || s.other.Connections() != before {
			t.Errorf("the status moved to %s: %v", stranger, a)
		}
	}
	moved := skill
	moved.StatusURL, moved.Auth = "https://127.0.0.9/{execution_id}", nil
	s.own.Publish(moved)
	refuse("an address that is not public", "ENDPOINT_UNREACHABLE")
	moved.StatusURL = ""
	s.own.Publish(moved)
	follow("no key needed any more", "")
	s.own.Withdraw("acme/x")
	if a := look(c.Client, token); a.Code == 0 || a.Data.ExecutionID != "run-1" || a.Data.Executed != "yes" || runTokenOf(a) == "" {
		t.Errorf("the skill is gone: %v", a)
	}
}

// validate does what «caddy validate» does with a Caddyfile.
func validate(t *testing.T, caddyfile string) {
	t.Helper()
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatal(err)
	}
	config := new(caddy.Config)
	if err := json.Unmarshal(adapted, config); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(config); err != nil {
		t.Fatal(err)
	}
}

// The key of run tokens is made with the first token, and tokens are worth nothing
// without it: not after it was removed, nor after it was replaced.
func TestKeyOfRunTokens(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/slow"}, hostile.Skill{ID: "s/quick"})
	p.On("s/slow", hostile.Invoke, hostile.Accept(endless))
	folder := t.TempDir()
	text := storedIn(folder, testbed.Bridge(provider(p.URL(), "acme")))
	t.Setenv("XDG_DATA_HOME", folder)
	validate(t, strings.ReplaceAll(strings.Replace(text, "{\n", "{\n\tadmin off\n\tpersist_config off\n", 1), "{$PORT}", "0"))
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Fatalf("validating a configuration left %v, %v", left, err)
	}
	c := testbed.StartCaddy(t, text)
	mustComplete(t, c.Execute("acme.s.quick", nil))
	mustComplete(t, c.With(testbed.Timeout(time.Minute)).Execute("acme.s.quick", nil))
	want := refused(t, c.Client)
	if keyIn(t, folder).Version > 0 {
		t.Error("there is a key though there is no token")
	}
	old := leave(t, c.Client, "acme.s.slow")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(database(folder) + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			t.Errorf("others may read the key: %v", mode)
		}
	}
	kept := string(keyIn(t, folder).Value)
	again := func() {
		t.Helper()
		c.Stop()
		c = testbed.StartCaddy(t, text)
	}
	again()
	if a := look(c.Client, old); a.Outcome() != "running" {
		t.Errorf("after a restart: %v", a)
	}

	setKey(t, folder, "")
	again()
	before := requests(p)
	if a := look(c.Client, old); string(a.Body) != want || requests(p) != before {
		t.Errorf("with no key: %v", a)
	}
	own := leave(t, c.Client, "acme.s.slow")
	before = requests(p)
	if a := look(c.Client, old); string(a.Body) != want || requests(p) != before {
		t.Errorf("with another key: %v", a)
	}
	if a := look(c.Client, own); a.Outcome() != "running" {
		t.Errorf("of the new key: %v", a)
	}

	setKey(t, folder, kept)
	again()
	if a := look(c.Client, own); string(a.Body) != want {
		t.Errorf("of a key that was taken away: %v", a)
	}
	if a := look(c.Client, old); a.Outcome() != "running" {
		t.Errorf("with the first key again: %v", a)
	}
}

// While the keys can't be read, nothing is started that nobody could come back to;
// all else works, and the record stays as it is.
func TestDamagedKeyOfRunTokens(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/slow"}, hostile.Skill{ID: "s/quick"})
	p.On("s/slow", hostile.Invoke, hostile.Accept(endless))
	folder := t.TempDir()
	text := storedIn(folder, testbed.Bridge("poll_interval 20ms 20ms", provider(p.URL(), "acme")))
	c := testbed.StartCaddy(t, text)
	token := leave(t, c.Client, "acme.s.slow")
	c.Stop()
	kept := string(keyIn(t, folder).Value)
	if len(kept) != 36 {
		t.Fatalf("the key has no secret: %d", len(kept))
	}
	secret := base64.StdEncoding.EncodeToString([]byte(kept[4:]))
	for name, damaged := range map[string]string{"truncated": kept[:len(kept)-2], "blank": " "} {
		t.Run(name, func(t *testing.T) {
			if name != "truncated" {
				longtest.Need(t, longtest.Long)
			}
			setKey(t, folder, damaged)
			c := testbed.StartCaddy(t, text)
			c.Log.MustNotShow(secret, secret[5:30], token)
			mustComplete(t, c.Execute("acme.s.quick", nil))
			late := c.With(testbed.Timeout(100*time.Millisecond)).Execute("acme.s.slow", nil)
			if late.Outcome() != "failed INVOCATION_TIMEOUT" || late.Run().RunID == "" || runTokenOf(late) != "" {
				t.Errorf("a run that outlives its deadline: %v", late)
			}
			for _, skill := range []string{"acme.s.quick", "acme.s.slow"} {
				a := c.With(noWait()).Execute(skill, nil)
				if a.Code != -32603 || a.Data.Executed != "no" || a.Data.Next != "retry" || a.Data.Retry == nil || p.Posts(a.Call) != 0 {
					t.Errorf("%s: %v, %d posts", skill, a, p.Posts(a.Call))
				}
			}
			before := requests(p)
			if a := look(c.Client, token); a.Code != -32603 || a.Data.Executed != "yes" || a.Data.Next != "follow_run" || requests(p) != before {
				t.Errorf("a token: %v", a)
			}
			if len(c.Log.Lines(`"level":"warn"`, "the keys of run tokens in the database")) == 0 {
				t.Error("the log does not name the key")
			}
			if now := string(keyIn(t, folder).Value); now != damaged {
				t.Error("the record was changed")
			}
			// Mended, it is used without anybody's help.
			setKey(t, folder, kept)
			testbed.Eventually(t, 30*time.Second, func() bool { return look(c.Client, token).Outcome() == "running" }, "the token is used again")
			leave(t, c.Client, "acme.s.slow")
			c.Stop()
		})
	}
}

// Nothing shows the key of run tokens, nor what a token says; nobody but the agent
// sees a token.
func TestRunTokensShowNothing(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "secretive/skill"})
	p.On("secretive/skill", hostile.Invoke, hostile.Accept(endless))
	folder := t.TempDir()
	c := testbed.StartProcess(t, testbed.Limits{}, inFront(testbed.Bridge("poll_interval 20ms 20ms", provider(p.URL(), "namespaced")),
		"log", "basic_auth {", "\tagent "+agentHash, "}"), "storage file_system "+folder, "metrics")
	agent := c.With(testbed.BasicAuth("agent", agentMark))
	tokens := []string{leave(t, agent, "namespaced.secretive.skill"), leave(t, agent, "namespaced.secretive.skill")}
	answers := []testbed.Answer{
		look(agent, tokens[0]), look(c.With(testbed.BasicAuth("agent", "wrong")), tokens[0]), look(agent, tokens[0]+"x"),
		agent.With(testbed.Timeout(50*time.Millisecond)).Execute("namespaced.secretive.skill", nil),
	}
	tokens = append(tokens, runTokenOf(answers[0]), runTokenOf(answers[3]))
	for i, token := range tokens {
		plain, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil || len(plain) < 100 {
			t.Fatalf("token %d is %q: %v", i, token, err)
		}
		for _, text := range []string{"run-", "secretive", "skill", "namespaced", "1.0.0", "agent", p.Port()} {
			if strings.Contains(token, text) || strings.Contains(string(plain), text) {
				t.Errorf("token %d shows %q", i, text)
			}
		}
		for _, other := range tokens[:i] {
			if token[7:40] == other[7:40] || token[60:80] == other[60:80] {
				t.Errorf("two tokens have something in common:\n%s\n%s", token, other)
			}
		}
	}
	stored := keyIn(t, folder).Value
	if len(stored) != 36 {
		t.Fatalf("a key of %d bytes", len(stored))
	}
	key := stored[4:]
	numbers := strings.Trim(fmt.Sprintf("%d", key), "[]")
	hidden := []string{
		string(key), base64.StdEncoding.EncodeToString(key), base64.RawURLEncoding.EncodeToString(key), hex.EncodeToString(key),
		strings.ToUpper(hex.EncodeToString(key)), numbers, strings.ReplaceAll(numbers, " ", ","),
	}
	shown := func(where, what string) {
		t.Helper()
		for _, secret := range hidden {
			if strings.Contains(what, secret) || strings.Contains(what, secret[:len(secret)/2]) {
				t.Errorf("%s shows the key of run tokens", where)
			}
		}
	}
	for _, path := range []string{"/config/", "/metrics", "/debug/vars", "/debug/pprof/goroutine?debug=2", "/debug/pprof/cmdline", "/reverse_proxy/upstreams"} {
		a := c.With().Send(http.MethodGet, c.Admin()+path, "")
		if a.Status != http.StatusOK || len(a.Body) == 0 {
			t.Errorf("%s: %v", path, a)
		}
		shown(path, string(a.Body))
		for _, token := range tokens {
			if strings.Contains(string(a.Body), token) {
				t.Errorf("%s shows a token", path)
			}
		}
	}
	for _, a := range answers {
		shown("an answer", string(a.Body))
	}
	testbed.Eventually(t, 30*time.Second, func() bool { return len(c.Log.Lines(`"http.log.access"`)) >= 6 }, "the calls are logged")
	shown("the log", c.Log.Text())
	c.Log.MustNotShow(tokens...)
	for _, token := range tokens {
		p.MustNotReceive(token)
	}
}

// An agent that asks for its run as often as it can makes the bridge ask no more
// often than it may, and hears that the run goes on.
func TestHammeringGetRun(t *testing.T) {
	const perSecond = 20
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/slow"})
	p.On("s/slow", hostile.Invoke, hostile.Accept(endless))
	testbed.Guard(t, func(g *guards.Guards) { g.Polls, g.AllPolls = perSecond, perSecond })
	c := testbed.StartCaddy(t, testbed.Bridge(provider(p.URL(), "acme")))
	tokens := []string{leave(t, c.Client, "acme.s.slow"), leave(t, c.Client, "acme.s.slow")}
	start, before := time.Now(), p.Count("s/slow", hostile.Status)
	testbed.Load{Workers: 8, Calls: 600, Do: func(_, call int) testbed.Answer {
		return c.Call("get_run", hostile.Object{"run_token": tokens[call%2], "wait_ms": call % 3})
	}}.Run(t).Only(t, "running")
	n, took := p.Count("s/slow", hostile.Status)-before, time.Since(start)
	if most := perSecond + int(perSecond*took.Seconds()) + 1; n == 0 || n > most {
		t.Errorf("asked %d times in %s, not 1 to %d", n, took, most)
	}
}

// R48: a run token stays with the bridge that gave it out, whatever sites are added, removed or put in another order, and wherever the bridge moves:
// bridges with the same provider, whose users have the same names, are told apart by their own names.
func TestR48RunTokensStayWithTheirBridge(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/slow"})
	p.On("s/slow", hostile.Invoke, hostile.Accept(endless))
	type door struct{ host, port, path string }
	places := []door{
		{"127.0.0.1", "PORT", "/rpc"}, {"localhost", "PORT", "/rpc"}, {"127.0.0.2", "PORT", "/rpc"}, {"127.0.0.1", "PORT_B", "/rpc"}, {"127.0.0.3", "PORT", "/in/rpc"},
	}
	names := []string{"", "one", "two", "three", "four"} // of the bridges
	// config has the bridges with these numbers in this order, each at the place that many further.
	config := func(further int, numbers ...int) string {
		var b strings.Builder
		for _, n := range numbers {
			at, name := places[(n+further)%len(places)], ""
			if names[n] != "" {
				name = "name " + names[n]
			}
			fmt.Fprintf(&b, "http://%s:{$%s} {\n\thandle %s* {\n\t\tskill_bridge {\n\t\t\t%s\n\t\t\tallow_http\n\t\t\tallow_networks 127.0.0.0/8\n"+
				"\t\t\tprincipal {http.request.header.Remote-User}\n\t\t\t%s\n\t\t}\n\t}\n}\n", at.host, at.port, at.path, name, provider(p.URL(), "acme"))
		}
		return b.String()
	}
	c := testbed.StartCaddy(t, config(0, 0, 1, 2, 3, 4))
	at := func(n, further int) *testbed.Client {
		d := places[(n+further)%len(places)]
		client := c.With(testbed.Header("Remote-User", "alice"))
		client.URL = "http://" + d.host + ":" + c.Port(d.port) + d.path
		return client
	}
	want, tokens := refused(t, at(0, 0)), make([]string, len(names))
	for n := range names {
		tokens[n] = leave(t, at(n, 0), "acme.s.slow")
	}
	check := func(further int, present ...int) {
		t.Helper()
		for _, user := range present {
			for owner, token := range tokens {
				a := look(at(user, further), token)
				if valid := user == owner; valid && a.Outcome() != "running" || !valid && string(a.Body) != want {
					t.Errorf("%v, moved by %d: at bridge %d with the token of %d: %v", present, further, user, owner, a)
				}
			}
		}
	}
	check(0, 0, 1, 2, 3, 4)
	for _, next := range []struct {
		further int
		present []int
	}{
		{0, []int{1, 0}}, {0, []int{0}}, {0, []int{4, 1}}, {0, []int{3, 0}}, {1, []int{0, 1, 2, 3, 4}}, {3, []int{4, 3, 2, 1, 0}}, {4, []int{1, 2}}, {0, []int{2, 4, 3, 1, 0}},
	} {
		if err := reload(c, config(next.further, next.present...)); err != nil {
			t.Fatal(err)
		}
		check(next.further, next.present...)
	}
}
