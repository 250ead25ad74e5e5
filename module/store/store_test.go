//nolint:thelper // the functions that databases calls are tests
package store

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
)

// databases calls test with the settings of an empty database of each kind, at the same time. A second DB with these settings is one of another process,
// as it were.
func databases(t *testing.T, test func(t *testing.T, settings Settings)) {
	t.Helper()
	of := func(name string, settings func(t *testing.T) Settings) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, settings(t))
		})
	}
	of("sqlite", func(t *testing.T) Settings {
		return Settings{Kind: SQLite, File: filepath.Join(t.TempDir(), "skill bridge?#%41.db")}
	})
	of("memory", func(t *testing.T) Settings { return Settings{Kind: Memory, File: t.Name()} })
	of("postgres", func(t *testing.T) Settings { return Settings{Kind: Postgres, DSN: postgrestest.Start(t)} })
	if longtest.Runs(longtest.Long) {
		// As behind pgbouncer: the driver takes the types of parameters from the program, not from the server.
		of("postgres without prepared statements", func(t *testing.T) Settings {
			return Settings{Kind: Postgres, DSN: postgrestest.Start(t) + "?default_query_exec_mode=exec"}
		})
	}
}

// open opens a database, which is closed at the end of the test.
func open(t testing.TB, settings Settings) *DB {
	t.Helper()
	db := begin(t, settings, zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)))
	if err := db.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// begin starts a database, and waits for the first attempt to open it.
func begin(t testing.TB, settings Settings, log *zap.Logger) *DB {
	t.Helper()
	db := New(settings)
	t.Cleanup(db.Close)
	db.Start(log)
	<-db.tried
	return db
}

// observed returns a logger and what it has logged.
func observed() (*zap.Logger, *observer.ObservedLogs) {
	core, logs := observer.New(zap.InfoLevel)
	return zap.New(core), logs
}

func exec(t testing.TB, db *DB, text string, args ...any) {
	t.Helper()
	if _, err := db.session(writing).exec(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// scalar returns the one value of the one row of a statement.
func scalar[V any](t testing.TB, db *DB, p purpose, text string, args ...any) (value V) {
	t.Helper()
	if found, err := db.session(p).row(t.Context(), []any{&value}, text, args...); !found || err != nil {
		t.Fatalf("%s: %t, %v", text, found, err)
	}
	return value
}

func TestCheck(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		db := open(t, settings)
		if err := db.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := scalar[int](t, db, reading, "SELECT count(*) FROM things"); n != 0 {
			t.Errorf("Check left %d things", n)
		}
	})
}

func TestSchema(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		// Processes that start at the same time.
		var dbs [4]*DB
		for i := range dbs {
			dbs[i] = New(settings)
			t.Cleanup(dbs[i].Close)
			dbs[i].Start(zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)))
		}
		for _, db := range dbs {
			<-db.tried
			if err := db.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			if version := scalar[int](t, db, reading, "SELECT version FROM schema_version"); version != 1 {
				t.Errorf("version %d of the schema", version)
			}
		}
		// A thing of an earlier process is still there.
		if ok, err := dbs[0].Things().Put(t.Context(), &Thing{Kind: "key", Name: "a"}, 0); !ok || err != nil {
			t.Fatal(ok, err)
		}
		for _, db := range dbs[1:] {
			db.Close()
		}
		again := open(t, settings)
		if _, err := again.Things().Get(t.Context(), "key", "a"); err != nil {
			t.Error(err)
		}
		exec(t, dbs[0], "UPDATE schema_version SET version = 7")
		newer := begin(t, settings, zap.NewNop())
		wantUnavailable(t, newer.Ready(t.Context()), "version 7 of the schema, this program has version 1", "newer version of the bridge")
		wantUnavailable(t, newer.Check(t.Context()), "version 7", "newer version of the bridge")
	})
}

// A program that only checks leaves no tables in an empty database, and the schema of an earlier version as it is. It says what a bridge will do.
func TestCheckOnly(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		checked := settings
		checked.CheckOnly = true
		check := func(migration string) *DB {
			t.Helper()
			db := open(t, checked)
			if err := db.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s := db.Status(); s.Migration != migration || s.Trouble != nil {
				t.Errorf("%+v, want the migration %q", s, migration)
			}
			return db
		}
		db := check("it is empty: the bridge makes its tables when it starts")
		if thing, err := db.Things().Get(t.Context(), "key", "a"); err != nil || thing.Version != 0 {
			t.Error(err)
		}
		tables := "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
		if settings.Kind != Postgres {
			tables = "SELECT count(*) FROM sqlite_master"
		}
		if n := scalar[int](t, db, reading, tables); n != 0 {
			t.Fatalf("%d tables", n)
		}
		user := open(t, settings)
		if _, err := user.Things().Put(t.Context(), &Thing{Kind: "key", Name: "a"}, 0); err != nil {
			t.Fatal(err)
		}
		check("")
		// A later version of the program has another migration.
		files := *db.older.Load()
		files.version, files.files = 1, append(files.files, files.files[0])
		db.older.Store(&files)
		if err := db.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if s := db.Status().Migration; s != "the bridge changes its schema from version 1 to 2 when it starts, and earlier versions of the bridge refuse it then" {
			t.Error(s)
		}
		if version := scalar[int](t, user, reading, "SELECT version FROM schema_version"); version != 1 {
			t.Errorf("version %d of the schema", version)
		}
		exec(t, user, "UPDATE schema_version SET version = 7")
		newer := begin(t, checked, zap.NewNop())
		wantUnavailable(t, newer.Ready(t.Context()), "version 7 of the schema, this program has version 1", "newer version of the bridge")
	})
}

