package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// maxLooks is how many entries one page of a list looks at, if it has a filter.
const maxLooks = 1000

// List implements [ledger.Store].
func (r *Runs) List(ctx context.Context, q *ledger.Query) (page []*ledger.Entry, next string, err error) {
	text, looks, args := list(q)
	looked, last := 0, ""
	err = r.db.session(reading).query(ctx, func(rows *sql.Rows) error {
		var fits bool
		found, err := scanEntry(rows, r.skew(), &fits, &looked)
		switch {
		case err != nil && !errors.Is(err, errForeign):
			return err
		case fits && len(page) == q.Limit:
			next = last
			return nil
		case fits:
			page = append(page, &found.Entry)
		}
		last = found.ID
		return nil
	}, text, args...)
	if next == "" && looked == looks {
		next = last
	}
	return page, next, err
}

// list returns the statement of a list, and how many entries it looks at. It looks at them in the order of an index: of their owner, of all owners, or of what did not
// complete; or at all that are open. Of those that fit it reads the page, one more, and the last one it has looked at, and says how many that is.
func list(q *ledger.Query) (text string, looks int, args arguments) {
	args, looks = arguments{[]byte(cmp.Or(q.Before, "\xff")), 0, q.Limit + 1}, q.Limit+1 // 0xff comes after all ids
	id, of, from, fits, skill := "substr(id, 1)", "", "runs", in(&args, "front", q.Fronts...)+in(&args, "state", q.States...), ""
	if q.Operator.Skill != "" {
		skill = in(&args, "skill", []byte(q.Operator.Skill))
	}
	switch {
	case q.Owner != nil:
		id, of = "id", in(&args, "realm", []byte(q.Owner.Realm))+in(&args, "owner", []byte(q.Owner.Principal))
	case len(q.States) > 0 && !slices.ContainsFunc(q.States, ledger.State.Ended): // the open ones are few, and have an index
		id, of, fits = "id", " AND state < {ended}"+fits, ""
		if skill != "" && q.Operator.ID == "" { // which is not in that
			from = "(SELECT realm AS x, owner AS y, id AS z FROM runs WHERE id < $1" + of + " ORDER BY id DESC LIMIT $2) AS open JOIN runs ON realm = x AND owner = y AND id = z"
		}
	case len(q.States) > 0 && slices.Min(q.States) > ledger.Completed: // so are those that did not complete
		of = " AND state > {ended}"
	}
	if q.Operator.ID != "" {
		of += in(&args, id, []byte(q.Operator.ID))
	}
	if fits += skill; fits != "" {
		looks = max(looks, maxLooks)
	}
	args[1] = looks
	return "WITH w AS (SELECT realm AS r, owner AS o, id AS i, CASE WHEN NOT " + isOver + fits + " THEN TRUE ELSE FALSE END AS fits FROM " + from + " WHERE " + id + " < $1" + of +
		" ORDER BY " + id + " DESC LIMIT $2), p AS (SELECT * FROM w WHERE fits OR i = (SELECT i FROM w ORDER BY i LIMIT 1) ORDER BY i DESC LIMIT $3) " +
		"SELECT " + entryResult + ", fits, (SELECT count(*) FROM w) FROM p JOIN runs ON realm = r AND owner = o AND id = i ORDER BY i DESC", looks, args
}

// nextRealm selects the realm after another one that has entries.
const nextRealm = "SELECT realm FROM runs WHERE realm > $1 ORDER BY realm LIMIT 1"

// nextGroup selects the group of anonymous callers after another owner of a realm.
const nextGroup = "SELECT owner FROM runs WHERE realm = $1 AND owner > $2 AND owner < $3 ORDER BY owner LIMIT 1"

