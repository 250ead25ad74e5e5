package store

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/marks"
)

// MaxValue is the size of the largest value of a [Thing], in bytes.
const MaxValue = 32 << 20

// Thing is a small piece of data, which instances share.
type Thing struct {
	// Kind says what it is, and Name which one of them.
	Kind, Name string
	Value      []byte
	// Version counts the changes, from 1. 0: the thing does not exist yet.
	Version int64
	// Expires is when the thing is deleted, by the clock of the database; zero: never.
	Expires time.Time
}

// Things are what is small.
type Things struct{ db *DB }

// Things returns the things of the database.
func (d *DB) Things() Things { return Things{d} }

const living = "(expires IS NULL OR expires > {now})"

// Get returns a thing. Without a version, it does not exist yet, or has expired.
func (t Things) Get(ctx context.Context, kind, name string) (*Thing, error) {
	found, err := t.read(ctx, kind, "name = $2", []byte(name))
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return &Thing{Kind: kind, Name: name}, nil
	}
	return found[0], nil
}

// All returns the things of a kind, in the order of their names.
func (t Things) All(ctx context.Context, kind string) ([]*Thing, error) {
	return t.read(ctx, kind, "TRUE ORDER BY name")
}

// read returns the things of a kind for which a condition holds.
func (t Things) read(ctx context.Context, kind, condition string, args ...any) (found []*Thing, err error) {
	err = t.db.session(reading).query(ctx, func(rows *sql.Rows) error {
		thing, expires := &Thing{Kind: kind}, sql.NullInt64{}
		err := rows.Scan(&thing.Name, &thing.Value, &thing.Version, &expires)
		thing.Expires = fromMilliseconds(expires.Int64)
		found = append(found, thing)
		return err
	}, "SELECT name, value, version, expires FROM things WHERE kind = $1 AND "+living+" AND "+condition, append([]any{kind}, args...)...)
	if t.db.isEmpty() {
		err = nil
	}
	return found, err
}

// Put stores a thing if the stored one has its version, 0 if there is none, and gives it its new version and expiry. ok is false if the stored one has
// another version. The thing is kept for a time; 0: for ever. An error says that it is not known whether the thing was stored, unless it is a
// [*ledger.Unavailable].
func (t Things) Put(ctx context.Context, thing *Thing, keep time.Duration) (ok bool, err error) {
	if len(thing.Value) > MaxValue {
		return false, fmt.Errorf("a %s of %d bytes: at most %d are stored", thing.Kind, len(thing.Value), MaxValue)
	}
	value := thing.Value
	if value == nil {
		value = []byte{} // nil is NULL
	}
	args := []any{thing.Kind, []byte(thing.Name), value, sql.NullInt64{Int64: keep.Milliseconds(), Valid: keep > 0}}
	text := "INSERT INTO things (kind, name, value, version, expires) VALUES ($1, $2, $3, 1, {now} + $4)" +
		" ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value, version = things.version + 1, expires = excluded.expires" +
		" WHERE things.expires <= {now} RETURNING version, expires"
	if thing.Version != 0 {
		text = "UPDATE things SET value = $3, version = version + 1, expires = {now} + $4 WHERE kind = $1 AND name = $2 AND version = $5 AND " + living +
			" RETURNING version, expires"
		args = append(args, thing.Version)
	}
	var expires sql.NullInt64
	ok, err = t.db.session(writing).row(ctx, []any{&thing.Version, &expires}, text, args...)
	if ok && err == nil {
		thing.Expires = fromMilliseconds(expires.Int64)
	}
	return ok, err
}

// Delete deletes a thing, if there is one.
func (t Things) Delete(ctx context.Context, kind, name string) error {
	_, err := t.db.session(writing).exec(ctx, "DELETE FROM things WHERE kind = $1 AND name = $2", kind, []byte(name))
	return err
}

// Names returns the names of things of a kind that begin with a prefix, which is ASCII, with the sizes of their values in bytes; at most as many. With an error, some may be
// missing.
func (t Things) Names(ctx context.Context, kind, prefix string, most int) (sizes map[string]int64, err error) {
	sizes = map[string]int64{}
	err = t.db.session(reading).query(ctx, func(rows *sql.Rows) error {
		name, size := []byte(nil), int64(0)
		err := rows.Scan(&name, &size)
		sizes[string(name)] = size
		return err
	}, "SELECT name, length(value) FROM things WHERE kind = $1 AND name >= $2 AND name < $3 AND "+living+" ORDER BY name LIMIT $4",
		kind, []byte(prefix), append([]byte(prefix), 0xff), most)
	return sizes, err
}

// Expire deletes things that have expired, at most as many, and returns how many it has deleted.
func (t Things) Expire(ctx context.Context, most int) (int, error) {
	n, err := t.db.session(writing).exec(ctx, "DELETE FROM things WHERE (kind, name) IN "+
		"(SELECT kind, name FROM things WHERE expires <= {now} ORDER BY expires LIMIT $1{skip})", most)
	return int(n), err
}

// markKind is the kind of the things that are marks. It also is the id that announces new ones.
const markKind = "canceled_runs"

// Marks returns which runs callers have canceled.
func (d *DB) Marks() *marks.Marks { return d.runs.marks }

// Granted says, to all instances, that a user has granted something, which is stored.
func (d *DB) Granted() {
	d.runs.grants.Send()
	d.runs.Announce([]string{grants})
}

// Grants returns a channel that is closed when a user may have granted something, at any instance.
func (d *DB) Grants() <-chan struct{} { return d.runs.grants.Next() }

// addMark adds a mark, unless there are too many: it counts in the index of names, and no further than the bounds.
const addMark = "INSERT INTO things (kind, name, value, version, expires) SELECT $1, $2, $3, 1, {now} + $4 " +
	"WHERE (SELECT count(*) FROM (SELECT 1 FROM things WHERE kind = $1 AND name > $5 AND name < $6 AND expires > {now} LIMIT $7) AS own) < $7 " +
	"AND (SELECT count(*) FROM (SELECT 1 FROM things WHERE kind = $1 AND expires > {now} LIMIT $8) AS every) < $8 " +
	"ON CONFLICT (kind, name) DO UPDATE SET expires = excluded.expires RETURNING expires"

// Mark implements [marks.Store].
func (t Things) Mark(ctx context.Context, owner, name string, keep time.Duration) (added bool, until time.Time, err error) {
	var expires sql.NullInt64
	added, err = t.db.session(writing).row(ctx, []any{&expires}, addMark, markKind, []byte(owner+name), []byte{}, keep.Milliseconds(),
		[]byte(owner), append([]byte(owner), bytes.Repeat([]byte{0xff}, len(name)+1)...), marks.MostOfOne, marks.Most)
	return added, fromMilliseconds(expires.Int64), err
}

// Marked implements [marks.Store].
func (t Things) Marked(ctx context.Context) (map[string]time.Time, error) {
	all, err := t.All(ctx, markKind)
	found := make(map[string]time.Time, len(all))
	for _, mark := range all {
		found[mark.Name] = mark.Expires
	}
	return found, err
}

// newID returns an id that no other has.
func newID() string { return uuid.NewString() }
