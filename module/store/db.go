// Package store keeps in one SQL database everything that the bridge must not forget: runs that outlive their requests, and [Things], which is all
// that is small. SQLite serves one instance, PostgreSQL several. Both are used through one implementation over database/sql; what their dialects do
// differently is in sqlite.go and postgres.go.
//
// A [DB] outlives the configurations that use it. [Hold] opens nothing, so that a configuration can be validated without its database;
// [DB.Start] opens the database in the background, and again and again until it is open.
package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/store/verdict"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// readyTimeout bounds how long a statement waits for a database that is being opened for the first time.
	// The first one makes the tables, which takes seconds on a slow disk; most who use the database wait for 5 seconds.
	readyTimeout = 4 * time.Second
	// openTimeout bounds one attempt to open the database.
	openTimeout = 30 * time.Second
	// firstPause and longestPause are between attempts to open the database.
	firstPause, longestPause = time.Second, 30 * time.Second
	// sweepInterval is between two deletions of what has expired.
	sweepInterval = time.Minute
	// askInterval is between two questions of [DB.Ask].
	askInterval = time.Second
)

// DB is a database: one for all configurations of the process that use it. It is safe for concurrent use.
type DB struct {
	settings Settings
	dialect  dialect
	runs     *Runs
	log      atomic.Pointer[zap.Logger] // of the configuration that was started last

	starting sync.Once
	stop     context.CancelFunc
	ctx      context.Context // ends when the database is closed
	tried    chan struct{}   // closed when the first attempt to open the database has ended
	ended    chan struct{}   // closed when no goroutine of the database is left

	closing atomic.Bool // no statement begins any more: the database is being closed, or its file was removed or replaced
	// using is held for reading by statements, and for writing by the closing of the database, which so comes after the last statement.
	using   sync.RWMutex
	conns   *connections // nil: not open
	trouble atomic.Pointer[ledger.Unavailable]
	said    struct {
		sync.Mutex
		advice string    // of the log line that was the last; empty: the log does not say that the database can't be used
		at     time.Time // when the line was written
	}
	older  atomic.Pointer[olderSchema] // nil: the schema is that of the program
	asking sync.Mutex                  // held while the database is asked whether it answers, and for a second after it
}

// dialect is what databases do differently.
type dialect interface {
	// place says which database it is, without secrets.
	place() string
	// open connects to the database. The schema may be missing.
	open(ctx context.Context) (*connections, error)
	// swept is called each minute: rows with secrets may have been deleted.
	swept(ctx context.Context, s session) error
}

// dbs are the databases of the process.
var dbs = lifetime.NewPool[*DB]()

// Hold returns the database of the settings, which all configurations of the process share, and keeps it until release is called. The last release
// closes it. Hold opens nothing. Its error is one of the settings.
func Hold(settings Settings) (db *DB, release func(), err error) {
	if settings.Kind == SQLite {
		if settings.File, err = filepath.Abs(settings.File); err != nil {
			return nil, nil, err
		}
	}
	return dbs.Hold(settings, func() (*DB, error) { return New(settings), nil })
}

// New returns a database that is not shared, and that [DB.Close] closes.
func New(settings Settings) *DB {
	d := &DB{settings: settings, tried: make(chan struct{}), ended: make(chan struct{})}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.log.Store(zap.NewNop())
	d.dialect = &sqlite{settings: settings}
	if settings.Kind == Postgres {
		d.dialect = &postgres{settings: settings}
	}
	d.runs = &Runs{d, &instance{db: d, id: newID(), next: newID(), renewing: make(chan struct{}, 1)}, newNotices(d)}
	return d
}

// Start opens the database in the background, if that was not begun yet, and logs to the logger from now on.
func (d *DB) Start(log *zap.Logger) {
	d.log.Store(log)
	d.starting.Do(func() { go d.run() })
}

// Logger returns the logger of the newest configuration that uses the database.
func (d *DB) Logger() *zap.Logger { return d.log.Load() }

