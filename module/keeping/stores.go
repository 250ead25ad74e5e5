package keeping

import (
	"errors"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
)

// Store is a module that stands for a database.
type Store interface {
	// Settings says which database it is. It opens nothing.
	Settings() (store.Settings, error)
}

func init() {
	caddy.RegisterModule(new(SQLite))
	caddy.RegisterModule(new(Postgres))
	caddy.RegisterModule(new(Memory))
}

// SQLite keeps everything in a file of SQLite, which all bridges on this machine may share. The file must not be on a network file system.
type SQLite struct {
	// The file. A relative path is one in Caddy's data directory. Placeholders such as `{env.NAME}` are replaced when the configuration loads.
	// Default: `skill_bridge.db`.
	File string `json:"file,omitempty"`
}

// defaultFile is the name of the default database in Caddy's data directory.
const defaultFile = "skill_bridge.db"

// CaddyModule returns the Caddy module information.
func (*SQLite) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: namespace + ".sqlite", New: func() caddy.Module { return new(SQLite) }}
}

// UnmarshalCaddyfile parses
//
//	sqlite [<file>]
func (s *SQLite) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return parse(options.NewReader(d), "sqlite", "optionally a file", 0, &s.File)
}

// Settings implements [Store].
func (s *SQLite) Settings() (store.Settings, error) {
	file, err := credentials.Text(s.File)
	if err != nil {
		return store.Settings{}, err
	}
	if file == "" {
		file = defaultFile
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(caddy.AppDataDir(), file)
	}
	return store.Settings{Kind: store.SQLite, File: file}, nil
}

// Postgres keeps everything in a database of PostgreSQL, version 13 or later, which bridges on several machines may share.
type Postgres struct {
	// The data source name: a URL such as `postgres://bridge:{env.PASSWORD}@db.example.com/bridge?sslmode=verify-full`, or pairs such as
	// `host=/run/postgresql dbname=bridge`. It is a secret. Placeholders such as `{env.NAME}` and `{file./path}` are replaced when the
	// configuration loads.
	DSN string `json:"dsn,omitempty"`

	dsn func() string // not a string, which package fmt would print
}

// CaddyModule returns the Caddy module information.
func (*Postgres) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: namespace + ".postgres", New: func() caddy.Module { return new(Postgres) }}
}

// UnmarshalCaddyfile parses
//
//	postgres <dsn>
func (p *Postgres) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	r := options.NewReader(d)
	err := parse(r, "postgres", "a DSN, in quotes if it has spaces", 1, &p.DSN)
	if wrong := p.check(); err == nil && wrong != nil {
		err = r.WrapErr(wrong)
	}
	return err
}

// check checks what is known without the values of placeholders. The error does not contain the DSN.
func (p *Postgres) check() error {
	err := credentials.CheckSecret(p.DSN)
	if err == nil && !strings.Contains(p.DSN, "{") {
		err = checkDSN(p.DSN)
	}
	return err
}

// pair matches the beginning of a DSN that is a list of pairs.
var pair = regexp.MustCompile(`^\s*[a-z_]+\s*=`)

// errDSN does not contain the DSN.
var errDSN = errors.New("the DSN of store postgres is neither a URL, such as postgres://user@host/database, nor pairs, such as host=/run/postgresql dbname=bridge; characters such as @ and / in a password of a URL have to be percent-encoded")

// checkDSN checks that it is certain where a password ends: what comes after it is shown, and looked up.
func checkDSN(dsn string) error {
	if pair.MatchString(dsn) {
		return nil
	}
	u, err := url.Parse(dsn)
	switch {
	case err != nil, !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://"):
		return errDSN
	case strings.Contains(dsn, "@") && (u.User == nil || strings.Count(dsn, "@") > 1):
		return errDSN
	}
	return nil
}

// hasPassword reports whether a password is written in a DSN.
func hasPassword(dsn string) bool {
	if u, err := url.Parse(dsn); err == nil && u.User != nil {
		if _, has := u.User.Password(); has {
			return true
		}
	}
	return strings.Contains(dsn, "password")
}

// Provision replaces the placeholders.
func (p *Postgres) Provision(ctx caddy.Context) error {
	if err := p.check(); err != nil {
		return err
	}
	dsn, err := p.DSN, error(nil)
	if strings.Contains(dsn, "{") || hasPassword(dsn) { // otherwise it is no secret
		dsn, err = credentials.Secret(ctx, "store.dsn", dsn)
	}
	if err == nil {
		err = checkDSN(dsn)
	}
	p.dsn = func() string { return dsn }
	return err
}

// Settings implements [Store].
func (p *Postgres) Settings() (store.Settings, error) {
	return store.Settings{Kind: store.Postgres, DSN: p.dsn()}, nil
}

// Memory keeps everything in memory. What it keeps is lost when Caddy ends.
type Memory struct{}

// CaddyModule returns the Caddy module information.
func (*Memory) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: namespace + ".memory", New: func() caddy.Module { return new(Memory) }}
}

// UnmarshalCaddyfile parses
//
//	memory
func (*Memory) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return parse(options.NewReader(d), "memory", "no argument", 0)
}

// Settings implements [Store].
func (*Memory) Settings() (store.Settings, error) { return store.Settings{Kind: store.Memory}, nil }

// parse reads the arguments of a module, which has no block.
func parse(r *options.Reader, name, what string, least int, targets ...any) error {
	err := r.Args(name, what, least, targets...)
	if err == nil && r.NextBlock(0) {
		return r.Errf("store %s takes no block", name)
	}
	return err
}
