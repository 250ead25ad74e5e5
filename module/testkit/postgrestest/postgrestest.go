// Package postgrestest gives tests a database of a real PostgreSQL. The first test of a binary that asks for one starts a server in a folder and on a port
// of its own; it ends with the binary, also if that is killed.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Required is the environment variable that makes a missing PostgreSQL a failure, if it is "required". Otherwise the tests that need it are skipped.
const Required = "SKILL_BRIDGE_POSTGRES"

// Password is that of the DSNs, for tests that no text shows it.
const Password = "the-password-of-the-dsn"

// ErrMissing is the error of a machine without PostgreSQL.
var ErrMissing = errors.New("PostgreSQL is not installed (Debian's package postgresql)")

var (
	server    = sync.OnceValues(start)
	databases atomic.Int64
	unused    names // empty databases
)

// cluster is a running server.
type cluster struct {
	dsn   string       // to which the name of a database is added
	alive io.Closer    // the standard input of the script, which ends when that is closed, also by the end of this process
	wait  func() error // for the end of the script
}

// Serve starts a server for a program that is no test, and returns the DSN to which the name of a database is added. The database postgres is
// empty. The error is [ErrMissing] if there is no PostgreSQL.
func Serve() (dsn string, stop func() error, err error) {
	c, err := start()
	if err != nil {
		return "", nil, err
	}
	return c.dsn, func() error { return errors.Join(c.alive.Close(), c.wait()) }, nil
}

// Start returns the DSN of an empty database. After the test, another one may use it.
func Start(tb testing.TB) (dsn string) {
	tb.Helper()
	running, err := server()
	if errors.Is(err, ErrMissing) && os.Getenv(Required) != "required" {
		tb.Skipf("skipped: %v; %s=required makes this a failure", err, Required)
	}
	if err != nil {
		tb.Fatalf("PostgreSQL: %v", err)
	}
	name := unused.take()
	if name == "" {
		name = fmt.Sprintf("test_%d", databases.Add(1))
		Exec(tb, running.dsn+"postgres", "CREATE DATABASE "+name)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			Exec(tb, running.dsn+"postgres", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
			return
		}
		Exec(tb, running.dsn+"postgres", "ALTER DATABASE "+name+" RESET ALL")
		Exec(tb, running.dsn+name, emptied)
		unused.put(name)
	})
	return running.dsn + name
}

// emptied is what makes a database as good as new: to make one takes ten times as long.
const emptied = `DO $$ DECLARE name text; BEGIN
PERFORM pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
FOR name IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema') LOOP
EXECUTE 'DROP TABLE ' || name || ' CASCADE'; END LOOP; END $$`

// names are the names of databases.
type names struct {
	mu  sync.Mutex
	all []string
}

// take returns and forgets the name that was put last; empty: there is none.
func (n *names) take() (name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if last := len(n.all) - 1; last >= 0 {
		name, n.all = n.all[last], n.all[:last]
	}
	return name
}

func (n *names) put(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, name)
}

// Exec executes statements over a connection of their own.
func Exec(tb testing.TB, dsn, text string) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context()) // that of a cleanup has ended
	conn, err := pgx.Connect(ctx, dsn)
	if err == nil {
		_, err = conn.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol)
		_ = conn.Close(ctx)
	}
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
}

// programs returns the folder with PostgreSQL's programs, of the newest version that is installed.
func programs() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // Debian's
	if len(found) == 0 {
		file, err := exec.LookPath("initdb")
		if err != nil {
			return "", ErrMissing
		}
		found = append(found, file)
	}
	return filepath.Dir(found[len(found)-1]), nil
}

// location is the DSN of a server, to which the name of a database is added.
func location(port int) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", Password), Host: fmt.Sprintf("127.0.0.1:%d", port), Path: "/"}
	return u.String()
}
