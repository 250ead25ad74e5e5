package store

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/postgrestest"
)

// databases calls test with the settings of an empty database of each kind.
func databases(t *testing.T, test func(t *testing.T, settings Settings)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		test(t, Settings{Kind: SQLite, File: filepath.Join(t.TempDir(), "skill bridge?#%41.db")})
	})
	t.Run("memory", func(t *testing.T) { test(t, Settings{Kind: Memory, File: t.Name()}) })
	t.Run("postgres", func(t *testing.T) { test(t, Settings{Kind: Postgres, DSN: postgrestest.Start(t)}) })
	// As behind pgbouncer: the driver takes the types of parameters from the program, not from the server.
	t.Run("postgres without prepared statements", func(t *testing.T) {
		test(t, Settings{Kind: Postgres, DSN: postgrestest.Start(t) + "?default_query_exec_mode=exec"})
	})
}

// open opens a database, which is closed at the end of the test.
func open(t *testing.T, settings Settings) *DB {
	t.Helper()
	db, err := New(settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	db.Start(zaptest.NewLogger(t))
	<-db.tried
	if err := db.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestThings(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) { //nolint:thelper // it is the test
		ctx, things := t.Context(), open(t, settings).Things()
		if _, err := things.Get(ctx, "key", "a"); !errors.Is(err, ErrNoThing) {
			t.Fatalf("an empty database has a thing: %v", err)
		}
		put := func(thing Thing, keep time.Duration, want bool) Thing {
			t.Helper()
			if ok, err := things.Put(ctx, &thing, keep); ok != want || err != nil {
				t.Fatalf("Put(%+v) = %t, %v", thing, ok, err)
			}
			return thing
		}
		first := put(Thing{Kind: "key", Name: "a\x00\xff", Value: []byte("1\x00\xff")}, 0, true)
		put(Thing{Kind: "key", Name: "a\x00\xff", Value: []byte("lost")}, 0, false)
		second := first
		second.Value = nil
		second = put(second, time.Hour, true)
		put(first, 0, false)
		got, err := things.Get(ctx, "key", "a\x00\xff")
		if err != nil || got.Version != 2 || len(got.Value) != 0 || !got.Expires.Equal(second.Expires) || time.Until(got.Expires).Round(time.Minute) != time.Hour {
			t.Fatalf("Get = %+v, %v", got, err)
		}
		if err := things.Delete(ctx, "key", "a\x00\xff"); err != nil {
			t.Fatal(err)
		}
		put(second, 0, false)
		put(Thing{Kind: "key", Name: "a\x00\xff"}, 0, true)
	})
}

func TestCheck(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) { //nolint:thelper // it is the test
		db := open(t, settings)
		if err := db.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if list, err := db.Things().List(t.Context(), "check", "", "", 1); len(list) != 0 || err != nil {
			t.Errorf("Check left %v, %v", list, err)
		}
	})
}

func TestCounters(t *testing.T) {
	ctx, db := context.Background(), open(t, Settings{Kind: Memory, File: t.Name()})
	s := db.session(writing)
	exec := func(text string, args ...any) {
		t.Helper()
		if _, err := s.exec(ctx, text, args...); err != nil {
			t.Fatal(err)
		}
	}
	count := func() (n [6]int64) {
		t.Helper()
		if _, err := s.row(ctx, []any{&n[0], &n[1], &n[2], &n[3], &n[4], &n[5]}, "SELECT coalesce(sum(o.entries), 0), coalesce(sum(o.open), 0), coalesce(sum(o.bytes), 0), t.entries, t.open, t.bytes"+
			" FROM totals AS t LEFT JOIN owners AS o"); err != nil {
			t.Fatal(err)
		}
		return n
	}
	insert := "INSERT INTO runs VALUES ($1, $2, $3, NULL, 'a2a', $4, $4, $4, $5, '', NULL, FALSE, NULL, NULL, 0, 1, {now}, {now}, {now}, $6)"
	exec(insert, []byte("r"), []byte("o"), []byte("1"), []byte{}, 3, 10)
	exec(insert, []byte("r"), []byte("o"), []byte("2"), []byte{}, 16, 5)
	if got := count(); got != [6]int64{2, 1, 15, 2, 1, 15} {
		t.Error(got)
	}
	exec("UPDATE runs SET state = 17, size = 1 WHERE id = $1", []byte("1"))
	if got := count(); got != [6]int64{2, 0, 6, 2, 0, 6} {
		t.Error(got)
	}
	exec("DELETE FROM runs")
	if got := count(); got != [6]int64{} {
		t.Error(got)
	}
	n := -1
	if _, err := s.row(ctx, []any{&n}, "SELECT count(*) FROM owners"); n != 0 || err != nil {
		t.Errorf("%d owners without entries, %v", n, err)
	}
}
