//nolint:thelper // the functions that databases calls are tests
package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	driver "modernc.org/sqlite"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
)

func TestHold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "folder", "s.db")
	hold := func(settings Settings) (*DB, func()) {
		t.Helper()
		db, release, err := Hold(settings)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(release)
		return db, release
	}
	first, releaseFirst := hold(Settings{Kind: SQLite, File: file})
	second, releaseSecond := hold(Settings{Kind: SQLite, File: filepath.Dir(file) + "/./s.db"})
	if first != second {
		t.Error("two databases for one file")
	}
	if other, _ := hold(Settings{Kind: Memory}); other == first {
		t.Error("one database for two settings")
	}
	if a, _ := hold(Settings{Kind: Postgres, DSN: "a"}); a == nil {
		t.Error("no database")
	} else if b, _ := hold(Settings{Kind: Postgres, DSN: "b"}); a == b {
		t.Error("one database for two DSNs")
	}
	if _, err := os.Stat(filepath.Dir(file)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before the start, there is a folder: %v", err)
	}
	first.Start(zap.NewNop())
	second.Start(zap.NewNop())
	if err := second.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	releaseFirst()
	releaseFirst()
	if err := second.Check(t.Context()); err != nil {
		t.Error(err)
	}
	releaseSecond()
	wantUnavailable(t, second.Check(t.Context()), "closed", "")
	if again, _ := hold(Settings{Kind: SQLite, File: file}); again == first {
		t.Error("a database that was closed is used again")
	}
}

// Only the owner of the files can read them, and SQLite works as it should.
func TestFiles(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "made", "folder")
	file := filepath.Join(folder, "s.db")
	db := open(t, Settings{Kind: SQLite, File: file})
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "secure_delete": "1", "auto_vacuum": "2", "foreign_keys": "1", "busy_timeout": "100"} {
		if got := scalar[string](t, db, writing, "PRAGMA "+pragma); got != want {
			t.Errorf("%s: %s", pragma, got)
		}
	}
	if runtime.GOOS == "linux" && !driver.FdatasyncEnabled() {
		t.Error("commits use fsync")
	}
	modes := func() {
		t.Helper()
		for path, want := range map[string]os.FileMode{folder: 0o700 | os.ModeDir, file: 0o600, file + "-wal": 0o600, file + "-shm": 0o600} {
			if info, err := os.Stat(path); err != nil || info.Mode() != want && runtime.GOOS != "windows" {
				t.Errorf("%s: %v, %v", path, info.Mode(), err)
			}
		}
	}
	modes()
	db.Close()
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	open(t, Settings{Kind: SQLite, File: file})
	modes()
}

// A database that can't be opened is tried again, and the cause is logged once.
func TestOpenedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "folder")
		if err := os.WriteFile(folder, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		log, logs := observed()
		db := begin(t, Settings{Kind: SQLite, File: filepath.Join(folder, "s.db")}, log)
		begun := time.Now()
		wantUnavailable(t, db.Ready(t.Context()), "not a directory", "folder")
		if d := time.Since(begun); d != 0 {
			t.Errorf("a statement has waited %s for a database that can't be opened", d)
		}
		time.Sleep(5 * time.Minute)
		if logs.Len() != 1 {
			t.Errorf("%v", logs.All())
		}
		if err := os.Remove(folder); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := db.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if status := db.Status(); !status.Open || status.Trouble != nil || logs.FilterMessage("the database is open").Len() != 1 {
			t.Errorf("%+v, %v", status, logs.All())
		}
	})
}

// What has expired is deleted also if nobody uses the database.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := open(t, Settings{Kind: SQLite, File: filepath.Join(t.TempDir(), "s.db")})
		for i := range 2500 {
			if ok, err := db.Things().Put(t.Context(), &Thing{Kind: "mark", Name: time.Duration(i).String()}, time.Hour); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		exec(t, db, "UPDATE things SET expires = {now}")
		time.Sleep(sweepInterval + time.Second)
		synctest.Wait()
		if n := scalar[int](t, db, reading, "SELECT count(*) FROM things"); n != 0 {
			t.Errorf("%d things", n)
		}
	})
}

