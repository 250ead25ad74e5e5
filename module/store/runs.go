package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// Runs are the entries of the ledger.
type Runs struct {
	db *DB
	*instance
	*notices
}

var _ ledger.Store = (*Runs)(nil)

// Runs returns the entries of the ledger. All configurations of the process are one instance.
func (d *DB) Runs() *Runs { return d.runs }

// isEntry selects the entry of an identity.
const isEntry = "realm = $1 AND owner = $2 AND id = $3"

// addEntry adds an entry, unless there is one of its id or of its key. A conflict takes no lock: a claim of a key in use does not wait for changes of the
// entry that has it. A SELECT would have SQLite write a journal of the statement.
const addEntry = "INSERT INTO runs (" + entryColumns + ", size) " +
	"{values} $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, 1, {t}, {t}, {t} + $19, $20 {clock}" +
	" ON CONFLICT DO NOTHING"

// presentEntry selects the entries of an id or of a key: they are one, or the claim with the id has none with the key.
const presentEntry = "SELECT " + entryResult + " FROM runs WHERE realm = $1 AND owner = $2 AND (id = $3 OR key = $4)"

// claimValues are the arguments of addEntry.
func (r *Runs) claimValues(e *ledger.Entry, keep time.Duration) ([]any, error) {
	values, err := r.entryValues(e)
	return append(values, keep.Milliseconds(), e.Size()), err
}

// Claim implements [ledger.Store].
func (r *Runs) Claim(ctx context.Context, e *ledger.Entry, keep time.Duration) (*ledger.Entry, error) {
	hold := r.hold(ctx)
	e.Follower = r.Instance()
	values, err := r.claimValues(e, keep)
	if err != nil {
		return nil, err
	}
	for {
		at, err := int64(0), hold
		if err == nil {
			at, err = r.insert(ctx, e, values)
		}
		full, ok := errors.AsType[*ledger.Unavailable](err)
		switch {
		case err != nil && (!ok || !full.Full):
			return nil, err
		case at > 0:
			e.Version, e.Created, e.Changed, e.Expires = 1, fromMilliseconds(at), fromMilliseconds(at), fromMilliseconds(at+keep.Milliseconds())
			return nil, nil //nolint:nilnil // none is present
		}
		// An entry that is present can be read, also if the database can't be written.
		present, err := r.one(ctx, reading, presentEntry, values[:4]...)
		switch {
		case err != nil:
			return nil, err
		case ok && (present == nil || present.over):
			return nil, full
		case present == nil: // it was deleted meanwhile
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		case present.ID == e.ID: // by an earlier try, which perhaps did not wait for the standby: another write does, for both
			_, err := r.db.session(writing).exec(ctx, "UPDATE runs SET size = size WHERE "+isEntry, values[:3]...)
			e.Version, e.Created, e.Changed, e.Expires = present.Version, present.Created, present.Changed, present.Expires
			return nil, err
		case !present.over:
			return &present.Entry, nil
		default:
			id := present.Identity()
			if _, err := r.db.session(writing).exec(ctx, "DELETE FROM runs WHERE "+isEntry+" AND "+isOver, identity(id)...); err != nil {
				return nil, err
			}
		}
	}
}

// changeEntry is the compare-and-swap. Only what ends, waits or waited is kept for another while.
const changeEntry = "UPDATE runs SET skill = $4, asked = $5, ref = $6, state = $7, follower = $8, args = $9, single = $10, notes = $11, outcome = $12, " +
	"apart = $13, grp = $14, stage = $15, at = $16, size = $17, version = version + 1, changed = {at}, " +
	"expires = CASE WHEN $18 OR state = {waiting} THEN {at} + $19 ELSE expires END WHERE " + isEntry + " AND version = $20 AND state < {ended}"

var changeOpen = strings.ReplaceAll(changeEntry, "{at}", "{now}") + " RETURNING changed, expires"

