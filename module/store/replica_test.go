package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// TestMissingStandby tests that a commit that no synchronous standby has is not taken for durable: PostgreSQL only warns of it when the wait for the
// standby is canceled, by this program's deadline or by an operator. A claim that such a commit has left is not taken for durable, either.
func TestMissingStandby(t *testing.T) {
	dsn := postgrestest.Start(t)
	db := open(t, Settings{Kind: Postgres, DSN: dsn})
	r := db.Runs()
	if _, err := r.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	reset := func() {
		postgrestest.Exec(t, dsn, "ALTER SYSTEM RESET synchronous_standby_names")
		postgrestest.Exec(t, dsn, "SELECT pg_reload_conf()")
	}
	t.Cleanup(reset)
	postgrestest.Exec(t, dsn, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	postgrestest.Exec(t, dsn, "SELECT pg_reload_conf()")
	waited := false
	// canceled executes a function, and cancels each wait for the standby.
	canceled := func(f func() error) error {
		done := make(chan error, 1)
		go func() { done <- f() }()
		for {
			select {
			case err := <-done:
				return err
			default:
			}
			tag, err := conn.Exec(t.Context(), "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'SyncRep'")
			if err != nil {
				t.Fatal(err)
			}
			waited = waited || tag.RowsAffected() > 0
		}
	}
	var e *ledger.Entry
	claim := func() error {
		present, err := r.Claim(t.Context(), e, time.Hour)
		if present != nil {
			t.Errorf("another entry: %v", present)
		}
		return err
	}
	for !waited && err == nil { // until the server has read its settings
		e = &ledger.Entry{Owner: ledger.Owner{Realm: "main"}, ID: uuid.Must(uuid.NewV7()).String(), Front: "a2a", State: ledger.Working}
		err = canceled(claim)
	}
	notDurable := func(what string, err error) {
		t.Helper()
		if _, ok := errors.AsType[*ledger.Unavailable](err); err == nil || ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	notDurable("claim", err)
	if _, err := r.Get(t.Context(), e.Identity()); err != nil {
		t.Errorf("the server itself has it: %v", err)
	}
	notDurable("claim that is found", canceled(claim))
	notDurable("transaction", canceled(func() error {
		return db.transaction(t.Context(), func(ctx context.Context, s session) error {
			_, err := s.exec(ctx, "UPDATE runs SET size = size")
			return err
		})
	}))
	if trouble := db.Status().Trouble; trouble == nil {
		t.Error("the status shows no trouble")
	}
	reset()
	if err := claim(); err != nil || e.Version != 1 || db.Status().Trouble != nil {
		t.Errorf("%v, version %d, trouble %v", err, e.Version, db.Status().Trouble)
	}
}
