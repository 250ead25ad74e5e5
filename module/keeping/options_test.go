package keeping_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json" // Caddy's config is made for it
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/caddyevents" // with it, Caddy is taken for running
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/keeping"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// held returns options that hold their database until the test ends.
func held(t *testing.T, config string) (*keeping.Options, error) {
	t.Helper()
	caddyContext, err := caddy.ProvisionContext(&caddy.Config{AppsRaw: caddy.ModuleMap{"events": json.RawMessage("{}")}})
	if err != nil {
		t.Fatal(err)
	}
	o := new(keeping.Options)
	if err := caddy.StrictUnmarshalJSON([]byte(config), o); err != nil {
		t.Fatal(err)
	}
	use := lifetime.NewUsage()
	t.Cleanup(use.Leave)
	ctx, cancel := caddy.NewContext(caddyContext)
	t.Cleanup(cancel)
	return o, o.Hold(ctx, use)
}

// TestStores: which database the options mean. None is opened.
func TestStores(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_DATA_HOME", home)
	t.Setenv("FOLDER", "/var/lib/bridge")
	t.Setenv("PASSWORD", "open sesame")
	for config, want := range map[string]string{
		`{}`:                                     "SQLite in " + home + "/caddy/skill_bridge.db",
		`{"store":{"type":"sqlite"}}`:            "SQLite in " + home + "/caddy/skill_bridge.db",
		`{"store":{"type":"sqlite","file":"b"}}`: "SQLite in " + home + "/caddy/b",
		`{"store":{"type":"sqlite","file":"{env.FOLDER}/b.db"}}`: "SQLite in /var/lib/bridge/b.db",
		`{"store":{"type":"memory"}}`:                            "SQLite in memory",
	} {
		o, err := held(t, config)
		if err != nil || o.DB().Status().Place != want || o.DB().Status().Open {
			t.Errorf("%s: %v, want %s", config, err, want)
		}
	}
	one, _ := held(t, `{}`)
	same, _ := held(t, `{"store":{"type":"sqlite","file":"`+home+`/caddy/skill_bridge.db"}}`)
	other, _ := held(t, `{"store":{"type":"memory"}}`)
	if one.DB() != same.DB() || one.DB() == other.DB() {
		t.Error("handlers with the same database do not share it, or others do")
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestR201RawPassword: a DSN is refused if characters in its password, which are not encoded, could make a part of it a host, a database or a parameter.
func TestR201RawPassword(t *testing.T) {
	for password, works := range map[string]bool{
		"p@ss/s3cret": false, "s3/ab": false, "12/s3cret": false, "12?s3cret": false, "12#s3cret": false, "@s3cret": false, "s3cret@": false, "s3cret@x@y": false,
		"s3%zzcret": false, "s3%cret": false, "/@s3cret": false, "s3cret:a": true, "s3cret,a": true, "s3cret%40%2F%25": true, "s3cret&a=b": true,
	} {
		t.Setenv("PASSWORD", password)
		for _, dsn := range []string{"postgres://bridge:{env.PASSWORD}@127.0.0.1:9739/bridge", "postgresql://bridge:{env.PASSWORD}@db/bridge?sslmode=disable"} {
			o, err := held(t, `{"store":{"type":"postgres","dsn":"`+dsn+`"}}`)
			if (err == nil) != works || err != nil && (strings.Contains(err.Error(), password) || !strings.Contains(err.Error(), "percent-encoded")) {
				t.Errorf("%s: %v, %v", password, o, err)
			}
		}
	}
	for _, dsn := range []string{"postgres:bridge:s3cret=x@db/bridge", "POSTGRES://bridge:s3cret@db/bridge", "postgres:///bridge?password=s3cret@x"} {
		if _, err := held(t, `{"store":{"type":"postgres","dsn":"`+dsn+`"}}`); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}

// TestDSNIsSecret: no error, and nothing that shows values, has the DSN or its password.
func TestDSNIsSecret(t *testing.T) {
	t.Setenv("DSN", "postgres://bridge:s3cret@db.example.com/bridge")
	t.Setenv("BAD", "mysql://bridge:s3cret@db.example.com/bridge")
	t.Setenv("WORSE", "postgres://bridge:s3cret@x@:y/bridge")
	for dsn, works := range map[string]bool{
		"{env.DSN}": true, "{env.BAD}": false, "{env.WORSE}": false, "{env.NOT_SET}": false, "postgres://bridge:s3cret@db.example.com/bridge": true,
		"postgres://bridge:s3cret@:x/y": false, "mysql://bridge:s3cret@db": false, "s3cret": false,
	} {
		text, err := json.Marshal(map[string]any{"store": map[string]string{"type": "postgres", "dsn": dsn}})
		if err != nil {
			t.Fatal(err)
		}
		o, err := held(t, string(text))
		if (err == nil) != works || err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", dsn, err)
		}
		if err == nil {
			if shown := fmt.Sprintf("%+v %#v", o.DB().Status(), o.DB().Status()); strings.Contains(shown, "s3cret") || strings.Contains(shown, "postgres://") {
				t.Errorf("%s: %s", dsn, shown)
			}
		}
	}
}

// TestSealKey: who has the key, in whatever form it is written, opens what others with it have made. The old key opens, and makes nothing.
func TestOldSealKey(t *testing.T) {
	random := sha256.Sum256([]byte("one"))
	one, two := base64.StdEncoding.EncodeToString(random[:]), "{file./run/secrets/old}"
	for o, valid := range map[*keeping.Options]bool{
		{SealKey: one, OldSealKey: two}: true, {SealKey: one, OldSealKey: one}: false, {SealKey: two, OldSealKey: two}: false, {OldSealKey: two}: false,
	} {
		c := new(options.Checker)
		if o.Check(c); valid && c.Fault != nil || !valid && (c.Fault == nil || c.Fault.Path != "old_seal_key") {
			t.Errorf("seal_key %q %q: %v", o.SealKey, o.OldSealKey, c.Fault)
		}
	}
}

func TestSealKey(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	secret := func(first byte) []byte {
		b := make([]byte, 32)
		for i := range b {
			b[i] = first + byte(i)*7
		}
		return b
	}
	one, two := base64.StdEncoding.EncodeToString(secret(250)), base64.StdEncoding.EncodeToString(secret(2))
	t.Setenv("KEY", one)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(hex.EncodeToString(secret(250))+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sealer := func(key, old string) *runtoken.Sealer {
		t.Helper()
		o, err := held(t, fmt.Sprintf(`{"store":{"type":"memory"},"seal_key":%q,"old_seal_key":%q}`, key, old))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
		defer cancel()
		keys, err := o.HoldKeys(ctx, lifetime.NewUsage())
		if err != nil {
			t.Fatal(err)
		}
		keys.Prepare()
		return runtoken.New(keys, runtoken.Lifetime, nil)
	}
	const block runtoken.Block = "bridge"
	ref := run.Ref{Source: "acme", SkillID: "acme/forecast", ExecutionID: "1"}
	token, err := sealer("{env.KEY}", "").Seal(t.Context(), ref, block, "ada")
	if err != nil {
		t.Fatal(err)
	}
	for about, c := range map[string]struct {
		s     *runtoken.Sealer
		opens bool
	}{
		"the same key":              {sealer(one, ""), true},
		"in a file, as hexadecimal": {sealer("{file."+file+"}", ""), true},
		"without padding, for URLs": {sealer(strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(one), "="), ""), true},
		"the old key":               {sealer(two, one), true},
		"another key":               {sealer(two, ""), false},
	} {
		_, err := c.s.Open(t.Context(), token, func(string) runtoken.Block { return block }, "ada")
		if c.opens && err != nil || !c.opens && !errors.Is(err, runtoken.ErrInvalid) {
			t.Errorf("%s: %v", about, err)
		}
	}
	newer, err := sealer(two, one).Seal(t.Context(), ref, block, "ada")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sealer(one, "").Open(t.Context(), newer, func(string) runtoken.Block { return block }, "ada"); !errors.Is(err, runtoken.ErrInvalid) {
		t.Errorf("the old key was used: %v", err)
	}
}

// TestWeakSealKey: a key in a variable or file is judged when it is known, and no error quotes it.
func TestWeakSealKey(t *testing.T) {
	for _, key := range []string{"changeme", strings.Repeat("ab", 32), strings.Repeat("QUJD", 20), hex.EncodeToString(make([]byte, 32)), "0123456789abcdef0123456789abcde", "not base64 at all, but long enough to be 32 bytes"} {
		t.Setenv("KEY", key)
		o := &keeping.Options{SealKey: "{env.KEY}"}
		ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
		defer cancel()
		if _, err := o.HoldKeys(ctx, lifetime.NewUsage()); err == nil || !strings.Contains(err.Error(), "openssl rand -base64 32") || strings.Contains(err.Error(), key) {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// TestCheckOnly: a process that only checks leaves no file, no folder, and the existing database.
func TestCheckOnly(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_DATA_HOME", home)
	clean := keeping.CheckOnly()
	o, err := held(t, `{}`)
	if err != nil {
		t.Fatal(err)
	}
	o.DB().Start(zap.NewNop())
	if err := o.DB().Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if place := o.DB().Status().Place; keeping.Named(place) != "SQLite in "+home+"/caddy/skill_bridge.db" || !strings.Contains(place, "check") {
		t.Error(place)
	}
	clean()
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	existing := filepath.Join(home, "existing.db")
	if err := os.WriteFile(existing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if o, err := held(t, `{"store":{"type":"sqlite","file":"`+existing+`"}}`); err != nil || o.DB().Status().Place != "SQLite in "+existing {
		t.Errorf("%v, %v", o.DB().Status(), err)
	}
	clean()
	if _, err := os.Stat(existing); err != nil {
		t.Error(err)
	}
}

// TestStoreSyntax: what the blocks of stores take in a Caddyfile. Errors have the line, and no DSN.
func TestStoreSyntax(t *testing.T) {
	for text, want := range map[string]string{
		"sqlite":                             `{}`,
		"sqlite runs.db":                     `{"file":"runs.db"}`,
		"sqlite a b":                         "sqlite takes optionally a file (arguments given: 2), at Testfile:1",
		"sqlite {\n\tfile a\n}":              "store sqlite takes no block, at Testfile:2",
		"postgres":                           "postgres takes a DSN, in quotes if it has spaces (arguments given: 0",
		"postgres postgres://db/bridge":      `{"dsn":"postgres://db/bridge"}`,
		`postgres "host=/run dbname=bridge"`: `{"dsn":"host=/run dbname=bridge"}`,
		"postgres {env.DSN}":                 `{"dsn":"{env.DSN}"}`,
		"postgres $DSN":                      "looks like a variable of a shell",
		"postgres mysql://secret/bridge":     "the DSN of store postgres is neither a URL",
		"postgres secret secret":             "postgres takes a DSN, in quotes if it has spaces (arguments given: 2), at Testfile:1",
		"postgres postgres://db {\n\tssl\n}": "store postgres takes no block, at Testfile:2",
		"memory":                             `{}`,
		"memory runs":                        "memory takes no argument (arguments given: 1), at Testfile:1",
	} {
		name, _, _ := strings.Cut(text, " ")
		module, err := caddyfile.UnmarshalModule(segment(text), "http.skill_bridge.store."+name)
		got, _ := json.Marshal(module)
		if err != nil {
			got = []byte(err.Error())
		}
		if isError := !strings.HasPrefix(want, "{"); (err != nil) != isError || !strings.Contains(string(got), want) || isError && strings.Contains(string(got), "secret") {
			t.Errorf("%s: %s; want %s", text, got, want)
		}
	}
}

// segment returns a dispenser whose current token is the first one of a text.
func segment(text string) *caddyfile.Dispenser {
	d := caddyfile.NewTestDispenser(text)
	d.Next()
	return d
}
