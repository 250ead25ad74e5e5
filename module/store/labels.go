package store

import (
	"context"
	"database/sql"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// Labelled implements [ledger.Store].
func (r *Runs) Labelled(ctx context.Context, q *ledger.LabelQuery) (*ledger.LabelPage, error) {
	text, args := labelled(q)
	page := &ledger.LabelPage{Apart: map[string][]byte{}}
	err := r.db.session(reading).query(ctx, func(rows *sql.Rows) error {
		var apart []byte
		var fits bool
		found, err := scanEntry(rows, &apart, &fits, &page.Total)
		if err != nil {
			return err
		}
		if !fits || len(page.Entries) == q.Limit {
			page.More = true
		}
		if page.More {
			return nil
		}
		page.Entries, page.NextAt, page.NextID = append(page.Entries, &found.Entry), found.Label.At, found.ID
		if apart != nil {
			page.Apart[found.ID] = apart
		}
		return nil
	}, text, args...)
	return page, err
}

// labelled returns the statement of a page. It first finds the identities of the page and of one more, with the size up to each, so that only those that fit
// are read. The last columns are the outcome that is stored apart, whether the entry fits, and how many match.
func labelled(q *ledger.LabelQuery) (text string, args arguments) {
	args = arguments{[]byte(q.Owner.Realm), []byte(q.Owner.Principal), q.Limit + 1, q.Bytes, ledger.MaxLabelled}
	where := " FROM runs WHERE realm = $1 AND owner = $2 AND stage IS NOT NULL"
	if !q.Since.IsZero() {
		where += " AND at >= " + args.add(q.Since.UnixMilli())
	}
	if q.Group != "" {
		where += " AND grp = " + args.add([]byte(q.Group))
	}
	if q.Skill != "" {
		where += " AND skill = " + args.add([]byte(q.Skill))
	}
	if q.State != 0 {
		where += " AND stage = " + args.add(int64(q.State))
	}
	where += " AND NOT " + isOver
	size, apart := "size - apart", "NULL"
	if q.Whole {
		size, apart = "size", "CASE WHEN fits AND apart > 0 THEN (SELECT output FROM outputs AS o WHERE o.realm = $1 AND o.owner = $2 AND o.id = i) END"
	}
	page := "SELECT at, id, " + size + " AS bytes" + where
	if q.AfterID != "" {
		after := args.add(q.After.UnixMilli())
		page += " AND (at < " + after + " OR at = " + after + " AND id < " + args.add([]byte(q.AfterID)) + ")"
	}
	page += " ORDER BY at DESC, id DESC LIMIT $3"
	return "WITH p AS (" + page + "), s (i, fits) AS (SELECT id, sum(bytes) OVER (ORDER BY at DESC, id DESC) <= $4 OR row_number() OVER (ORDER BY at DESC, id DESC) = 1 FROM p) " +
		"SELECT " + entryResult + ", " + apart + ", fits, (SELECT count(*) FROM (SELECT 1" + where + " LIMIT $5) AS m) " +
		"FROM s JOIN runs ON runs.realm = $1 AND runs.owner = $2 AND runs.id = i ORDER BY at DESC, i DESC", args
}

// Unname implements [ledger.Store].
func (r *Runs) Unname(ctx context.Context, id ledger.Identity) error {
	_, err := r.db.session(writing).exec(ctx, "UPDATE runs SET key = NULL WHERE "+isEntry+" AND state >= {ended}", identity(id)...)
	return err
}

const oldest = "SELECT {row} FROM runs WHERE realm = $1 AND owner = $2 AND state >= {ended} AND stage IS NOT NULL ORDER BY id LIMIT $3{skip}"

// Evict implements [ledger.Store].
func (r *Runs) Evict(ctx context.Context, owner ledger.Owner, most int) (int, error) {
	n, err := r.db.session(writing).exec(ctx, "DELETE FROM runs WHERE "+r.rows(oldest, entryKey), []byte(owner.Realm), []byte(owner.Principal), most)
	return int(n), err
}