// Two processes change the same thing, and read it, at the same time.
func TestTogether(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		const each, writers = 30, 4
		ctx := t.Context()
		dbs := [2]*DB{open(t, settings), open(t, settings)}
		ends := make(chan error, writers)
		for i := range writers {
			go func() {
				things := dbs[i%2].Things()
				for n := 0; n < each; {
					thing, err := things.Get(ctx, "counter", "n")
					if err == nil && thing.Version == 0 {
						thing.Value = []byte{0}
					}
					if err != nil {
						ends <- err
						return
					}
					thing.Value = []byte{thing.Value[0] + 1}
					ok, err := things.Put(ctx, thing, 0)
					if err != nil {
						ends <- err
						return
					}
					if ok {
						n++
					}
				}
				ends <- nil
			}()
		}
		for range writers {
			if err := <-ends; err != nil {
				t.Fatal(err)
			}
		}
		thing, err := dbs[0].Things().Get(ctx, "counter", "n")
		if err != nil || thing.Value[0] != each*writers || thing.Version != each*writers {
			t.Errorf("after %d changes: %+v, %v", each*writers, thing, err)
		}
	})
}

// Statements that have begun before a database is closed are finished, later ones are refused, and what was confirmed is there.
func TestCloseWhileWriting(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		db, other := open(t, settings), open(t, settings)
		const writers = 6
		var confirmed atomic.Int64
		ends := make(chan error, writers)
		for i := range writers {
			go func() {
				for n := 0; ; n++ {
					ok, err := db.Things().Put(context.Background(), &Thing{Kind: "written", Name: string(rune('a'+i)) + time.Duration(n).String()}, 0)
					if !ok || err != nil {
						ends <- err
						return
					}
					confirmed.Add(1)
				}
			}()
		}
		for confirmed.Load() < 20 {
			time.Sleep(time.Millisecond)
		}
		db.Close()
		for range writers {
			wantUnavailable(t, <-ends, "the database is closed", "")
		}
		if n := scalar[int64](t, other, reading, "SELECT count(*) FROM things"); n != confirmed.Load() {
			t.Errorf("%d things of %d", n, confirmed.Load())
		}
		db.Close() // has no effect
	})
}

func TestTransaction(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		db := open(t, settings)
		for range 3 { // the second one uses statements that were prepared after the first
			err := db.transaction(t.Context(), func(ctx context.Context, s session) error {
				if _, err := s.exec(ctx, "INSERT INTO instances VALUES ($1, {now}, '')", newID()); err != nil {
					return err
				}
				n := 0
				if _, err := s.row(ctx, []any{&n}, "SELECT count(*) FROM instances"); err != nil || n != 1 {
					t.Errorf("%d instances, %v", n, err)
				}
				return sql.ErrNoRows
			})
			if err != sql.ErrNoRows {
				t.Fatal(err)
			}
		}
		if n := scalar[int](t, db, reading, "SELECT count(*) FROM instances"); n != 0 {
			t.Errorf("%d instances after transactions that have failed", n)
		}
	})
}

// The database says the time, in milliseconds.
func TestClock(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		db := open(t, settings)
		now := scalar[int64](t, db, reading, "SELECT {now}")
		if d := time.Since(time.UnixMilli(now)); d.Abs() > time.Minute {
			t.Errorf("the clock of the database is off by %s", d)
		}
	})
}

// The texts of statements that are kept are bounded.
func TestKeptStatements(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		db := open(t, settings)
		for i := range maxStatements + 20 {
			if got := scalar[int](t, db, reading, fmt.Sprint("SELECT ", i)); got != i {
				t.Error(got)
			}
		}
		if kept := len(db.conns.pools[reading].statements); kept != maxStatements {
			t.Errorf("%d statements are kept", kept)
		}
	})
}

func TestListening(t *testing.T) {
	db := open(t, Settings{Kind: Postgres, DSN: postgrestest.Start(t)})
	conn, err := db.dialect.(*postgres).connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), "LISTEN test", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "SELECT pg_notify($1, $2)", "test", "hello")
	if notice, err := conn.WaitForNotification(t.Context()); err != nil || notice.Payload != "hello" {
		t.Errorf("%+v, %v", notice, err)
	}
}
