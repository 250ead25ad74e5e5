package store

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
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
			entries, err := living.Adopt(ctx, []string{"main"}, 50)
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
