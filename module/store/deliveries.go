package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

const (
	// deliveryColumns are what a delivery is added with, and added are their values, and those of claimed and since. It is read from deliveryResult.
	deliveryColumns = "realm, owner, id, receiver, front, host, target, end_only, position, tries, version"
	deliveryResult  = deliveryColumns + ", COALESCE(next, 0), since, claimed"
	// isDelivery selects a delivery by its arguments, with its version; notOver those for which something may be sent, as their index says it.
	isDelivery = isEntry + " AND receiver = $4 AND version = $5"
	added      = "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 1, FALSE, {now}"
	notOver    = "position < 9223372036854775807"
	// isRun joins a delivery and its run.
	isRun = "r.realm = d.realm AND r.owner = d.owner AND r.id = d.id"
	// hasNews holds for a run with news for a delivery after a position.
	hasNews = "r.version > {position} AND (NOT d.end_only OR r.state >= {ended} OR r.state = {unknown})"
)

// Deliveries are what the events of runs are delivered to.
type Deliveries struct{ db *DB }

// Deliveries returns the deliveries of the database. They implement [delivery.Store].
func (d *DB) Deliveries() Deliveries { return Deliveries{d} }

// Add implements [delivery.Store].
func (s Deliveries) Add(ctx context.Context, d *delivery.Delivery, most delivery.Bounds) error {
	const others = "(SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE realm = $1 AND owner = $2%s LIMIT $%d) AS others) < $%[2]d"
	n, err := s.db.session(writing).exec(ctx, "INSERT INTO deliveries ("+deliveryColumns+", claimed, since) SELECT "+added+
		" WHERE (EXISTS (SELECT 1 FROM deliveries WHERE "+isEntry+" AND receiver = $4) OR "+fmt.Sprintf(others, " AND id = $3", 11)+" AND "+fmt.Sprintf(others, "", 12)+")"+
		" ON CONFLICT (realm, owner, id, receiver) DO UPDATE SET front = excluded.front, host = excluded.host, target = excluded.target, "+
		"end_only = excluded.end_only, position = excluded.position, tries = excluded.tries, claimed = FALSE, next = NULL, version = deliveries.version + 1",
		append(place(d.Run, d.Receiver), d.Front, []byte(d.Host), append([]byte{}, d.Target...), d.EndOnly, d.Cursor, d.Tries, cmp.Or(most.OfRun, math.MaxInt32), cmp.Or(most.OfOwner, math.MaxInt32))...)
	if err == nil && n == 0 {
		err = delivery.ErrTooMany
	}
	return err
}

// addReceiver adds the receiver of the entry that addEntry adds. Its arguments come after those of an entry.
const addReceiver = "INSERT INTO deliveries (" + deliveryColumns + ", claimed, since) SELECT $1, $2, $3, $21, $5, $22, $23, $24, 0, 0, 1, FALSE, {now}"

// insert executes addEntry, and addReceiver with it: in PostgreSQL by one statement, in SQLite by one transaction. It returns the time; 0: nothing was added.
func (r *Runs) insert(ctx context.Context, e *ledger.Entry, values []any) (at int64, err error) {
	to := e.Receiver
	if to == nil {
		return r.db.session(writing).stamp(ctx, addEntry, values...)
	}
	both := append(slices.Clip(values), []byte(to.Name), []byte(to.Host), to.Target, to.EndOnly)
	if r.db.settings.Kind == Postgres {
		_, err = r.db.session(writing).row(ctx, []any{&at}, "WITH added AS ("+addEntry+" RETURNING changed), told AS ("+addReceiver+" FROM added) SELECT changed FROM added", both...)
		return at, err
	}
	err = r.db.transaction(ctx, func(ctx context.Context, s session) (err error) {
		if at, err = s.stamp(ctx, addEntry, values...); at > 0 && err == nil {
			_, err = s.exec(ctx, addReceiver, both...)
		}
		return err
	})
	return at, err
}

// Remove implements [delivery.Store].
func (s Deliveries) Remove(ctx context.Context, k delivery.Key) error {
	_, err := s.db.session(writing).exec(ctx, "DELETE FROM deliveries WHERE "+isEntry+" AND receiver = $4", place(k.Run, k.Receiver)...)
	return err
}

// Of implements [delivery.Store].
func (s Deliveries) Of(ctx context.Context, run ledger.Identity) ([]*delivery.Delivery, error) {
	return s.read(ctx, reading, "SELECT "+deliveryResult+" FROM deliveries WHERE "+isEntry+" ORDER BY receiver", identity(run)...)
}