// slow is a dialect that opens nothing until its context ends.
type slow struct{ sqlite }

func (slow) open(ctx context.Context) (*connections, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A statement waits for a database that is being opened, but not for long, and closing waits for nothing.
func TestOpenedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := New(Settings{Kind: Memory})
		db.dialect = &slow{}
		log, logs := observed()
		db.Start(log)
		begun := time.Now()
		wantUnavailable(t, db.Check(t.Context()), "not open yet", "being opened")
		if d := time.Since(begun); d != readyTimeout {
			t.Errorf("a statement has waited %s", d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := db.Ready(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		time.Sleep(openTimeout)
		wantUnavailable(t, db.Ready(t.Context()), "deadline", "did not answer in time")
		if logs.Len() != 1 {
			t.Errorf("%v", logs.All())
		}
		begun = time.Now()
		db.Close()
		if d := time.Since(begun); d != 0 {
			t.Errorf("closing took %s", d)
		}
		unstarted := New(Settings{Kind: Memory})
		unstarted.Close()
		wantUnavailable(t, unstarted.Ready(t.Context()), "closed", "")
	})
}

// An instance that stops ends its lease, so that others adopt its runs at once.
func TestClosedLease(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		db, other := open(t, settings), open(t, settings)
		if lost, err := db.Runs().Renew(t.Context()); lost || err != nil {
			t.Fatal(lost, err)
		}
		living := "SELECT count(*) FROM instances WHERE id = $1 AND lease > {now}"
		if n := scalar[int](t, other, reading, living, db.Runs().Instance()); n != 1 {
			t.Fatalf("%d leases", n)
		}
		db.Close()
		if n := scalar[int](t, other, reading, living, db.Runs().Instance()); n != 0 {
			t.Error("the lease goes on after the end of the instance")
		}
	})
}

// panicking is a dialect that panics when the database is opened for the first time, and, since it is no *sqlite, when its file is looked at.
type panicking struct {
	*sqlite
	opened bool
}

func (p *panicking) open(ctx context.Context) (*connections, error) {
	if !p.opened {
		p.opened = true
		panic("a bug")
	}
	return p.sqlite.open(ctx)
}

// A panic in the background does not end the process: the database is opened, and its file looked at, again.
func TestPanicsInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := Settings{Kind: SQLite, File: filepath.Join(t.TempDir(), "s.db")}
		db := New(settings)
		db.dialect = &panicking{sqlite: &sqlite{settings: settings}}
		log, logs := observed()
		db.Start(log)
		defer db.Close()
		time.Sleep(2*firstPause + 3*lookEvery)
		if err := db.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if n := logs.FilterMessageSnippet("panic").Len(); n < 3 {
			t.Errorf("%d panics are logged: %v", n, logs.All())
		}
	})
}

// The lease of an instance that stops ends also if marks can't be stored in time.
func TestLeaseBeforeMarks(t *testing.T) {
	settings := Settings{Kind: Postgres, DSN: postgrestest.Start(t)}
	r, other := another(t, settings), another(t, settings)
	if err := other.db.transaction(t.Context(), func(ctx context.Context, s session) error {
		_, err := s.exec(ctx, "LOCK TABLE things")
		adding, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		if full, failed := r.db.Marks().Add(adding, "ada", "1", time.Hour); full != 0 || failed == nil {
			t.Error(full, failed)
		}
		r.db.Close()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if n := scalar[int](t, other.db, reading, "SELECT count(*) FROM instances WHERE id = $1 AND lease > {now}", r.Instance()); n != 0 {
		t.Error("the lease goes on after the end of the instance")
	}
}