// Owners returns the owners that a principal is in the realms that have entries: these are few, and so are groups of anonymous callers.
func (r *Runs) Owners(ctx context.Context, principal string) (all []*ledger.Owner, err error) {
	realm := []byte{}
	for more := true; more; {
		if more, err = r.db.session(reading).row(ctx, []any{&realm}, nextRealm, realm); more {
			all = append(all, &ledger.Owner{Realm: string(realm), Principal: principal})
		}
		for group := []byte(ledger.Group); more && principal == "" && err == nil; {
			var found bool
			if found, err = r.db.session(reading).row(ctx, []any{&group}, nextGroup, realm, group, []byte{ledger.Group[0] + 1}); !found {
				break
			}
			all = append(all, &ledger.Owner{Realm: string(realm), Principal: string(group)})
		}
	}
	return all, err
}

// arguments are those of a statement.
type arguments []any

// add adds an argument, and returns its parameter.
func (a *arguments) add(value any) string {
	*a = append(*a, value)
	return fmt.Sprint("$", len(*a))
}

// in is a further condition: that a column has one of some values; none: any.
func in[V any](a *arguments, column string, values ...V) string {
	if len(values) == 0 {
		return ""
	}
	of := make([]string, len(values))
	for i, value := range values {
		of[i] = a.add(value)
	}
	return " AND " + column + " IN (" + strings.Join(of, ", ") + ")"
}

// Read executes a statement that only reads, for operators.
func (r *Runs) Read(ctx context.Context, each func(*sql.Rows) error, text string, args ...any) error {
	return r.db.session(reading).query(ctx, each, text, args...)
}

// Newer implements [ledger.Store].
func (r *Runs) Newer(ctx context.Context, known map[ledger.Identity]int64) (newer []*ledger.Entry, err error) {
	rows := make([][]any, 0, len(known))
	for id, version := range known {
		rows = append(rows, append(identity(id), version))
	}
	text, parameter, err := r.newer(rows)
	if err != nil {
		return nil, err
	}
	err = r.db.session(reading).query(ctx, func(rows *sql.Rows) error {
		found, err := scanEntry(rows, r.skew())
		switch isForeign := errors.Is(err, errForeign); {
		case err != nil && !isForeign:
			return err
		case found.over:
			newer = append(newer, &ledger.Entry{Owner: found.Owner, ID: found.ID})
		case !isForeign: // those who wait for such a one aren't told, but the others are
			newer = append(newer, &found.Entry)
		}
		return nil
	}, text, parameter)
	return newer, err
}

// newer returns the statement of Newer, and its parameter for rows of realm, owner, id and version.
func (r *Runs) newer(rows [][]any) (text, parameter string, err error) {
	from, parameter, err := r.db.Deliveries().list("$1", rows)
	const is = "realm = r AND owner = o AND id = i"
	return "WITH k (r, o, i, v) AS (" + from + ") SELECT " + entryResult + " FROM k JOIN runs ON " + is + " WHERE version <> v OR " + isOver +
		" UNION ALL SELECT r, o, i, " + noEntry + " FROM k WHERE NOT EXISTS (SELECT 1 FROM runs WHERE " + is + ")", parameter, err
}

// noEntry are the columns of entryResult after the identity, for one that is gone.
const noEntry = "NULL, '', '', '', NULL, 0, '', NULL, false, NULL, NULL, 0, NULL, NULL, NULL, 0, 0, 0, 0, true" //nolint:dupword // columns

// count counts runs, countOfOne those of an owner, and countOfAll both parts, of which SQLite has indexes with the sizes.
const (
	count      = "SELECT count(*) AS n, CAST(COALESCE(sum(size), 0) AS bigint) AS bytes FROM runs"
	countOfOne = count + " WHERE realm = $1 AND owner = $2"
	countOfAll = "SELECT sum(n), sum(bytes) FROM (" + count + " WHERE state >= {ended} UNION ALL " + count + " WHERE state < {ended})"
)

// Count implements [ledger.Store].
func (r *Runs) Count(ctx context.Context, owner *ledger.Owner) (u ledger.Usage, err error) {
	text, args := countOfAll, []any(nil)
	switch {
	case owner != nil:
		text, args = countOfOne, []any{[]byte(owner.Realm), []byte(owner.Principal)}
	case r.db.settings.Kind == Postgres: // whose primary key has the sizes
		text = count
	}
	_, err = r.db.session(reading).row(ctx, []any{&u.Entries, &u.Bytes}, text, args...)
	return u, err
}
