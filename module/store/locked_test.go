package store

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// TestLockedRow tests that a row which another transaction has locked, such as that of an instance that was paused, holds up nothing else: what adopts,
// deletes or claims goes on with the others.
func TestLockedRow(t *testing.T) {
	dsn := postgrestest.Start(t)
	settings := Settings{Kind: Postgres, DSN: dsn}
	dead, living := another(t, settings), another(t, settings)
	db := living.db
	locked := working(t, dead, "locked")
	for _, key := range []string{"1", "2"} {
		working(t, dead, key)
	}
	exec(t, db, "INSERT INTO deliveries SELECT realm, owner, id, id, front, id, id, FALSE, 0, 0, FALSE, {now}, {now}, 1 FROM runs")
	exec(t, db, "INSERT INTO things SELECT 'word', id, id, 1, {now} FROM runs")
	exec(t, db, "UPDATE instances SET lease = {now} WHERE id = $1", dead.Instance())
	id := []byte(locked.ID)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var all []ledger.Identity
	for _, key := range []string{"locked", "1", "2"} {
		e, err := living.Named(t.Context(), locked.Owner, []byte(key))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Identity())
	}
	for _, step := range []struct {
		name, prepare, lock string
		do                  func(ctx context.Context) (int, error)
	}{
		{"adoption", "", "SELECT FROM runs WHERE id = $1 FOR UPDATE", func(ctx context.Context) (int, error) {
			entries, err := living.Adopt(ctx, living.Instance(), []string{"main"}, 50)
			return len(entries), err
		}},
		{"deliveries that are due", "", "SELECT FROM deliveries WHERE id = $1 FOR UPDATE", func(ctx context.Context) (int, error) {
			claimed, err := db.Deliveries().Claim(ctx, []delivery.Served{{Realm: "main", Front: "a2a"}}, 10, time.Minute)
			return len(claimed), err
		}},
		{"deliveries with news", "UPDATE deliveries SET next = NULL", "SELECT FROM deliveries WHERE id = $1 FOR UPDATE", func(ctx context.Context) (int, error) {
			claimed, err := db.Deliveries().Take(ctx, all, time.Minute)
			return len(claimed), err
		}},
		{"things that have expired", "", "SELECT FROM things WHERE name = $1 FOR UPDATE", func(ctx context.Context) (int, error) { return db.Things().Expire(ctx, 10) }},
		{"runs that have expired", "UPDATE runs SET state = 16, expires = {now}", "SELECT FROM runs WHERE id = $1 FOR UPDATE", func(ctx context.Context) (int, error) {
			return living.Expire(ctx, 10)
		}},
	} {
		if step.prepare != "" {
			exec(t, db, step.prepare)
		}
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), step.lock, id); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), statementTimeout/2)
		if n, err := step.do(ctx); n != 2 || err != nil {
			t.Errorf("%s: %d rows of 2, %v", step.name, n, err)
		}
		cancel()
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := step.do(t.Context()); n != 1 || err != nil {
			t.Errorf("%s: %d rows of 1 when the lock has ended, %v", step.name, n, err)
		}
	}
}

// TestLockedFile tests that what waits for a file that another process has locked waits no longer than its own time: an end is told within 2 s, and written later,
// and a claim ends with its call, or after 10 s. The operator learns why.
func TestLockedFile(t *testing.T) {
	longtest.Need(t, longtest.Long)
	t.Parallel()
	settings := Settings{Kind: SQLite, File: filepath.Join(t.TempDir(), "s.db")}
	m := join(t, settings, newProvider())
	owner := ledger.Owner{Realm: "main", Principal: "ann"}
	begin := func(ctx context.Context, key byte) (*ledger.Entry, *run.Failure) {
		e := &ledger.Entry{Owner: owner, Key: []byte{key}, State: ledger.Working, Single: true, Ref: run.Ref{Source: "acme", ExecutionID: "e"}}
		_, failure := m.Add(ctx, e, 0)
		return e, failure
	}
	var running []*ledger.Entry
	for key := range byte(12) {
		e, failure := begin(t.Context(), key)
		if failure != nil {
			t.Fatal(failure)
		}
		running = append(running, e)
	}
	other, err := sql.Open("sqlite", settings.File)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	other.SetMaxOpenConns(1)
	if _, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i, e := range running {
		wg.Go(func() {
			time.Sleep(time.Duration(i) * 300 * time.Millisecond)
			began := time.Now()
			now, err := (ledger.Viewed{Ledger: m.Ledger}).Write(e, func(next *ledger.Entry) error {
				next.State, next.Outcome = ledger.Completed, []byte("{}")
				return nil
			})
			if took := time.Since(began); err != nil || now.State != ledger.Completed || took > 5*time.Second {
				t.Errorf("end %d: %+v, %v after %s", i, now, err, took)
			}
		})
	}
	for i, most := range []time.Duration{time.Second, 3 * time.Second, 7 * time.Second, 10 * time.Second} {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), most+time.Duration(i/3)*time.Minute)
			defer cancel()
			began := time.Now()
			_, failure := begin(ctx, 100+byte(i))
			if took := time.Since(began); failure == nil || failure.Executed != run.ExecutedNo || took > most+2*time.Second {
				t.Errorf("claim for %s: %v after %s", most, failure, took)
			}
		})
	}
	wg.Wait()
	for waited := 0; ; waited++ { // what only reads works meanwhile
		if trouble := m.db.Status().Trouble; trouble != nil && strings.Contains(trouble.Advice, "locked") {
			break
		} else if time.Sleep(10 * time.Millisecond); waited == 1000 {
			t.Fatalf("%+v", trouble)
		}
	}
	if _, err := other.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	for _, e := range running {
		for waited := 0; ; waited++ {
			if stored, err := m.db.Runs().Get(t.Context(), e.Identity()); err == nil && stored.State == ledger.Completed {
				break
			} else if time.Sleep(100 * time.Millisecond); waited == 100 {
				t.Fatalf("%+v, %v", stored, err)
			}
		}
	}
}