// Change implements [ledger.Store].
func (r *Runs) Change(ctx context.Context, e *ledger.Entry, outcome []byte, keep time.Duration) (ok bool, err error) {
	c := *e
	if outcome != nil {
		c.Apart = int64(len(outcome))
	}
	values, err := r.entryValues(&c)
	if err != nil {
		return false, err
	}
	more := e.State.Ended() || e.State == ledger.Waiting
	args := append(slices.Delete(values, 3, 5), c.Size(), more, keep.Milliseconds(), e.Version)
	var changed, expires int64
	write := func(ctx context.Context, s session) error {
		if more && r.db.settings.Kind != Postgres {
			changed, err = s.stamp(ctx, changeEntry, args...)
			ok, expires = changed > 0, changed+keep.Milliseconds()
		} else {
			ok, err = s.row(ctx, []any{&changed, &expires}, changeOpen, args...) // PostgreSQL reads its clock for each {at}
		}
		if !ok || err != nil || outcome == nil {
			return err
		}
		_, err = s.exec(ctx, "INSERT INTO outputs (realm, owner, id, output) VALUES ($1, $2, $3, $4) "+
			"ON CONFLICT (realm, owner, id) DO UPDATE SET output = excluded.output", append(identity(e.Identity()), outcome)...)
		return err
	}
	if outcome == nil {
		err = write(ctx, r.db.session(writing))
	} else {
		err = r.db.transaction(ctx, write)
	}
	if !ok || err != nil {
		return false, err
	}
	c.Version, c.Changed, c.Expires = e.Version+1, fromMilliseconds(changed), fromMilliseconds(expires)
	*e = c
	return true, nil
}

// Delete implements [ledger.Store].
func (r *Runs) Delete(ctx context.Context, id ledger.Identity) error {
	_, err := r.db.session(writing).exec(ctx, "DELETE FROM runs WHERE "+isEntry+" AND (state IN ({submitting}, {unknown}) OR state = {waiting} AND version = 1)", identity(id)...)
	return err
}

// Get implements [ledger.Store].
func (r *Runs) Get(ctx context.Context, id ledger.Identity) (*ledger.Entry, error) {
	return r.existing(ctx, "SELECT "+entryResult+" FROM runs WHERE "+isEntry, identity(id)...)
}

// Named implements [ledger.Store].
func (r *Runs) Named(ctx context.Context, owner ledger.Owner, key []byte) (*ledger.Entry, error) {
	return r.existing(ctx, "SELECT "+entryResult+" FROM runs WHERE realm = $1 AND owner = $2 AND key = $3", []byte(owner.Realm), []byte(owner.Principal), key)
}

// existing returns the entry that a statement selects, unless it is over.
func (r *Runs) existing(ctx context.Context, text string, args ...any) (*ledger.Entry, error) {
	found, err := r.one(ctx, reading, text, args...)
	switch {
	case err != nil:
		return nil, err
	case found == nil || found.over:
		return nil, ledger.ErrNoEntry
	}
	return &found.Entry, nil
}

// Outcome implements [ledger.Store].
func (r *Runs) Outcome(ctx context.Context, id ledger.Identity) (outcome []byte, err error) {
	found, err := r.db.session(reading).row(ctx, []any{&outcome},
		"SELECT output FROM outputs WHERE "+isEntry+" AND EXISTS (SELECT 1 FROM runs WHERE "+isEntry+" AND NOT "+isOver+")", identity(id)...)
	if err == nil && !found {
		return nil, ledger.ErrNoEntry
	}
	return outcome, err
}

// overdue selects what has to be ended, and expired what is to be deleted.
const (
	overdue = "SELECT " + entryResult + " FROM runs WHERE state < {ended} AND expires <= {now} ORDER BY expires LIMIT $1"
	expired = "SELECT {row} FROM runs WHERE state >= {ended} AND expires <= {now} ORDER BY expires LIMIT $1{skip}"
)

// Overdue implements [ledger.Store].
func (r *Runs) Overdue(ctx context.Context, most int) ([]*ledger.Entry, error) {
	return r.entries(ctx, reading, overdue, most)
}

// Expire implements [ledger.Store]. What belongs to an entry is deleted with it. The last one of a sweep looks at the instances and at deliveries, too.
func (r *Runs) Expire(ctx context.Context, most int) (int, error) {
	n, err := r.db.session(writing).exec(ctx, "DELETE FROM runs WHERE "+r.rows(expired, entryKey), most)
	if s := r.db.session(leasing); err == nil && int(n) < most {
		for _, statement := range []struct {
			text string
			of   time.Duration
		}{{shortened, ledger.Lease}, {hastened, delivery.ClaimTime}, {forgotten, forgetAfter}} {
			if _, failed := s.exec(ctx, statement.text, statement.of.Milliseconds()); err == nil {
				err = failed
			}
		}
	}
	return int(n), err
}
