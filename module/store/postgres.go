package store

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/verdict"
)

const (
	// postgresCalls and postgresLeases are how many connections an instance has at most for calls, and for leases and adoption.
	postgresCalls, postgresLeases = 16, 2
	// postgresConnect bounds a connection attempt, unless the DSN says connect_timeout.
	postgresConnect = 5 * time.Second
	// postgresIdle is how long a connection is kept without use, and postgresLifetime how long with it, so that a moved server is found.
	postgresIdle, postgresLifetime = 5 * time.Minute, 30 * time.Minute
	// postgresCancel is how long the server may take to cancel a statement whose time is over, before its connection is given up.
	postgresCancel = time.Second
	// postgresLock is the number of the advisory lock of migrations: "skillbri" in ASCII.
	postgresLock = 0x736b696c6c627269
)

// postgresNow is a subquery, which is executed once: no index is used for a comparison with a function that could return another time for each row.
const postgresNow = "(SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint)"

// postgresSession is set whatever the defaults of the server, the database and the user are: what is told must be durable, statements are written for
// transactions that see what was committed before each, and the bridge bounds how long they take and wait.
const postgresSession = "SET synchronous_commit = on; SET default_transaction_isolation = 'read committed'; SET statement_timeout = 0; SET lock_timeout = 0"

// postgres is the dialect of PostgreSQL.
type postgres struct {
	settings Settings
	address  atomic.Pointer[string] // nil: the DSN was not read yet
}

func (p *postgres) place() string {
	if address := p.address.Load(); address != nil {
		return "PostgreSQL at " + *address
	}
	return "PostgreSQL"
}

func (p *postgres) swept(context.Context, session) error { return nil }

// errDSN is the error for a DSN that can't be read. It does not quote the DSN, as those of the driver do.
var errDSN = &verdict.Error{
	Text: "the DSN can't be read",
	Advice: "Write the DSN as postgres://<user>:<password>@<host>:5432/<database> or as host=… port=… dbname=… user=… password=…. " +
		"Percent-encode characters such as @, / and & in a URL, quote a value with spaces ('…'), and set what is not of a connection with options=-c….",
}

// dsnError says what is wrong with a DSN or the files that it names, without a part of it: that could be one of a password.
func dsnError(err error) error {
	if !strings.Contains(err.Error(), "failed to configure TLS") {
		return errDSN
	}
	text := "the DSN asks for TLS that can't be used"
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		text += ": " + file.Err.Error()
	}
	return &verdict.Error{
		Text:   text,
		Advice: "Check sslmode, sslrootcert, sslcert and sslkey of the DSN in: store postgres <dsn>. They name files in PEM, which the user of the bridge must be able to read.",
	}
}

// parameters are those that a DSN may have. The server quotes others in its error: they could be a part of a password.
var parameters = []string{
	"host", "port", "database", "user", "password", "passfile", "service", "servicefile", "connect_timeout", "target_session_attrs",
	"ssl", "sslmode", "sslkey", "sslcert", "sslcertmode", "sslrootcert", "sslnegotiation", "sslpassword", "sslsni",
	"krbspn", "krbsrvname", "channel_binding", "require_auth", "min_protocol_version", "max_protocol_version",
	"statement_cache_capacity", "description_cache_capacity", "default_query_exec_mode",
	"application_name", "client_encoding", "options", "role", "search_path", "timezone",
}

// config reads the DSN, and the files and environment variables that stand for what it leaves out.
func (p *postgres) config() (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfigWithOptions(p.settings.DSN, pgx.ParseConfigOptions{
		ParseConfigOptions: pgconn.ParseConfigOptions{ConnStringAllowedKeys: parameters},
	})
	if err != nil {
		return nil, dsnError(err)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = postgresConnect
	}
	dialer := &net.Dialer{
		Timeout:         config.ConnectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
	config.DialFunc = dialer.DialContext
	// A statement whose time is over is canceled at the server: it would go on otherwise, and its connection would be lost.
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: postgresCancel}
	}
	// As parameters of the startup they would be refused by poolers.
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		return conn.Exec(ctx, postgresSession).Close()
	}
	address := net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))) + "/" + config.Database
	p.address.Store(&address)
	return config, nil
}

// connect opens a connection that is in no pool, to listen.
func (p *postgres) connect(ctx context.Context) (*pgx.Conn, error) {
	config, err := p.config()
	if err != nil {
		return nil, err
	}
	// What waits for notices has no statement to be canceled: it just ends.
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}
	}
	return pgx.ConnectConfig(ctx, config)
}

func (p *postgres) open(ctx context.Context) (*connections, error) {
	config, err := p.config()
	if err != nil {
		return nil, err
	}
	c := &connections{replace: words(postgresNow, postgresNow, " FOR UPDATE SKIP LOCKED", "{values}", "SELECT", "{t}", "t", "{clock}", "FROM (SELECT "+postgresNow+" AS t) AS clock WHERE TRUE")}
	// A commit whose wait for the standby was canceled succeeds with a warning, though only this server has it.
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		if notice.Routine == "SyncRepWaitForLSN" {
			c.unreplicated.Add(1)
		}
	}
	connect := func(n int) *pool {
		db := stdlib.OpenDB(*config)
		db.SetMaxOpenConns(n)
		db.SetMaxIdleConns(n)
		db.SetConnMaxIdleTime(postgresIdle)
		db.SetConnMaxLifetime(postgresLifetime)
		return &pool{db: db}
	}
	calls, leases := connect(postgresCalls), connect(postgresLeases)
	c.pools = [purposes]*pool{reading: calls, writing: calls, leasing: leases}
	c.close = func() error { return errors.Join(calls.db.Close(), leases.db.Close()) }
	c.closeIdle = func() {
		for p, n := range map[*pool]int{calls: postgresCalls, leases: postgresLeases} {
			p.db.SetMaxIdleConns(-1)
			p.db.SetMaxIdleConns(n)
		}
	}
	if err := calls.db.PingContext(ctx); err != nil {
		_ = c.close()
		return nil, err
	}
	return c, nil
}
