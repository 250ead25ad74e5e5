package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/machine"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

const (
	// forgetAfter is how long the row of an instance is kept after its lease: one that was paused may claim before it looks at its lease.
	forgetAfter = time.Hour
	// leaveTimeout bounds how long an instance that stops waits for its last writes: the marks that are not stored yet, and the end of its lease.
	leaveTimeout = 2 * time.Second
)

// instance is how the process, with all its configurations, is known to others that use the database.
type instance struct {
	db *DB

	renewing chan struct{} // has room for the one who renews
	mu       sync.Mutex
	id       string
	next     string        // the id that it gets when its lease has ended: the same one until it has what it goes on to submit
	renewed  time.Time     // when the lease was certainly not over; zero: it was never taken
	ahead    time.Duration // how far the clock of the database is ahead of that of the process, as the last renewal has told
	lost     bool          // and Renew has not said so yet
}

// Instance implements [ledger.Store].
func (i *instance) Instance() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.id
}

// Now implements [ledger.Store].
func (i *instance) Now() time.Time { return time.Now().Add(i.skew()) }

// skew returns how far the clock of the database is ahead.
func (i *instance) skew() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ahead
}

// hold makes sure that this instance has a lease, as far as the clock of the process can say: otherwise its claims could never be adopted.
func (i *instance) hold(ctx context.Context) error {
	i.mu.Lock()
	holds := !i.renewed.IsZero() && time.Since(i.renewed) < ledger.Lease
	i.mu.Unlock()
	if holds {
		return nil
	}
	return i.renew(ctx)
}

