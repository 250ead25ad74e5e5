package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	codes "modernc.org/sqlite/lib"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/verdict"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

const (
	// statementTimeout bounds each statement, and with it the wait for a connection.
	statementTimeout = 10 * time.Second
	// maxAttempts bounds how often a statement is executed that the database has refused because of another transaction, or whose connection broke.
	maxAttempts = 5
	// maxStatements bounds the texts of statements that are kept. Texts must not depend on what callers send.
	maxStatements = 256
)

// purpose is what a statement is executed for. Each purpose has connections of its own, as far as the database allows.
type purpose int

const (
	reading purpose = iota
	writing
	leasing // renewing a lease, adoption and notices, which must not wait for calls
	purposes
)

// session executes statements: each as a transaction of its own, or all in one.
//
// The texts of statements are the same for all databases. Their parameters are $1, $2 and so on; {now} is the time of the database's clock
// in Unix milliseconds, {at} that of [session.stamp], {skip} skips rows that other transactions have locked, and {ended} and the like are
// states. Between {values} and {clock}, {t} is one reading of {at}.
type session struct {
	db      *DB
	purpose purpose
	kind    kind
	conns   *connections // nil: do finds them
	within  bool         // do: what is executed now belongs to it
	tx      *sql.Tx      // the transaction of PostgreSQL
}

// session returns a session whose statements are transactions of their own.
func (d *DB) session(p purpose) session { return session{db: d, purpose: p} }

// transaction calls f with a session whose statements are one transaction, which may write. If the database refuses it because of another transaction,
// f is called again. f must not write to anything else that is not ready for that, and must use no other session.
func (d *DB) transaction(ctx context.Context, f func(context.Context, session) error) error {
	s := d.session(writing)
	s.kind = several
	return s.do(ctx, f)
}

// begin calls f with a session whose statements are a new transaction of PostgreSQL. Those of SQLite are [batches].
func (s session) begin(ctx context.Context, f func(context.Context, session) error) error {
	tx, err := s.conns.pools[s.purpose].db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after the commit
	s.tx = tx
	if err := f(ctx, s); err != nil {
		return err
	}
	return tx.Commit()
}

// exec executes a statement, and returns how many rows it has changed.
func (s session) exec(ctx context.Context, text string, args ...any) (changed int64, err error) {
	err = s.do(ctx, func(ctx context.Context, s session) error {
		st, err := s.statement(ctx, text)
		if err != nil {
			return err
		}
		var result sql.Result
		if st.prepared != nil {
			result, err = st.prepared.ExecContext(ctx, args...)
		} else {
			result, err = s.runner().ExecContext(ctx, st.text, args...)
		}
		if err != nil {
			return err
		}
		changed, err = result.RowsAffected()
		return err
	})
	return changed, err
}

// query executes a statement, and calls each with each row of its result. What each keeps of a row it must copy, unless it has scanned it into a
// slice or a string.
func (s session) query(ctx context.Context, each func(*sql.Rows) error, text string, args ...any) error {
	begun := false // rows were read: the statement is not executed again
	return s.do(ctx, func(ctx context.Context, s session) (err error) {
		defer func() {
			if begun && err != nil {
				err = &finalError{err}
			}
		}()
		st, err := s.statement(ctx, text)
		if err != nil {
			return err
		}
		var rows *sql.Rows
		if st.prepared != nil {
			rows, err = st.prepared.QueryContext(ctx, args...)
		} else {
			rows, err = s.runner().QueryContext(ctx, st.text, args...)
		}
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			begun = true
			if err := each(rows); err != nil {
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		return rows.Close() // the end of a statement that changes rows
	})
}

// row executes a statement and scans its row. found is false if there is none.
func (s session) row(ctx context.Context, into []any, text string, args ...any) (found bool, err error) {
	err = s.query(ctx, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(into...)
	}, text, args...)
	return found, err
}

// stamp executes a statement that changes at most one row, to which it gives the time {at}, and returns that; 0: it has changed none. SQLite
// has the clock of this machine, so that the time can be another argument: with RETURNING, the statement would take a fifth more.
func (s session) stamp(ctx context.Context, text string, args ...any) (at int64, err error) {
	if s.db.settings.Kind == Postgres {
		_, err = s.row(ctx, []any{&at}, text+" RETURNING changed", args...)
		return at, err
	}
	err = s.do(ctx, func(ctx context.Context, s session) error {
		now := time.Now().UnixMilli()
		n, err := s.exec(ctx, text, append(args, sql.Named("at", now))...)
		at = n * now
		return err
	})
	return at, err
}

