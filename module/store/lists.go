package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// maxLooks is how many entries one page of a list looks at, if no index serves its filter.
const maxLooks = 1000

// List implements [ledger.Store].
func (r *Runs) List(ctx context.Context, q *ledger.Query) (page []*ledger.Entry, next string, err error) {
	text, looks, args := list(q)
	n, seen, last := 0, 0, ""
	err = r.db.session(reading).query(ctx, func(rows *sql.Rows) error {
		found, err := scanEntry(rows, &seen)
		if err != nil {
			return err
		}
		n++
		fits := (len(q.Fronts) == 0 || slices.Contains(q.Fronts, found.Front)) && (len(q.States) == 0 || slices.Contains(q.States, found.State))
		if fits && len(page) == q.Limit {
			next = last
			return nil
		} else if fits && !found.over {
			page = append(page, &found.Entry)
		}
		last = found.ID
		return nil
	}, text, args...)
	if next == "" && (seen == looks || n > q.Limit) {
		next = last
	}
	return page, next, err
}

// list returns the statement of a list, and how many entries it looks at. It first finds identities, and reads only the entries of the page,
// one more, and the last one it has looked at. The last column counts those it has looked at.
func list(q *ledger.Query) (text string, looks int, args []any) {
	looks = q.Limit + 1
	args = []any{[]byte(cmp.Or(q.Before, "\xff")), looks, q.Limit + 1} // 0xff comes after all ids
	in := func(column string, values ...any) string {
		of := make([]string, len(values))
		for i, value := range values {
			args, of[i] = append(args, value), fmt.Sprint("$", len(args)+1)
		}
		return column + " IN (" + strings.Join(of, ", ") + ")"
	}
	var fits []string
	if len(q.Fronts) > 0 {
		fits = append(fits, in("front", values(q.Fronts)...))
	}
	if len(q.States) > 0 {
		fits = append(fits, in("state", values(q.States)...))
	}
	window, filter := "SELECT "+entryKey+", front, state FROM runs WHERE id < $1", ""
	switch s := &q.Operator; {
	case q.Owner != nil:
		window += " AND " + in("realm", []byte(q.Owner.Realm)) + " AND " + in("owner", []byte(q.Owner.Principal))
		if len(fits) > 0 {
			looks, filter = max(looks, maxLooks), " WHERE "+strings.Join(fits, " AND ")+" OR id = (SELECT id FROM w ORDER BY id LIMIT 1)"
		}
		args[1] = looks
	case len(fits) > 0: // all rows are looked at once: a page that looks at some would be a scan of its own
		window += " AND " + strings.Join(fits, " AND ")
		fallthrough
	default:
		if s.ID != "" {
			window += " AND " + in("id", []byte(s.ID))
		}
		if s.Principal != nil {
			window += " AND " + in("owner", []byte(*s.Principal))
		}
		if s.Skill != "" {
			window += " AND " + in("skill", []byte(s.Skill))
		}
	}
	return "WITH w AS (" + window + " ORDER BY id DESC LIMIT $2), p (r, o, i) AS (SELECT realm, owner, id FROM w" + filter + " ORDER BY id DESC LIMIT $3) " +
		"SELECT " + entryResult + ", (SELECT count(*) FROM w) FROM p JOIN runs ON realm = r AND owner = o AND id = i ORDER BY i DESC", looks, args
}

// values are the values of a list as parameters.
func values[V any](list []V) []any {
	all := make([]any, len(list))
	for i, v := range list {
		all[i] = v
	}
	return all
}

// Read executes a statement that only reads, for numbers.
func (r *Runs) Read(ctx context.Context, each func(*sql.Rows) error, text string, args ...any) error {
	return r.db.session(reading).query(ctx, each, text, args...)
}

// Newer implements [ledger.Store].
func (r *Runs) Newer(ctx context.Context, known map[ledger.Identity]int64) (newer []*ledger.Entry, err error) {
	if len(known) == 0 {
		return nil, nil
	}
	rows := make([][]any, 0, len(known))
	for id, version := range known {
		rows = append(rows, append(identity(id), version))
	}
	text, parameter, err := r.newer(rows)
	if err != nil {
		return nil, err
	}
	err = r.db.session(reading).query(ctx, func(rows *sql.Rows) error {
		found, err := scanEntry(rows)
		if err != nil {
			return err
		}
		if found.over {
			found.Entry = ledger.Entry{Owner: found.Owner, ID: found.ID}
		}
		newer = append(newer, &found.Entry)
		return nil
	}, text, parameter)
	return newer, err
}

// newer returns the statement of Newer, and its parameter for rows of realm, owner, id and version.
func (r *Runs) newer(rows [][]any) (text, parameter string, err error) {
	from, parameter, err := r.db.Deliveries().list("$1", rows)
	const is = "realm = r AND owner = o AND id = i"
	return "WITH k (r, o, i, v) AS (" + from + ") SELECT " + entryResult + " FROM k JOIN runs ON " + is + " WHERE version > v OR " + isOver +
		" UNION ALL SELECT r, o, i, " + noEntry + " FROM k WHERE NOT EXISTS (SELECT 1 FROM runs WHERE " + is + ")", parameter, err
}

// noEntry are the columns of entryResult after the identity, for one that is gone.
const noEntry = "NULL, '', NULL, NULL, NULL, 0, '', NULL, false, NULL, NULL, 0, NULL, NULL, NULL, 0, 0, 0, 0, true" //nolint:dupword // columns

// Count implements [ledger.Store]. SQLite counts with each change; in PostgreSQL that would make an owner's changes wait for each other.
func (r *Runs) Count(ctx context.Context, owner *ledger.Owner) (u ledger.Usage, err error) {
	text, args := "SELECT COALESCE(sum(entries), 0), COALESCE(sum(open), 0), COALESCE(sum(bytes), 0) FROM owners", []any(nil)
	if r.db.settings.Kind == Postgres {
		text = "SELECT count(*), count(*) FILTER (WHERE state < 16), CAST(COALESCE(sum(size), 0) AS bigint) FROM runs"
	}
	if owner != nil {
		text, args = text+" WHERE realm = $1 AND owner = $2", []any{[]byte(owner.Realm), []byte(owner.Principal)}
	}
	_, err = r.db.session(reading).row(ctx, []any{&u.Entries, &u.Open, &u.Bytes}, text, args...)
	return u, err
}

// roughly counts exactly up to a number, and then as PostgreSQL remembers it.
const roughly = "SELECT CASE WHEN reltuples > 100000 THEN CAST(reltuples AS bigint) ELSE (SELECT count(*) FROM runs) END FROM pg_class WHERE oid = CAST('runs' AS regclass)"

// Roughly counts all entries for the operator. Of more than 100,000 in PostgreSQL, it is the number at the last analysis: counting them reads each.
func Roughly(ctx context.Context, r *Runs) (n int, err error) {
	if r.db.settings.Kind != Postgres {
		all, err := r.Count(ctx, nil)
		return all.Entries, err
	}
	_, err = r.db.session(reading).row(ctx, []any{&n}, roughly)
	return n, err
}