// read returns the deliveries of a statement.
func (s Deliveries) read(ctx context.Context, p purpose, text string, args ...any) (all []*delivery.Delivery, err error) {
	err = s.db.session(p).query(ctx, func(rows *sql.Rows) error {
		d := new(delivery.Delivery)
		var next, since int64
		err := rows.Scan(append(identityInto(&d.Run), &d.Receiver, &d.Front, &d.Host, &d.Target, &d.EndOnly, &d.Cursor, &d.Tries, &d.Version, &next, &since, &d.Claimed)...)
		d.Next, d.Since = fromMilliseconds(next), fromMilliseconds(since)
		all = append(all, d)
		return err
	}, text, args...)
	return all, err
}

// Take implements [delivery.Store].
func (s Deliveries) Take(ctx context.Context, runs []ledger.Identity, claim time.Duration) (taken []*delivery.Delivery, err error) {
	text, wanted, err := s.wanted(runs)
	if err == nil {
		taken, err = s.read(ctx, writing, s.claiming(text), claim.Milliseconds(), wanted)
	}
	return taken, err
}

// wanted selects the deliveries for Take.
func (s Deliveries) wanted(runs []ledger.Identity) (text, wanted string, err error) {
	list := make([][]any, len(runs))
	for i, id := range runs {
		list[i] = identity(id)
	}
	from, wanted, err := s.list("$2", list)
	return "SELECT {row} FROM deliveries AS d WHERE (realm, owner, id) IN (" + from + ") AND (next IS NULL OR next <= {now}) AND " + news("d.position") + "{skip}", wanted, err
}

// Claim implements [delivery.Store].
func (s Deliveries) Claim(ctx context.Context, served []delivery.Served, most int, claim time.Duration) ([]*delivery.Delivery, error) {
	text, args := due(served)
	return s.read(ctx, writing, s.claiming(text), append([]any{claim.Milliseconds(), most}, args...)...)
}

// due selects the deliveries for Claim.
func due(served []delivery.Served) (text string, args []any) {
	is := make([]string, len(served))
	for i, of := range served {
		args = append(args, []byte(of.Realm), of.Front)
		is[i] = fmt.Sprintf(" WHEN realm = $%d AND front = $%d THEN TRUE", len(args)+1, len(args)+2) // so that the index of next is used
	}
	return "SELECT {row} FROM deliveries WHERE next <= {now} AND CASE" + strings.Join(is, "") + " END ORDER BY next LIMIT $2{skip}", args
}

// claiming claims the deliveries that a statement selects, for as long as the first argument says.
func (s Deliveries) claiming(selected string) string {
	return "UPDATE deliveries SET claimed = TRUE, since = CASE WHEN next IS NULL THEN {now} ELSE since END, next = {now} + $1, version = version + 1 WHERE " +
		s.db.runs.rows(selected, entryKey+", receiver") + " RETURNING " + deliveryResult
}

// Extend implements [delivery.Store].
func (s Deliveries) Extend(ctx context.Context, d *delivery.Delivery, claim time.Duration) (ok bool, err error) {
	next := int64(0)
	if ok, err = s.db.session(writing).row(ctx, []any{&d.Version, &next}, "UPDATE deliveries SET claimed = TRUE, next = {now} + $6, version = version + 1 WHERE "+
		isDelivery+" RETURNING version, next", append(version(d), claim.Milliseconds())...); ok {
		d.Next = fromMilliseconds(next)
	}
	return ok, err
}

// Settle implements [delivery.Store].
func (s Deliveries) Settle(ctx context.Context, d *delivery.Delivery, after time.Duration) (due bool, err error) {
	times, args := "next = {now} + $8", append(version(d), d.Cursor, d.Tries)
	if after == delivery.Idle {
		times = "next = CASE WHEN " + news("$6") + " THEN {now} END, since = {now}"
	} else {
		args = append(args, after.Milliseconds())
	}
	_, err = s.db.session(writing).row(ctx, []any{&due}, "UPDATE deliveries AS d SET position = $6, tries = $7, claimed = FALSE, version = version + 1, "+times+
		" WHERE "+isDelivery+" RETURNING next IS NOT NULL", args...)
	return due && after == delivery.Idle, err
}

// Defer implements [delivery.Store].
func (s Deliveries) Defer(ctx context.Context, ds []*delivery.Delivery, after []time.Duration) error {
	list := make([][]any, len(ds))
	for i, d := range ds {
		list[i] = append(version(d), after[i].Milliseconds())
	}
	from, deferred, err := s.list("$1", list)
	if err != nil {
		return err
	}
	_, err = s.db.session(writing).exec(ctx, "UPDATE deliveries AS d SET claimed = FALSE, next = {now} + k.c5, version = d.version + 1 FROM ("+from+") AS k "+
		"WHERE d.realm = k.c0 AND d.owner = k.c1 AND d.id = k.c2 AND d.receiver = k.c3 AND d.version = k.c4", deferred)
	return err
}

