package store

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/machine"
	"github.com/skill-bridge/caddy-skill-bridge/module/store/verdict"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

const (
	// sqliteReaders is how many connections of a file read at the same time.
	sqliteReaders = 4
	// sqliteBusy is how long one attempt of a statement waits for other processes.
	sqliteBusy = 100 * time.Millisecond
)

// sqliteNow is the time of the machine, which is the same in all of a statement.
const sqliteNow = "CAST(round(1000 * unixepoch('subsec')) AS INTEGER)"

// sqlite is the dialect of SQLite, in a file and in memory.
type sqlite struct {
	settings Settings
	opened   fs.FileInfo // the file; nil: it is in memory, or was not opened
}

func (q *sqlite) place() string {
	if q.settings.Kind == Memory {
		return "SQLite in memory"
	}
	return "SQLite in " + q.settings.File
}

// open makes the file, which only its owner can read, and opens the connections.
func (q *sqlite) open(ctx context.Context) (*connections, error) {
	location := url.URL{Scheme: "file", Path: "/" + newID()}
	options := url.Values{"_busy_timeout": {strconv.FormatInt(sqliteBusy.Milliseconds(), 10)}, "_foreign_keys": {"1"}, "_error_rc": {"1"}, "_dqs": {"0"}}
	if q.settings.Kind == Memory {
		options.Set("vfs", "memdb")
		if q.settings.File != "" {
			location.Path = "/" + q.settings.File
		}
	} else {
		if err := machine.PrepareFile(q.settings.File); err != nil {
			return nil, err
		}
		_, _ = driver.Fdatasync(true) // where the system has it, as other builds of SQLite do: a commit takes a third of the time, and is as durable
		location.Path = "/" + strings.TrimPrefix(filepath.ToSlash(q.settings.File), "/")
		options.Set("_auto_vacuum", "INCREMENTAL")
		options.Set("_journal_mode", "WAL")
		options.Set("_synchronous", "FULL")
		// A transaction that deletes many runs touches a page for each, in each index: in the smaller default cache, they are written several times.
		options["_pragma"] = []string{"secure_delete(1)", "cache_size(-16000)", "wal_autocheckpoint(8000)"}
	}
	c := &connections{batches: &batches{wake: make(chan struct{}, 1)}, replace: words(sqliteNow, ":at", "", "{values}", "VALUES (", "{t}", ":at", "{clock}", ")")}
	go c.batches.writing()
	var err error
	var opened []*sql.DB
	c.close = func() (err error) {
		close(c.batches.wake)
		for _, db := range opened {
			err = errors.Join(err, db.Close())
		}
		return err
	}
	begun := time.Now()
	connect := func(n int) *pool {
		db, e := sql.Open("sqlite", location.String()+"?"+options.Encode())
		if err = errors.Join(err, e); e != nil {
			return nil
		}
		opened = append(opened, db)
		db.SetMaxOpenConns(n)
		db.SetMaxIdleConns(n)
		for e = db.PingContext(ctx); verdict.Code(e) == codes.SQLITE_BUSY && time.Since(begun) < 4*time.Second && ctx.Err() == nil; e = db.PingContext(ctx) {
			time.Sleep(10 * time.Millisecond) // SQLite waits for others, but not for one that makes the file what it is at the same moment
		}
		err = errors.Join(err, e)
		return &pool{db: db, prepare: true}
	}
	write := connect(1) // makes the file what it is
	if err == nil && q.settings.Kind == Memory {
		connect(1) // is never used, and so never dropped: the database ends with its last connection
	}
	for _, option := range []string{"_auto_vacuum", "_journal_mode"} {
		options.Del(option)
	}
	options.Set("_query_only", "1")
	var read *pool
	if err == nil {
		read = connect(sqliteReaders)
	}
	if err != nil {
		_ = c.close()
		return nil, err
	}
	q.opened, _ = os.Stat(q.settings.File) // nil in memory
	c.pools = [purposes]*pool{reading: read, writing: write, leasing: write}
	return c, nil
}

// checkPlace lets no statement begin any more when another file, or none, is in the place of the open one: what is written to that is lost, and other
// processes don't see it. To put the file back does not help: its log may be that of the other file meanwhile.
func (q *sqlite) checkPlace(d *DB) {
	now, err := os.Stat(q.settings.File)
	if !d.closing.Load() && !errors.Is(err, fs.ErrNotExist) && (err != nil || os.SameFile(q.opened, now)) {
		return
	}
	d.closing.Store(true)
	d.suffered(&ledger.Unavailable{
		Err:    new(verdict.Verdict).Mark(errors.New(q.place() + " was removed or replaced while it was in use")),
		Advice: "Stop Caddy, remove the files -wal and -shm beside it, and start Caddy: it opens the file that is there, or makes a new one.",
	})
}

// swept gives pages without content back, and empties the log, in which deleted rows could still be read.
func (q *sqlite) swept(ctx context.Context, s session) error {
	if q.settings.Kind == Memory {
		return nil
	}
	s.kind = alone
	each := func(*sql.Rows) error { return nil }
	if err := s.query(ctx, each, "PRAGMA incremental_vacuum(1000)"); err != nil {
		return err
	}
	return s.query(ctx, each, "PRAGMA wal_checkpoint(TRUNCATE)")
}
