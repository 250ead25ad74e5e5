package keeping

import (
	"cmp"
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// Options are the options of a handler about what must not be forgotten.
type Options struct {
	// The database for what the bridge must not forget. `sqlite` is a file, for the instances on one machine; `postgres` a server, for instances on
	// several; `memory` forgets everything when Caddy ends. Handlers with the same database share it. It is opened in the background after
	// the configuration has started. Default: `{"type": "sqlite"}`, which is `skill_bridge.db` in Caddy's data directory.
	// Example: `{"type": "postgres", "dsn": "{env.SKILL_BRIDGE_DSN}"}`.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=http.skill_bridge.store inline_key=type"`

	// What run tokens and stored secrets are encrypted with, instead of keys in the database: for instances that do not share a database.
	// At least 32 random bytes, in base64 or hexadecimal digits. Placeholders such as `{env.NAME}` and `{file./path}` are replaced when the
	// configuration loads. Default: none; the bridge makes keys, and replaces them every day. Example: `{file./run/secrets/seal_key}`.
	SealKey string `json:"seal_key,omitempty"`

	// The earlier value of `seal_key`: it opens what was made with it, and makes nothing. Default: none.
	OldSealKey string `json:"old_seal_key,omitempty" option:"-"`

	// How long run tokens are valid, and runs with idempotency keys or call-backs and A2A tasks may take, and are kept after their ends,
	// from `1m` to `90d`. In JSON, 0 means the default. Default: `24h`.
	Keep caddy.Duration `json:"keep,omitempty"`

	// How many runs with idempotency keys or call-backs, and A2A tasks, are kept. In JSON, 0 means the default. Default: 100000.
	KeepRuns int `json:"keep_runs,omitempty" option:"-"`

	// How many of these one principal may have. In JSON, 0 means the default. Default: a tenth of `keep_runs`.
	KeepRunsPerPrincipal int `json:"keep_runs_per_principal,omitempty" option:"-"`

	db    *store.DB
	trial bool // the database is deleted when this process ends
}

const (
	namespace       = "http.skill_bridge.store"
	shortestKeep    = time.Minute
	defaultKeepRuns = 100_000
)

// Targets returns the options of a block.
func (o *Options) Targets(r *options.Reader) options.Targets {
	return options.Targets{
		"store": r.Module(namespace, "type", "sqlite, postgres or memory", &o.StoreRaw),
		"seal_key": func() error {
			r.Mark("old_seal_key")
			return r.Args("seal_key", "a secret and optionally the one before", 1, &o.SealKey, &o.OldSealKey)
		},
		"keep": func() error {
			r.Mark("keep_runs")
			r.Mark("keep_runs_per_principal")
			return r.Args("keep", "a duration, and optionally a number of runs in all and of a principal", 1, &o.Keep, &o.KeepRuns, &o.KeepRunsPerPrincipal)
		},
	}
}

// Check checks the options.
func (o *Options) Check(c *options.Checker) {
	switch keep := time.Duration(o.Keep); {
	case keep == 0:
	case keep < shortestKeep:
		c.Check("keep", fmt.Errorf("keep %s is too short: the minimum is 1m", options.Shown(keep)))
	case keep > runtoken.MaxLifetime:
		c.Check("keep", fmt.Errorf("keep %s is too long: the maximum is 90d", options.Shown(keep)))
	}
	for path, n := range map[string]int{"keep_runs": o.KeepRuns, "keep_runs_per_principal": o.KeepRunsPerPrincipal} {
		if n < 0 {
			c.Check(path, fmt.Errorf("%s %d is negative", path, n))
		}
	}
	if all, own := o.Runs(); own > all {
		c.Check("keep_runs_per_principal", fmt.Errorf("keep allows %d runs of a principal, which is more than the %d in all", own, all))
	}
	for path, text := range map[string]string{"seal_key": o.SealKey, "old_seal_key": o.OldSealKey} {
		if text == "" {
			continue
		}
		err := credentials.CheckSecret(text)
		if err == nil && !strings.Contains(text, "{") {
			_, err = parseSealKey(text)
		}
		c.Check(path, err)
	}
	if o.OldSealKey != "" && (o.SealKey == "" || o.SealKey == o.OldSealKey) {
		c.Check("old_seal_key", errors.New("old_seal_key is the value that seal_key had before: it needs a seal_key, and has to differ from it"))
	}
}

// Lifetime returns how long run tokens are valid.
func (o *Options) Lifetime() time.Duration { return cmp.Or(time.Duration(o.Keep), runtoken.Lifetime) }

// Runs returns how many runs are kept, in all and of one principal.
func (o *Options) Runs() (all, own int) {
	all = cmp.Or(o.KeepRuns, defaultKeepRuns)
	return all, cmp.Or(o.KeepRunsPerPrincipal, max(1, all/10))
}

// Hold takes the database from the pool, until use ends. It is opened when the configuration has started.
func (o *Options) Hold(ctx caddy.Context, use *lifetime.Usage) error {
	settings, err := o.settings(ctx)
	if err != nil {
		return err
	}
	if _, err := ctx.AppIfConfigured("events"); err != nil {
		return nil //nolint:nilerr // as in OnStart: without a running Caddy, nothing is kept
	}
	if trial != nil {
		trial.replace(&settings)
		o.trial = !settings.CheckOnly
	}
	db, release, err := store.Hold(settings)
	if err != nil {
		return &options.ConfigError{Path: "store", Err: err}
	}
	use.OnRelease(release)
	if o.db = db; trial != nil {
		trial.dbs = append(trial.dbs, db)
	}
	logger := ctx.Logger()
	return lifetime.OnStart(ctx, func() { db.Start(logger) })
}

// DB returns the database; nil: there is none, since Caddy does not run.
func (o *Options) DB() *store.DB { return o.db }

// Give gives the database to credentials that keep something.
func (o *Options) Give(all []credential.Credentials, sealer *runtoken.Sealer) {
	if o.db == nil {
		return
	}
	for _, c := range all {
		if k, ok := c.(tokens.Keeper); ok {
			k.Keep(tokens.Keeping{Things: o.db.Things(), Sealer: sealer, Trial: o.trial})
		}
	}
}

// settings loads the store module, and returns which database it stands for.
func (o *Options) settings(ctx caddy.Context) (store.Settings, error) {
	if len(o.StoreRaw) == 0 {
		return new(SQLite).Settings()
	}
	module, err := ctx.LoadModule(o, "StoreRaw")
	if err != nil {
		return store.Settings{}, &options.ConfigError{Path: "store", Err: err}
	}
	s, ok := module.(Store)
	if !ok {
		return store.Settings{}, &options.ConfigError{Path: "store", Err: fmt.Errorf("module %T is no store", module)}
	}
	settings, err := s.Settings()
	if err != nil {
		err = &options.ConfigError{Path: "store", Err: err}
	}
	return settings, err
}
