package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/verdict"
)

// migrations has a folder for each dialect. A file is named by the version of the schema that it makes, and never changes once it is released.
//
//go:embed migrations
var migrations embed.FS

// migrate gives the database the schema of the program. Processes that start at the same time do it one after the other.
func (d *DB) migrate(ctx context.Context, c *connections) error {
	folder := "migrations/sqlite"
	if d.settings.Kind == Postgres {
		folder = "migrations/postgres"
	}
	files, err := fs.Glob(migrations, folder+"/*") // in their order
	if err != nil {
		return err
	}
	// A database that needs no migration may be read-only.
	version := 0
	if err := c.pools[reading].db.QueryRowContext(ctx, "SELECT version FROM schema_version").Scan(&version); err == nil && version == len(files) {
		return nil
	}
	if d.settings.CheckOnly && version < len(files) {
		d.older.Store(&olderSchema{version, files})
		return nil
	}
	return session{db: d, purpose: writing, kind: several, conns: c, within: true}.attempt(ctx, func(ctx context.Context, s session) error { return d.migrateFrom(ctx, s, files) })
}

// olderSchema is the version of the schema of a database that is only checked, and the migrations of the program.
type olderSchema struct {
	version int
	files   []string
}

// String says what happens when a bridge starts.
func (o *olderSchema) String() string {
	if o.version == 0 {
		return "it is empty: the bridge makes its tables when it starts"
	}
	return fmt.Sprintf("the bridge changes its schema from version %d to %d when it starts, and earlier versions of the bridge refuse it then", o.version, len(o.files))
}

// isEmpty reports whether the database has no tables, since it is only checked.
func (d *DB) isEmpty() bool {
	older := d.older.Load()
	return older != nil && older.version == 0
}

// errUndone ends a transaction that must have no effect.
var errUndone = errors.New("nothing is to be changed")

// migrateFrom migrates in a transaction. With SQLite, one process at a time has one that writes.
func (d *DB) migrateFrom(ctx context.Context, s session, files []string) error {
	var mode []any // for several statements in one text
	if d.settings.Kind == Postgres {
		mode = []any{pgx.QueryExecModeSimpleProtocol}
		if _, err := s.exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(postgresLock)); err != nil {
			return err
		}
	}
	if _, err := s.exec(ctx, "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)"); err != nil {
		return err
	}
	version := 0
	if _, err := s.row(ctx, []any{&version}, "SELECT version FROM schema_version"); err != nil {
		return err
	}
	if version > len(files) {
		return &verdict.Error{
			Text:   fmt.Sprintf("the database has version %d of the schema, this program has version %d", version, len(files)),
			Advice: "A newer version of the bridge has used this database. Start that version, or give this one a database of its own.",
		}
	}
	for i, file := range files[version:] {
		text, err := migrations.ReadFile(file)
		if err == nil {
			_, err = s.runner().ExecContext(ctx, s.conns.replace.Replace(string(text))+
				fmt.Sprintf("; DELETE FROM schema_version; INSERT INTO schema_version VALUES (%d)", version+i+1), mode...)
		}
		if err != nil {
			return fmt.Errorf("version %d of the schema: %w", version+i+1, err)
		}
	}
	return nil
}