// do calls f with open connections, within the time of a statement, and says what its error means.
func (s session) do(ctx context.Context, f func(context.Context, session) error) error {
	if s.within {
		return f(ctx, s)
	}
	c, leave, err := s.db.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	s.conns, s.within = c, true
	limited, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	return s.db.judged(ctx, s.attempt(limited, f), s.purpose)
}

// attempt calls f, again and again while the database refuses it. The wait for another process that has locked the file ends shortly before the context does,
// so that the error says why.
func (s session) attempt(ctx context.Context, f func(context.Context, session) error) (err error) {
	deadline, _ := ctx.Deadline()
	for attempt := 1; ; attempt++ {
		unreplicated := s.conns.unreplicated.Load()
		switch {
		case s.conns.batches != nil && s.purpose != reading:
			err = s.conns.batches.do(ctx, s, f)
		case s.kind == several:
			err = s.begin(ctx, f)
		default:
			err = f(ctx, s)
		}
		if err == nil && s.purpose != reading && s.conns.unreplicated.Load() != unreplicated { // a commit of this time, if not this one
			err = &finalError{verdict.ErrUnreplicated}
		}
		isLocked := verdict.Code(err) == codes.SQLITE_BUSY && time.Until(deadline) > 2*sqliteBusy
		if !isLocked && (attempt >= maxAttempts || !s.again(err)) {
			return err
		}
	}
}

// again reports whether to execute a statement again: the database has refused it, or the connection broke, and the statement only reads or had no effect.
func (s session) again(err error) bool {
	if err == nil {
		return false
	}
	if _, ok := errors.AsType[*finalError](err); ok {
		return false
	}
	v := s.db.verdict(err)
	return v != nil && (v.Refused || v.Gone && (s.purpose == reading || !v.Unsure))
}

// kind is what is done with a session.
type kind int

const (
	// one statement, which is a transaction of its own or part of one.
	_ kind = iota
	// several statements that are one transaction.
	several
	// alone is a statement that can't be part of a transaction.
	alone
)

// finalError is an error after which a statement is not executed again.
type finalError struct{ error }

func (f *finalError) Unwrap() error { return f.error }

// pool are the connections for a purpose.
type pool struct {
	db *sql.DB
	// prepare says that statements are prepared for the pool. Otherwise the driver does it.
	prepare bool

	mu         sync.Mutex
	statements map[string]*statement // by text
}

// statement is a statement as its database takes it.
type statement struct {
	prepared *sql.Stmt // nil: the statement is not prepared
	text     string
}

// connections are those of an open database.
type connections struct {
	pools [purposes]*pool
	// replace replaces the words in braces.
	replace *strings.Replacer
	close   func() error
	// closeIdle is nil if other connections would be no different.
	closeIdle func()
	// batches put changes that wait for each other into one transaction; nil: the database has several connections that write.
	batches *batches
	// unreplicated counts commits that succeeded, though no synchronous standby has them.
	unreplicated atomic.Int64
}

// statement returns the statement for a text.
func (s session) statement(ctx context.Context, text string) (*statement, error) {
	pool := s.conns.pools[s.purpose]
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if st := pool.statements[text]; st != nil {
		return st, nil
	}
	st := &statement{text: s.conns.replace.Replace(text)}
	if len(pool.statements) >= maxStatements {
		return st, nil
	}
	if pool.prepare {
		prepared, err := pool.db.PrepareContext(ctx, st.text)
		if err != nil {
			return nil, err
		}
		st.prepared = prepared
	}
	if pool.statements == nil {
		pool.statements = map[string]*statement{}
	}
	pool.statements[text] = st
	return st, nil
}

// runner executes statements that are not prepared.
type runner interface {
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

func (s session) runner() runner {
	if s.tx != nil {
		return s.tx
	}
	return s.conns.pools[s.purpose].db
}

// words returns what replaces the words in braces. Ended is the first state that has ended.
func words(now, at, skip string, more ...string) *strings.Replacer {
	all := strings.Fields(fmt.Sprintf("{submitting} %d {unknown} %d {waiting} %d {ended} %d", ledger.Submitting, ledger.Unknown, ledger.Waiting, ledger.Completed))
	return strings.NewReplacer(append(append(all, more...), "{now}", now, "{at}", at, "{skip}", skip)...)
}
