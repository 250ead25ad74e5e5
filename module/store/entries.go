package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	entryColumns = "realm, owner, id, key, front, skill, asked, ref, state, follower, args, single, notes, outcome, apart, grp, stage, at, version, created, changed, expires"
	// isOver holds for an entry that has ended and expired, and is not deleted yet.
	isOver = "(state >= {ended} AND expires <= {now})"
	// entryResult is what a record is read from.
	entryResult = entryColumns + ", " + isOver + " AS past"
)

// record is an entry as it was read.
type record struct {
	ledger.Entry
	over bool // see isOver: for others there is none
}

// entryKey is the primary key, and identity are its values, the arguments for isEntry.
const entryKey = "realm, owner, id"

func identity(id ledger.Identity) []any {
	return []any{[]byte(id.Owner.Realm), []byte(id.Owner.Principal), []byte(id.ID)}
}

// entryValues are the values of entryColumns that the store does not set.
func (r *Runs) entryValues(e *ledger.Entry) ([]any, error) {
	shared := e.Ref
	shared.NotBefore = moved(shared.NotBefore, r.skew())
	ref, err := json.Marshal(&shared)
	if err != nil {
		return nil, err
	}
	if e.State != ledger.Submitting && !e.State.Followed() {
		e.Follower = ""
	}
	values := append(make([]any, 0, 24), identity(e.Identity())...)
	values = append(values, e.Key, e.Front, []byte(e.Skill), []byte(e.Asked), ref, int64(e.State), e.Follower, e.Args, e.Single, e.Notes,
		e.Outcome, e.Apart)
	if e.Label.State == 0 {
		return append(values, nil, nil, nil), nil
	}
	return append(values, []byte(e.Label.Group), int64(e.Label.State), e.Label.At.UnixMilli()), nil
}

// moved returns a time by a clock that is ahead; zero stays zero.
func moved(t time.Time, ahead time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(ahead)
}

func fromMilliseconds(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// errForeign is the error of a row that is not as this build writes it.
var errForeign = errors.New("another build of the bridge has written it, or the database is damaged: start that build, or give this one a database of its own")

// scanEntry reads a row of entryResult and of further columns, from a database whose clock is ahead. With [errForeign], it has what the columns say.
func scanEntry(rows *sql.Rows, ahead time.Duration, further ...any) (*record, error) {
	r := new(record)
	var stored, group []byte
	var created, changed, expires int64
	var stage, at sql.NullInt64
	into := append([]any{
		&r.Owner.Realm, &r.Owner.Principal, &r.ID, &r.Key, &r.Front, &r.Skill, &r.Asked, &stored, &r.State, &r.Follower, &r.Args, &r.Single, &r.Notes, &r.Outcome, &r.Apart, &group, &stage, &at,
		&r.Version, &created, &changed, &expires, &r.over,
	}, further...)
	err := rows.Scan(into...)
	if stage.Valid {
		r.Label = ledger.Label{Group: string(group), State: uint8(stage.Int64), At: fromMilliseconds(at.Int64)} //nolint:gosec // it was one
	}
	r.Created, r.Changed, r.Expires = fromMilliseconds(created), fromMilliseconds(changed), fromMilliseconds(expires)
	if err == nil && len(stored) > 0 {
		if err = json.Unmarshal(stored, &r.Ref); err != nil {
			r.Ref = run.Ref{}
			err = fmt.Errorf("%w: run %s: %w", errForeign, r.ID, err)
		}
	}
	r.Ref.Kept, r.Ref.NotBefore = r.ID, moved(r.Ref.NotBefore, -ahead)
	return r, err
}

// one returns the record of a statement; nil: it has none.
func (r *Runs) one(ctx context.Context, p purpose, text string, args ...any) (found *record, err error) {
	err = r.db.session(p).query(ctx, func(rows *sql.Rows) (err error) {
		found, err = scanEntry(rows, r.skew())
		return err
	}, text, args...)
	return found, err
}

// entries returns the entries of a statement, without those that are over.
func (r *Runs) entries(ctx context.Context, p purpose, text string, args ...any) (found []*ledger.Entry, err error) {
	err = r.db.session(p).query(ctx, func(rows *sql.Rows) error {
		next, err := scanEntry(rows, r.skew())
		isForeign := errors.Is(err, errForeign)
		switch {
		case err != nil && !isForeign:
			return err
		case isForeign && p == leasing: // the others are adopted, and this one ends when it is overdue
			r.db.Logger().Warn("a run in the database can't be read, and is not followed", zap.Error(err))
		case !next.over:
			found = append(found, &next.Entry)
		}
		return nil
	}, text, args...)
	return found, err
}

// rows returns a condition for the rows that a statement selects: {row} is their key, or in PostgreSQL their physical place, which is found without an index.
func (r *Runs) rows(selected, key string) string {
	if r.db.settings.Kind == Postgres {
		return "ctid = ANY(ARRAY(" + strings.Replace(selected, "{row}", "ctid", 1) + "))"
	}
	return "(" + key + ") IN (" + strings.Replace(selected, "{row}", key, 1) + ")"
}
