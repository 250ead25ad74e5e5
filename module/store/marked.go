package store

import (
	"bytes"
	"context"
	"database/sql"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/marks"
)

// markKind is the kind of the things that are marks. It also is the id that announces new ones.
const markKind = "canceled_runs"

// Marks returns which runs callers have canceled.
func (d *DB) Marks() *marks.Marks { return d.runs.marks }

// addMark adds a mark, unless there are too many: it counts in the index of names, and no further than the bounds.
const addMark = "INSERT INTO things (kind, name, value, version, expires) SELECT $1, $2, $3, 1, {now} + $4 " +
	"WHERE (SELECT count(*) FROM (SELECT 1 FROM things WHERE kind = $1 AND name > $5 AND name < $6 AND expires > {now} LIMIT $7) AS own) < $7 " +
	"AND (SELECT count(*) FROM (SELECT 1 FROM things WHERE kind = $1 AND expires > {now} LIMIT $8) AS every) < $8 " +
	"ON CONFLICT (kind, name) DO UPDATE SET expires = excluded.expires RETURNING expires"

// markStore are the marks of the database.
type markStore struct{ db *DB }

// Mark implements [marks.Store].
func (m markStore) Mark(ctx context.Context, owner, name string, keep time.Duration) (added bool, until time.Time, err error) {
	var expires sql.NullInt64
	added, err = m.db.session(writing).row(ctx, []any{&expires}, addMark, markKind, []byte(owner+name), []byte{}, keep.Milliseconds(),
		[]byte(owner), append([]byte(owner), bytes.Repeat([]byte{0xff}, len(name)+1)...), marks.MostOfOne, marks.Most)
	return added, instant(expires), err
}

// Marked implements [marks.Store].
func (m markStore) Marked(ctx context.Context) (map[string]time.Time, error) {
	found := map[string]time.Time{}
	err := m.db.session(reading).query(ctx, func(rows *sql.Rows) error {
		name, until := []byte(nil), sql.NullInt64{}
		err := rows.Scan(&name, &until)
		found[string(name)] = instant(until)
		return err
	}, "SELECT name, expires FROM things WHERE kind = $1 AND "+living, markKind)
	return found, err
}
