//nolint:thelper // the functions that databases calls are tests
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/machine"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// wantUnavailable checks that an error says that the database can't be used, why, and what to do.
func wantUnavailable(t testing.TB, err error, text, advice string) *ledger.Unavailable {
	t.Helper()
	u, ok := errors.AsType[*ledger.Unavailable](err)
	if !ok {
		t.Fatalf("want an Unavailable about %q, got %v", text, err)
	}
	if !strings.Contains(u.Error(), text) || !strings.Contains(u.Advice, advice) || u.Advice == "" {
		t.Errorf("want %q and %q, got %q and %q", text, advice, u.Error(), u.Advice)
	}
	if strings.Contains(u.Error()+u.Advice, postgrestest.Password) {
		t.Errorf("the error has the password: %v", u)
	}
	return u
}

// Each reason why a database can't be opened is named, with the way out, at once and without the password.
func TestNotOpened(t *testing.T) {
	file := func(name string, content []byte) func(*testing.T) Settings {
		return func(t *testing.T) Settings {
			t.Helper()
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			return Settings{Kind: SQLite, File: path}
		}
	}
	changed := func(change func(t *testing.T, settings Settings)) func(*testing.T) Settings {
		return func(t *testing.T) Settings {
			t.Helper()
			settings := Settings{Kind: SQLite, File: filepath.Join(t.TempDir(), "s.db")}
			change(t, settings)
			return settings
		}
	}
	server := func(change func(t *testing.T, dsn string) string) func(*testing.T) Settings {
		return func(t *testing.T) Settings {
			t.Helper()
			return Settings{Kind: Postgres, DSN: change(t, postgrestest.Start(t))}
		}
	}
	replaced := func(old, with string) func(*testing.T) Settings {
		return server(func(_ *testing.T, dsn string) string { return strings.Replace(dsn, old, with, 1) })
	}
	executed := func(text string) func(*testing.T) Settings {
		return server(func(t *testing.T, dsn string) string {
			t.Helper()
			postgrestest.Exec(t, dsn, text)
			return dsn
		})
	}
	for name, test := range map[string]struct {
		settings     func(*testing.T) Settings
		text, advice string
	}{
		"folder is a file": {func(t *testing.T) Settings {
			t.Helper()
			settings := file("folder", nil)(t)
			settings.File += "/s.db"
			return settings
		}, "folder", "store sqlite <file>"},
		"file is a folder":     {func(t *testing.T) Settings { t.Helper(); return Settings{Kind: SQLite, File: t.TempDir()} }, "is a directory", "store sqlite <file>"},
		"another kind of file": {file("s.db", []byte(strings.Repeat("no database ", 100))), "file is not a database", "not a database of SQLite"},
		"another program's": {changed(func(t *testing.T, settings Settings) {
			t.Helper()
			db := open(t, settings)
			exec(t, db, "DROP TABLE schema_version")
			db.Close()
		}), "already exists", "not the tables of the bridge"},
		"damaged": {changed(func(t *testing.T, settings Settings) {
			t.Helper()
			open(t, settings).Close()
			content, err := os.ReadFile(settings.File)
			if err == nil {
				copy(content[100:4096], strings.Repeat("damage", 1000))
				err = os.WriteFile(settings.File, content, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}), "malformed", "damaged"},

		"unreadable DSN":                      {replaced("127.0.0.1:", "127.0.0.1:port"), "DSN can't be read", "postgres://"},
		"parameter that may be of a password": {replaced("/test", "/test?password=p&"+postgrestest.Password+"=x"), "DSN can't be read", "ercent-encode"},
		"pair that may be of a password": {func(*testing.T) Settings {
			return Settings{Kind: Postgres, DSN: "host=127.0.0.1 password=p " + postgrestest.Password + "=x"}
		}, "DSN can't be read", "'…'"},
		"wrong password":   {replaced(postgrestest.Password, "not-"+postgrestest.Password), "password authentication failed", "user or the password"},
		"unknown user":     {replaced("//postgres:", "//nobody:"), "password authentication failed", "user or the password"},
		"unknown database": {replaced("/test", "/no_test"), "does not exist", "no database of this name"},
		"unknown host":     {replaced("127.0.0.1", "host.invalid"), "host.invalid", "host, port"},
		"TLS":              {server(func(_ *testing.T, dsn string) string { return dsn + "?sslmode=require" }), "TLS", "sslmode"},
		"nothing listens": {server(func(t *testing.T, dsn string) string {
			t.Helper()
			return strings.Replace(dsn, address(dsn), unused(t), 1)
		}), "refused", "the server runs"},
		"tables of others":   {executed("CREATE TABLE runs (n int)"), "already exists", "database of its own"},
		"read-only":          {executed("DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET default_transaction_read_only = on'; END $$"), "read-only", "standby"},
		"missing privileges": {server(func(t *testing.T, dsn string) string { t.Helper(); return role(t, dsn, "") }), "permission denied", "privileges"},
		"no schema for tables": {server(func(t *testing.T, dsn string) string {
			t.Helper()
			return role(t, dsn, "ALTER ROLE %s SET search_path = nosuch")
		}), "no schema", "search_path"},
	} {
		t.Run(name, func(t *testing.T) {
			log, logs := observed()
			db := begin(t, test.settings(t), log)
			u := wantUnavailable(t, db.Ready(t.Context()), test.text, test.advice)
			if status := db.Status(); status.Open || status.Trouble != u || !strings.Contains(u.Error(), status.Place) {
				t.Errorf("%+v", status)
			}
			if lines := logs.FilterField(zap.String("advice", u.Advice)).Len(); lines != 1 || logs.Len() != 1 {
				t.Errorf("%d log lines, %d with the advice", logs.Len(), lines)
			}
		})
	}
}

// address returns the host and the port of a DSN.
func address(dsn string) string {
	_, rest, _ := strings.Cut(dsn, "@")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// unused returns an address at which nothing listens.
func unused(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// role returns the DSN of a user who has no privileges.
func role(t *testing.T, dsn, text string) string {
	t.Helper()
	name := "role_" + strings.ReplaceAll(newID(), "-", "")
	postgrestest.Exec(t, dsn, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'; "+strings.ReplaceAll(text, "%s", name), name, postgrestest.Password))
	t.Cleanup(func() { postgrestest.Exec(t, dsn, "DROP ROLE "+name) })
	return strings.Replace(dsn, "//postgres:", "//"+name+":", 1)
}

// What errors of PostgreSQL mean: whether the statement may have had an effect, whether the database can be read, and what to do.
func TestErrorsOfPostgres(t *testing.T) {
	log, logs := observed()
	db := begin(t, Settings{Kind: Postgres, DSN: postgrestest.Start(t)}, log)
	raise := func(p purpose, code string) error {
		_, err := db.session(p).exec(t.Context(), "DO $$ BEGIN RAISE EXCEPTION 'raised' USING ERRCODE = '"+code+"'; END $$")
		return err
	}
	for code, full := range map[string]bool{"25006": true, "53100": true, "53300": false, "42P01": false, "57014": false, "26000": false, "28P01": false, "57P03": false, "57P05": false} {
		if u := wantUnavailable(t, raise(writing, code), "raised", ""); u.Full != full {
			t.Errorf("%s: full = %t", code, u.Full)
		}
		if status := db.Status(); !status.Open || status.Trouble == nil {
			t.Errorf("%s: %+v", code, status)
		}
	}
	for _, code := range []string{"57P01", "58030", "XX001", "08006"} {
		if _, ok := errors.AsType[*ledger.Unavailable](raise(writing, code)); ok {
			t.Errorf("%s: an error of a statement that may have had an effect says that it had none", code)
		}
		wantUnavailable(t, raise(reading, code), "raised", "")
	}
	full := &pgconn.PgError{SeverityUnlocalized: "PANIC", Code: "53100", Message: "could not write to file"} // of its log: it may have a commit already
	if _, ok := errors.AsType[*ledger.Unavailable](db.judged(t.Context(), full, writing)); ok || db.Status().Trouble.Full {
		t.Errorf("a server that has ended since its disk is full had certainly not executed a statement, or can be read: %+v", db.Status().Trouble)
	}
	if _, ok := errors.AsType[*ledger.Unavailable](raise(writing, "23505")); ok {
		t.Error("a violation of a constraint says that the database can't be used")
	}
	// A cause is logged once, also if statements that read, or have nothing to change, succeed meanwhile.
	if err := db.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for quiet := false; !quiet; { // the first notice has come back
		n := db.runs.notices
		n.mu.Lock()
		quiet = n.listening && n.sent.IsZero()
		n.mu.Unlock()
	}
	db.said.at = time.Time{}
	before := logs.Len()
	for range 3 {
		wantUnavailable(t, raise(writing, "53100"), "raised", "full")
		scalar[int](t, db, reading, "SELECT 1")
		if _, err := db.session(leasing).exec(t.Context(), "UPDATE instances SET lease = lease WHERE false"); err != nil || db.Status().Trouble == nil {
			t.Fatal(err, db.Status())
		}
	}
	if err := db.Check(t.Context()); err != nil || db.Status().Trouble != nil {
		t.Error(err, db.Status().Trouble)
	}
	if lines := logs.All()[before:]; len(lines) != 2 || lines[1].Message != "the database works again" {
		t.Errorf("%v", lines)
	}
}

// A transaction that the database refuses because of another one is repeated.
func TestRefusedTransaction(t *testing.T) {
	db := open(t, Settings{Kind: Postgres, DSN: postgrestest.Start(t)})
	calls := 0
	err := db.transaction(t.Context(), func(ctx context.Context, s session) error {
		calls++
		if _, err := s.exec(ctx, "INSERT INTO instances VALUES ($1, 0, '')", "a"); err != nil {
			return err
		}
		if calls < 3 {
			_, err := s.exec(ctx, "DO $$ BEGIN RAISE EXCEPTION 'raised' USING ERRCODE = '40P01'; END $$")
			return err
		}
		return nil
	})
	if n := scalar[int](t, db, reading, "SELECT count(*) FROM instances"); err != nil || calls != 3 || n != 1 {
		t.Errorf("%d calls, %d rows, %v", calls, n, err)
	}
	_, err = db.session(writing).exec(t.Context(), "DO $$ BEGIN RAISE EXCEPTION 'raised' USING ERRCODE = '40001'; END $$")
	wantUnavailable(t, err, "raised", "Other transactions")
}

// Connections that the server has closed don't fail statements that read. The settings of sessions that statements depend on are not the server's defaults.
func TestConnectionsOfPostgres(t *testing.T) {
	dsn := postgrestest.Start(t)
	settings := []struct{ name, value, want string }{
		{"synchronous_commit", "off", "on"},
		{"default_transaction_isolation", "serializable", "read committed"},
		{"statement_timeout", "5000", "0"},
		{"lock_timeout", "1", "0"},
	}
	for _, s := range settings {
		postgrestest.Exec(t, dsn, "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET "+s.name+" = "+s.value+"'; END $$")
	}
	db := open(t, Settings{Kind: Postgres, DSN: dsn})
	for p := range purposes {
		for _, s := range settings {
			if got := scalar[string](t, db, p, "SHOW "+s.name); got != s.want {
				t.Errorf("%s of connections for purpose %d: %s", s.name, p, got)
			}
		}
	}
	postgrestest.Exec(t, dsn, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	scalar[int](t, db, reading, "SELECT 1")
	// The connection is lost while the statement is executed.
	_, err := db.session(writing).exec(t.Context(), "SELECT pg_terminate_backend(pg_backend_pid())")
	if _, ok := errors.AsType[*ledger.Unavailable](err); err == nil || ok {
		t.Errorf("a lost connection: %v", err)
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// A caller who stops waiting ends the statement, keeps its connection, and says nothing about the database.
func TestCanceledStatement(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		db := open(t, settings)
		text := "SELECT pg_sleep(60)"
		if settings.Kind != Postgres {
			text = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT count(*) FROM n"
		}
		const pids = " FROM pg_stat_activity WHERE datname = current_database()"
		lost := 1
		for try := 0; try < 5 && lost != 0; try++ { // a connection may be lost because the machine is busy
			lost = 0
			var before string
			if settings.Kind == Postgres {
				before = scalar[string](t, db, writing, "SELECT string_agg(pid::text, ',')"+pids)
			}
			begun := time.Now()
			for _, p := range []purpose{reading, writing} {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				_, err := db.session(p).exec(ctx, text)
				cancel()
				if _, ok := errors.AsType[*ledger.Unavailable](err); err == nil || ok || db.Status().Trouble != nil {
					t.Errorf("purpose %d: %v, trouble %v", p, err, db.Status().Trouble)
				}
			}
			if d := time.Since(begun); d > 5*time.Second {
				t.Errorf("canceled statements took %s", d)
			}
			if err := db.Check(t.Context()); err != nil {
				t.Error(err)
			}
			if settings.Kind == Postgres {
				lost = scalar[int](t, db, writing, "SELECT count(*) FROM unnest(string_to_array($1, ',')) AS pid WHERE pid NOT IN (SELECT pid::text"+pids+")", before)
			}
		}
		if lost != 0 {
			t.Errorf("%d connections were lost", lost)
		}
	})
}

// A full disk and a lock of another program.
func TestErrorsOfSQLite(t *testing.T) {
	t.Parallel()
	settings := Settings{Kind: SQLite, File: filepath.Join(t.TempDir(), "s.db")}
	db, other := open(t, settings), open(t, settings)
	pages := scalar[int](t, db, reading, "PRAGMA page_count")
	scalar[int](t, db, writing, fmt.Sprint("PRAGMA max_page_count = ", pages))
	_, err := db.Things().Put(t.Context(), &Thing{Kind: "large", Name: "n", Value: make([]byte, 1<<20)}, 0)
	if u := wantUnavailable(t, err, "full", "disk is full"); !u.Full {
		t.Error("a full database can't be read")
	}
	if thing, err := db.Things().Get(t.Context(), "large", "n"); err != nil || thing.Version != 0 {
		t.Error(err)
	}
	scalar[int](t, db, writing, "PRAGMA busy_timeout = 10")
	err = other.transaction(t.Context(), func(context.Context, session) error { return db.Check(t.Context()) })
	wantUnavailable(t, err, "locked", "Another process")
	scalar[int](t, db, writing, fmt.Sprint("PRAGMA max_page_count = ", pages+100))
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
	wantUnavailable(t, db.judged(t.Context(), machine.OnNetwork("/mnt", "NFS"), reading), "/mnt", "store postgres")
	if _, err := db.session(reading).exec(t.Context(), "DELETE FROM things"); err == nil {
		t.Error("a connection that reads has written")
	}
}

// That claims fail is found by the check, and does not end with what uses other tables.
func TestTablesThatCantBeUsed(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		log, logs := observed()
		db := begin(t, settings, log)
		claim := func() error {
			_, err := db.Runs().Claim(t.Context(), &ledger.Entry{ID: newID()}, time.Hour)
			return err
		}
		if err := errors.Join(db.Check(t.Context()), claim()); err != nil {
			t.Fatal(err)
		}
		exec(t, db, "ALTER TABLE runs RENAME TO elsewhere")
		before := logs.Len()
		for range 3 {
			wantUnavailable(t, claim(), "runs", "backup")
			if _, err := db.Runs().Renew(t.Context()); err != nil || db.Status().Trouble == nil {
				t.Errorf("%v, %+v", err, db.Status())
			}
		}
		wantUnavailable(t, db.Check(t.Context()), "runs", "backup")
		exec(t, db, "ALTER TABLE elsewhere RENAME TO runs")
		if err := errors.Join(db.Check(t.Context()), claim()); err != nil || db.Status().Trouble != nil {
			t.Errorf("%v, %+v", err, db.Status())
		}
		if lines := logs.All()[before:]; len(lines) != 2 || lines[1].Message != "the database works again" {
			t.Errorf("%v", lines)
		}
		if n := scalar[int](t, db, reading, "SELECT count(*) FROM runs"); n != 2 {
			t.Errorf("%d runs are left", n)
		}
	})
}

// R240: a full disk is not taken for one that works again because a lease can still be renewed, or rows be changed where they are.
func TestR240FullDisk(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		log, logs := observed()
		db := begin(t, settings, log)
		full, back := "PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000" // none but those that there are
		if settings.Kind == Postgres {
			exec(t, db, "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END$$")
			full, back = "CREATE TRIGGER refused BEFORE INSERT ON runs FOR EACH ROW EXECUTE FUNCTION refuse()", "DROP TRIGGER refused ON runs"
		}
		set := func(text string) {
			if err := db.session(writing).query(t.Context(), func(*sql.Rows) error { return nil }, text); err != nil {
				t.Fatal(err)
			}
		}
		set(full)
		before := logs.Len()
		if u := wantUnavailable(t, db.Check(t.Context()), "", "full"); !u.Full {
			t.Errorf("%+v", u)
		}
		for range 3 {
			if _, err := db.Runs().Renew(t.Context()); err != nil {
				t.Error(err)
			}
			exec(t, db, "UPDATE instances SET process = process")
			if trouble := db.Status().Trouble; trouble == nil || !trouble.Full {
				t.Fatalf("the disk is still full: %+v", trouble)
			}
		}
		set(back)
		if _, err := db.Runs().Renew(t.Context()); err != nil || db.Status().Trouble != nil {
			t.Errorf("%v, %+v", err, db.Status().Trouble)
		}
		if lines := logs.All()[before:]; len(lines) != 2 || lines[1].Message != "the database works again" {
			t.Errorf("%v", lines)
		}
	})
}

// R258: causes that alternate, with each other or with statements that succeed, are not logged each time.
func TestR258CausesThatAlternate(t *testing.T) {
	log, logs := observed()
	db := begin(t, Settings{Kind: Memory, File: t.Name()}, log)
	if err := db.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := logs.Len()
	suffer := func(advice string) { db.suffered(&ledger.Unavailable{Err: errors.New("down"), Advice: advice}) }
	for range 5 {
		suffer("EOF")
		suffer("refused")
	}
	db.said.at = db.said.at.Add(-causeInterval)
	suffer("EOF")
	suffer("refused")
	suffer("EOF")
	suffer("refused")
	db.answered(false)
	for range 5 { // some statements succeed
		suffer("EOF")
		db.answered(false)
	}
	db.said.at = db.said.at.Add(-causeInterval)
	for range 5 {
		suffer("EOF")
		db.answered(false)
	}
	var said []string
	for _, line := range logs.All()[before:] {
		said = append(said, fmt.Sprint(line.ContextMap()["advice"]))
	}
	if got := strings.Join(said, " "); got != "EOF refused <nil> EOF <nil>" {
		t.Error(got)
	}
}