// Renew implements [ledger.Store].
func (i *instance) Renew(ctx context.Context) (lost bool, err error) {
	if err := i.renew(ctx); err != nil {
		return false, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	lost, i.lost = i.lost, false
	return lost, nil
}

// renew renews the lease. If it has ended, the instance gets another id with another lease.
func (i *instance) renew(ctx context.Context) error {
	select {
	case i.renewing <- struct{}{}:
		defer func() { <-i.renewing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	i.mu.Lock()
	before, first, now := i.id, i.renewed.IsZero(), time.Now()
	i.mu.Unlock()
	id := before
	s := i.db.session(leasing)
	held, err := i.take(ctx, s, "UPDATE instances SET lease = {now} + $2 WHERE id = $1 AND lease > {now}", id, ledger.Lease.Milliseconds())
	if err == nil && !held {
		if first {
			i.endOfDead(ctx, s)
		} else {
			id = i.next
		}
		_, err = i.take(ctx, s, setLease, id, ledger.Lease.Milliseconds(), machine.Process(os.Getpid()))
		if err == nil && !first { // what it still submits goes on, and what it followed can be adopted, also if its row was deleted meanwhile
			if _, err = s.exec(ctx, handOver, before, id); err == nil {
				err = endLease(ctx, s, before)
			}
		}
	}
	if err != nil {
		i.reconnect(err)
		return err
	}
	i.mu.Lock()
	if i.renewed = now; id != i.id {
		i.id, i.next, i.lost = id, newID(), true
	}
	i.mu.Unlock()
	if i.db.trouble.Load() != nil { // that a lease can be renewed does not say that a run can be added, such as on a full disk
		_ = i.db.Check(ctx) // the status has the error
	}
	return nil
}

// reconnect closes the connections that are not in use if a lease can't be renewed since they only read: those to a server that is a standby now, and those
// that were opened while the database could not be written, stay so.
func (i *instance) reconnect(err error) {
	if trouble, ok := errors.AsType[*ledger.Unavailable](err); !ok || !trouble.Full {
		return
	}
	if c := i.db.entered(); c != nil {
		defer i.db.using.RUnlock()
		if c.closeIdle != nil {
			c.closeIdle()
		}
	}
}

// take executes a statement that gives this instance a lease, from which it learns the time of the database: within the time that the statement took, what is
// known stays, so that the times of one instance are in order. ok is false if the statement has changed nothing.
func (i *instance) take(ctx context.Context, s session, text string, args ...any) (ok bool, err error) {
	began, until := time.Now(), int64(0)
	ok, err = s.row(ctx, []any{&until}, text+" RETURNING lease", args...)
	took := time.Since(began)
	i.mu.Lock()
	defer i.mu.Unlock()
	ahead := time.UnixMilli(until).Add(-ledger.Lease).Sub(began.Add(took / 2))
	if ok && err == nil && (ahead-i.ahead).Abs() > took/2+2*time.Millisecond { // the database rounds to milliseconds
		i.ahead = ahead
	}
	return ok, err
}

// handOver makes an instance with a new id the one that submits what no other has adopted meanwhile. The index is of what is below 16.
const handOver = "UPDATE runs SET follower = $2, version = version + 1 WHERE follower = $1 AND state < {ended} AND state = {submitting}"

// setLease gives an instance a lease; one that is not positive has ended.
const setLease = "INSERT INTO instances (id, lease, process) VALUES ($1, {now} + $2, $3) ON CONFLICT (id) DO UPDATE SET lease = excluded.lease"

// endLease ends the lease of an instance.
func endLease(ctx context.Context, s session, id string) error {
	_, err := s.exec(ctx, setLease, id, -1, "")
	return err
}

// leave ends the lease of this instance when it stops, so that others adopt what is open when they look next, which is within 10 s.
func (i *instance) leave(ctx context.Context) {
	i.mu.Lock()
	id, taken := i.id, !i.renewed.IsZero()
	i.mu.Unlock()
	if taken {
		_ = endLease(ctx, i.db.session(leasing), id) // otherwise it ends by itself
	}
}

// endOfDead ends the leases of instances whose processes certainly don't exist any more. An error only means that they are not ended yet.
func (i *instance) endOfDead(ctx context.Context, s session) {
	var dead []string
	_ = s.query(ctx, func(rows *sql.Rows) error {
		var id, of string
		if err := rows.Scan(&id, &of); err != nil {
			return err
		}
		if machine.IsDead(of) {
			dead = append(dead, id)
		}
		return nil
	}, "SELECT id, process FROM instances WHERE lease > {now} AND process <> ''")
	for _, id := range dead {
		_ = endLease(ctx, s, id)
	}
}

// Adopt implements [ledger.Store].
func (r *Runs) Adopt(ctx context.Context, instance string, realms []string, most int) ([]*ledger.Entry, error) {
	if err := r.hold(ctx); err != nil || len(realms) == 0 {
		return nil, err
	}
	text, args := r.adoption(instance, realms, most)
	return r.entries(ctx, leasing, text, args...)
}

// freshFor is for how long the lease of an instance that adopts has to go on: otherwise the database could not be reached for a while, and others that live
// may have had no time to renew theirs. A statement that waited for the database finds that out.
const freshFor = ledger.Lease / 2

// adoption returns the statement of Adopt. Of those who adopt at the same time, each takes other rows.
func (r *Runs) adoption(instance string, realms []string, most int) (text string, args arguments) {
	of := make([]any, len(realms))
	for i, realm := range realms {
		of[i] = []byte(realm)
	}
	args = arguments{instance, most, freshFor.Milliseconds()}
	ofRealms := in(&args, "realm", of...)
	return "UPDATE runs SET follower = CASE WHEN state = {submitting} THEN '' ELSE $1 END, version = version + 1, " +
		"changed = CASE WHEN state = {submitting} THEN {now} ELSE changed END, state = CASE WHEN state = {submitting} THEN {unknown} ELSE state END WHERE " +
		r.rows("SELECT {row} FROM runs WHERE state < {ended} AND follower IN (SELECT id FROM instances WHERE lease <= {now} AND id <> $1)"+
			ofRealms+" AND EXISTS (SELECT 1 FROM instances WHERE id = $1 AND lease > {now} + $3) LIMIT $2{skip}", entryKey) + " RETURNING " + entryResult, args
}

// shortened shortens leases that last too long, since the clock was set back: instances that live renew theirs in time, and the runs of others can be adopted.
const shortened = "UPDATE instances SET lease = {now} + $1 WHERE lease > {now} + $1"

// hastened makes deliveries due whose events wait since a time that has not come yet, since the clock was set back, and shortens claims that last too long. Those
// of instances that live are settled or extended in time.
const hastened = "UPDATE deliveries SET next = CASE WHEN claimed THEN {now} + $1 ELSE {now} END, since = CASE WHEN since > {now} THEN {now} ELSE since END " +
	"WHERE next > {now} AND (since > {now} OR claimed AND next > {now} + $1)"

// forgotten deletes the rows of instances that are long gone and that no open run names.
const forgotten = "DELETE FROM instances WHERE lease <= {now} - $1 AND " +
	"NOT EXISTS (SELECT 1 FROM runs WHERE runs.follower = instances.id AND runs.state < {ended})"
