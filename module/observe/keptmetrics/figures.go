package keptmetrics

import (
	"context"
	"database/sql"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// timeout is how long a database may take to tell its numbers.
const timeout = 2 * time.Second

// Figures are the numbers of a database, of all instances that use it.
type Figures struct {
	// Kept is how many runs it has.
	Kept int
	// Open are the numbers of the runs that have not ended.
	Open map[Group]int
	// Waiting is how many deliveries wait to be sent.
	Waiting int
}

// Group is what runs are counted by.
type Group struct {
	Front string
	State ledger.State
}

// Of returns the numbers of some databases, and why others could not be read.
func Of(ctx context.Context, databases []*store.DB) (all Figures, unread map[*store.DB]error) {
	all.Open, unread = map[Group]int{}, map[*store.DB]error{}
	for _, db := range databases {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		if err := all.add(ctx, db); err != nil {
			unread[db] = err
		}
		cancel()
	}
	return all, unread
}

// roughly counts exactly up to a number, and then as PostgreSQL remembers it: counting more reads each row.
const roughly = "SELECT CASE WHEN reltuples > 100000 THEN CAST(reltuples AS bigint) ELSE (SELECT count(*) FROM runs) END FROM pg_class WHERE oid = CAST('runs' AS regclass)"

func (f *Figures) add(ctx context.Context, db *store.DB) error {
	runs, kept := db.Runs(), "SELECT COALESCE(sum(entries), 0) FROM owners" // which has what SQLite counts with each change
	if db.Status().Kind == store.Postgres {
		kept = roughly
	}
	err := runs.Read(ctx, func(rows *sql.Rows) error {
		var n int
		err := rows.Scan(&n)
		f.Kept += n
		return err
	}, kept)
	if err != nil {
		return err
	}
	err = runs.Read(ctx, func(rows *sql.Rows) error {
		var of Group
		var n int
		err := rows.Scan(&of.Front, &of.State, &n)
		f.Open[of] += n
		return err
	}, "SELECT front, state, count(*) FROM runs WHERE state < 16 GROUP BY front, state") // in an index that has only these
	if err != nil {
		return err
	}
	return runs.Read(ctx, func(rows *sql.Rows) error {
		var n int
		err := rows.Scan(&n)
		f.Waiting += n
		return err
	}, "SELECT count(*) FROM deliveries WHERE next IS NOT NULL")
}