// run opens the database, deletes what expires, and ends when the database is closed.
func (d *DB) run() {
	defer close(d.ended)
	pause := &backoff.ExponentialBackOff{InitialInterval: firstPause, RandomizationFactor: 0.2, Multiplier: 2, MaxInterval: longestPause}
	for first := true; ; first = false {
		err := errPanicked // unless it returns
		d.Guarded(func() { err = d.open() })
		if d.ctx.Err() != nil {
			return
		}
		if first {
			close(d.tried)
		}
		if err == nil {
			break
		}
		if !d.wait(pause.NextBackOff()) {
			return
		}
	}
	if d.settings.CheckOnly {
		<-d.ctx.Done()
		return
	}
	var runs sync.WaitGroup
	defer runs.Wait()
	runs.Go(d.runs.work)
	for d.wait(sweepInterval) {
		d.Guarded(func() { _ = d.sweep(d.ctx) }) // the next one deletes it; statements log errors
	}
}

// Guarded calls a function, and logs its panic, which it reports.
func (d *DB) Guarded(f func()) (panicked bool) {
	bug := panics.Recovered(f)
	if bug != nil {
		d.log.Load().Error("panic in the use of the database; this is a bug in the bridge, please report it", zap.Error(bug))
	}
	return bug != nil
}

// wait waits for some time. It reports false if the database is closed before.
func (d *DB) wait(pause time.Duration) bool { return run.Sleep(d.ctx, pause) }

// open makes one attempt to open the database.
func (d *DB) open() error {
	ctx, cancel := context.WithTimeout(d.ctx, openTimeout)
	defer cancel()
	c, err := d.dialect.open(ctx)
	if err == nil {
		if err = d.migrate(ctx, c); err != nil {
			_ = c.close()
		}
	}
	if err != nil {
		err = d.judged(d.ctx, err, reading)
		if _, ok := errors.AsType[*ledger.Unavailable](err); !ok {
			d.suffered(&ledger.Unavailable{Err: new(verdict.Verdict).Mark(fmt.Errorf("%s: %w", d.dialect.place(), err)), Advice: "The database can't be opened. The error says why."})
		}
		return err
	}
	d.using.Lock()
	d.conns = c
	d.using.Unlock()
	d.trouble.Store(nil)
	recovered(d)
	d.log.Load().Info("the database is open", zap.String("database", d.dialect.place()))
	return nil
}

// Ready waits until the database is open: four seconds at most, and not at all if an attempt to open it has failed. The error is a
// [*ledger.Unavailable], or that of the context.
func (d *DB) Ready(ctx context.Context) error {
	_, leave, err := d.enter(ctx)
	if err == nil {
		leave()
	}
	return err
}

