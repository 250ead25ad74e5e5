package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// Labelled implements [ledger.Store].
func (r *Runs) Labelled(ctx context.Context, q *ledger.LabelQuery) (*ledger.LabelPage, error) {
	text, args := labelled(q)
	page, looked := &ledger.LabelPage{Apart: map[string][]byte{}}, 0
	err := r.db.session(reading).query(ctx, func(rows *sql.Rows) error {
		var apart []byte
		var fits, hasPlace bool
		found, err := scanEntry(rows, r.skew(), &apart, &fits, &hasPlace, &page.Total, &looked)
		if page.More = page.More || fits && (!hasPlace || len(page.Entries) == q.Limit); page.More || err != nil {
			return err
		}
		if page.NextAt, page.NextID = found.Label.At, found.ID; fits {
			page.Entries = append(page.Entries, &found.Entry)
		}
		if fits && apart != nil {
			page.Apart[found.ID] = apart
		}
		return nil
	}, text, args...)
	page.More = page.More || looked == maxLooks
	return page, err
}

// labelled returns the statement of a page. It looks at entries in the order of their index. It finds the identities of those on the page and of one more, with
// the size up to each, so that only those that have a place are read, and the last one it has looked at. The last columns are the outcome that is stored apart,
// whether the entry matches and has a place, how many match, and how many it has looked at.
func labelled(q *ledger.LabelQuery) (text string, args arguments) {
	args = arguments{[]byte(q.Owner.Realm), []byte(q.Owner.Principal), q.Limit + 1, q.Bytes, maxLooks}
	fits, from := "NOT "+isOver, " FROM runs WHERE realm = $1 AND owner = $2 AND stage IS NOT NULL"
	if !q.Since.IsZero() {
		from += " AND at >= " + args.add(q.Since.Add(time.Millisecond-1).UnixMilli()) // not the part of a millisecond before it
	}
	if q.Group != "" {
		fits += in(&args, "grp", []byte(q.Group))
	}
	if q.Skill != "" {
		fits += in(&args, "skill", []byte(q.Skill))
	}
	if q.State != 0 {
		fits += in(&args, "stage", int64(q.State))
	}
	size, apart := "size - apart", "NULL"
	if q.Whole {
		size, apart = "size", "CASE WHEN fits AND upto <= $4 AND apart > 0 THEN (SELECT output FROM outputs AS o WHERE o.realm = $1 AND o.owner = $2 AND o.id = i) END"
	}
	const order = " ORDER BY t DESC, i DESC"
	first := "SELECT at AS t, id AS i, " + size + " AS bytes, CASE WHEN " + fits + " THEN TRUE ELSE FALSE END AS fits" + from
	next, last := first, order+" LIMIT $5"
	if q.AfterID != "" {
		after := args.add(q.After.UnixMilli())
		next += " AND (at < " + after + " OR at = " + after + " AND id < " + args.add([]byte(q.AfterID)) + ")"
	}
	return "WITH w AS (" + next + last + "), p AS (SELECT i, fits, CASE WHEN row_number() OVER (" + order + ") = 1 THEN 0 ELSE sum(bytes) OVER (" + order + ") END AS upto FROM w " +
		"WHERE fits OR i = (SELECT i FROM w ORDER BY t, i LIMIT 1)" + order + " LIMIT $3) " +
		"SELECT " + entryResult + ", " + apart + ", fits, upto <= $4, (SELECT count(*) FROM (" + first + last + ") AS m WHERE fits), (SELECT count(*) FROM w) " +
		"FROM p JOIN runs ON runs.realm = $1 AND runs.owner = $2 AND runs.id = i ORDER BY at DESC, i DESC", args
}

// Unname implements [ledger.Store].
func (r *Runs) Unname(ctx context.Context, id ledger.Identity) error {
	_, err := r.db.session(writing).exec(ctx, "UPDATE runs SET key = NULL WHERE "+isEntry+" AND state >= {ended}", identity(id)...)
	return err
}

// oldest selects what makes place. What has events that were not delivered does so only an hour after its end: they are deleted with it, but dead receivers, and those
// that no configuration serves any more, would take all places. Without the OFFSET, PostgreSQL may join all deliveries of the owner with all entries.
const oldest = "SELECT {row} FROM runs WHERE realm = $1 AND owner = $2 AND state >= {ended} AND stage IS NOT NULL AND (changed < {now} - 3600000 OR NOT EXISTS (SELECT 1 FROM deliveries AS d " +
	"WHERE d.realm = $1 AND d.owner = $2 AND d.id = runs.id AND (d.next IS NOT NULL OR d.position < runs.version) LIMIT 1 OFFSET 0)) ORDER BY id LIMIT $3{skip}"

// Evict implements [ledger.Store].
func (r *Runs) Evict(ctx context.Context, owner ledger.Owner, most int) (int, error) {
	n, err := r.db.session(writing).exec(ctx, "DELETE FROM runs WHERE "+r.rows(oldest, entryKey), []byte(owner.Realm), []byte(owner.Principal), most)
	return int(n), err
}