// Done implements [delivery.Store].
func (s Deliveries) Done(ctx context.Context, d *delivery.Delivery) error {
	_, err := s.db.session(writing).exec(ctx, "DELETE FROM deliveries WHERE "+isDelivery, version(d)...)
	return err
}

// Unheard implements [delivery.Store].
func (s Deliveries) Unheard(ctx context.Context, after delivery.Key, looks int) (found []ledger.Identity, next delivery.Key, err error) {
	args, until := place(after.Run, after.Receiver), ""
	more, err := s.db.session(reading).row(ctx, append(identityInto(&next.Run), &next.Receiver), "SELECT realm, owner, id, receiver FROM deliveries WHERE (realm, owner, id, receiver) > ($1, $2, $3, $4) AND "+notOver+" ORDER BY realm, owner, id, receiver LIMIT 1 OFFSET $5", append(args, looks-1)...)
	if err != nil {
		return nil, next, err
	}
	if more {
		args, until = append(args, place(next.Run, next.Receiver)...), " AND (d.realm, d.owner, d.id, receiver) <= ($5, $6, $7, $8)"
	}
	err = s.db.session(reading).query(ctx, func(rows *sql.Rows) error {
		var of ledger.Identity
		err := rows.Scan(identityInto(&of)...)
		found = append(found, of)
		return err
	}, "SELECT d.realm, d.owner, d.id FROM deliveries AS d JOIN runs AS r ON "+isRun+" WHERE (d.realm, d.owner, d.id, receiver) > ($1, $2, $3, $4)"+until+
		" AND "+notOver+" AND next IS NULL AND "+strings.Replace(hasNews, "{position}", "d.position", 1), args...)
	return found, next, err
}

// Waiting implements [delivery.Store].
func (s Deliveries) Waiting(ctx context.Context) (*delivery.Waiting, error) {
	all := &delivery.Waiting{Receivers: []delivery.Receiver{}}
	err := s.db.session(reading).query(ctx, func(rows *sql.Rows) error {
		var r delivery.Receiver
		var since, next, oldest int64
		if err := rows.Scan(&r.Principal, &r.Host, &r.Waiting, &since, &next, &all.Waiting, &oldest); err != nil {
			return err
		}
		r.Oldest, r.Next, all.Oldest = fromMilliseconds(since), fromMilliseconds(next), fromMilliseconds(oldest)
		all.Receivers = append(all.Receivers, r)
		return nil
	}, "SELECT owner, host, count(*), min(since), min(CASE WHEN claimed OR next <= {now} THEN 0 ELSE next END), CAST(sum(count(*)) OVER () AS BIGINT), "+
		"min(min(since)) OVER () FROM deliveries WHERE next IS NOT NULL GROUP BY realm, owner, host ORDER BY count(*) DESC, host, owner LIMIT $1", delivery.MaxReceivers)
	return all, err
}

// place are the values of the primary key.
func place(run ledger.Identity, receiver string) []any {
	return append(identity(run), []byte(receiver))
}

// version are the arguments for isDelivery.
func version(d *delivery.Delivery) []any { return append(place(d.Run, d.Receiver), d.Version) }

// news is a condition for a delivery whose run has news after a position.
func news(position string) string {
	return "EXISTS (SELECT 1 FROM runs AS r WHERE " + isRun + " AND " + strings.Replace(hasNews, "{position}", position, 1) + ")"
}

// identityInto is what an identity is scanned into.
func identityInto(id *ledger.Identity) []any {
	return []any{&id.Owner.Realm, &id.Owner.Principal, &id.ID}
}

// list returns a subquery for rows, whose columns are c0, c1 and so on, and the value of its parameter.
func (s Deliveries) list(parameter string, rows [][]any) (from string, value string, err error) {
	text, number, elements := "unhex(value->>%d)", "value->>%d", "json_each("+parameter+")"
	if s.db.settings.Kind == Postgres {
		text, number, elements = "decode(e->>%d, 'hex')", "CAST(e->>%d AS BIGINT)", "jsonb_array_elements(CAST("+parameter+" AS jsonb)) AS list (e)"
	}
	columns := slices.Repeat([]string{number}, len(rows[0]))
	for _, row := range rows {
		for c, value := range row {
			if of, ok := value.([]byte); ok { // JSON can't have all bytes
				columns[c], row[c] = text, hex.EncodeToString(of)
			}
		}
	}
	for c, column := range columns {
		columns[c] = fmt.Sprintf(column+" AS c%[1]d", c)
	}
	encoded, err := json.Marshal(rows)
	return "SELECT " + strings.Join(columns, ", ") + " FROM " + elements, string(encoded), err
}