// enter returns the connections, which stay open until leave is called.
func (d *DB) enter(ctx context.Context) (c *connections, leave func(), err error) {
	if c = d.entered(); c == nil {
		timer := time.NewTimer(readyTimeout)
		defer timer.Stop()
		select {
		case <-d.tried:
		case <-timer.C:
		case <-d.ctx.Done():
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		c = d.entered()
	}
	trouble := d.trouble.Load()
	switch {
	case c != nil:
		return c, d.using.RUnlock, nil
	case d.ctx.Err() != nil:
		return nil, nil, &ledger.Unavailable{Err: errors.New("the database is closed"), Advice: "The configuration that used the database has ended. Try again."}
	case trouble != nil:
		return nil, nil, trouble
	}
	return nil, nil, &ledger.Unavailable{Err: errors.New(d.dialect.place() + " is not open yet"), Advice: "The database is being opened. Try again."}
}

// entered returns the connections, if there are any, and keeps them open until the lock is released.
func (d *DB) entered() *connections {
	if d.closing.Load() { // closing waits for the statements that have begun
		return nil
	}
	d.using.RLock()
	if d.conns == nil {
		d.using.RUnlock()
		return nil
	}
	return d.conns
}

// Status is what is known about a database.
type Status struct {
	Kind Kind
	// Place says which database it is, without secrets.
	Place string
	// Open says that it was opened since the process began.
	Open bool
	// Trouble is why it can't be used at present; nil: nothing is known.
	Trouble *ledger.Unavailable
	// Migration is what a bridge does to the schema when it starts, if this process leaves it as it is; empty: nothing.
	Migration string
}

// Status returns what is known about the database. It asks nothing.
func (d *DB) Status() Status {
	open := d.entered() != nil
	if open {
		d.using.RUnlock()
	}
	s := Status{Kind: d.settings.Kind, Place: d.dialect.place(), Open: open, Trouble: d.trouble.Load()}
	if older := d.older.Load(); older != nil {
		s.Migration = older.String()
	}
	return s
}

// Ask is like Status, and also reads from the database in the background, at most once a second: a later status has what that has shown.
func (d *DB) Ask() Status {
	if d.asking.TryLock() {
		go func() {
			defer d.asking.Unlock()
			d.Guarded(func() { _, _ = d.Things().Get(d.ctx, "check", "") }) // the status has the error
			d.wait(askInterval)
		}()
	}
	return d.Status()
}

// Check writes a thing and a run, and deletes them. If the database is empty and only checked, it also makes the tables, and undoes that.
func (d *DB) Check(ctx context.Context) error {
	older := d.older.Load()
	err := d.transaction(ctx, func(ctx context.Context, s session) error {
		if older != nil && older.version == 0 { // no statement uses it, which would have to wait
			if err := d.migrateFrom(ctx, s, older.files); err != nil {
				return err
			}
		}
		name := []byte(newID())
		value := make([]byte, 64<<10) // on a full disk, there is no place for it
		_, _ = rand.Read(value)       // it never fails
		if _, err := s.exec(ctx, "INSERT INTO things (kind, name, value, version, expires) VALUES ($1, $2, $3, 1, {now})", "check", name, value); err != nil {
			return err
		}
		if _, err := s.exec(ctx, "DELETE FROM things WHERE kind = $1 AND name = $2", "check", name); err != nil {
			return err
		}
		if older == nil || older.version == 0 {
			if err := d.runs.check(ctx, s); err != nil {
				return err
			}
		}
		if older != nil {
			return errUndone
		}
		return nil
	})
	if err != nil && !errors.Is(err, errUndone) {
		return err
	}
	d.answered(true)
	return nil
}

// check adds a run, of a realm of its own, and deletes it.
func (r *Runs) check(ctx context.Context, s session) error {
	e := &ledger.Entry{Owner: ledger.Owner{Realm: "check"}, ID: newID()}
	values, err := r.claimValues(e, 0)
	if err != nil {
		return err
	}
	if _, err := s.stamp(ctx, addEntry, values...); err != nil {
		return err
	}
	_, err = s.exec(ctx, "DELETE FROM runs WHERE "+isEntry, identity(e.Identity())...)
	return err
}

// sweep deletes the things that have expired, and makes what was deleted unreadable also in the files of the database. Runs are deleted by the ledger.
func (d *DB) sweep(ctx context.Context) error {
	for {
		n, err := d.Things().Expire(ctx, 1000)
		if err != nil {
			return err
		}
		if n < 1000 {
			return d.dialect.swept(ctx, d.session(writing))
		}
	}
}

// Close closes the database when the last statement has ended.
func (d *DB) Close() {
	d.stop()
	d.starting.Do(func() { close(d.ended) })
	<-d.ended
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	d.runs.leave(ctx)
	saving, saved := context.WithTimeout(ctx, leaveTimeout/2) // many marks may take all of it
	_ = d.Marks().Save(saving)                                // statements log errors
	saved()
	d.runs.sendLast(ctx)
	d.closing.Store(true)
	d.using.Lock()
	defer d.using.Unlock()
	if d.conns == nil {
		return
	}
	if err := d.conns.close(); err != nil {
		d.log.Load().Warn("the database was not closed properly", zap.String("database", d.dialect.place()), zap.Error(err))
	}
	d.conns = nil
}

// Destruct implements caddy.Destructor.
func (d *DB) Destruct() error {
	d.Close()
	return nil
}
