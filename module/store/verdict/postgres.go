package verdict

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// Advice about PostgreSQL.
const (
	adviceConnect  = "Check host, port and sslmode of the DSN in: store postgres <dsn>, that the server runs, and that it lets this machine in (listen_addresses, pg_hba.conf, firewalls)."
	adviceTLS      = "The certificate of the server is not of a known CA, or not for the host of the DSN. Check host and sslrootcert=<file> of the DSN in: store postgres <dsn>."
	adviceGone     = "The connection to the server broke. Look at the log of PostgreSQL and at the network."
	advicePooler   = "A pooler, such as pgbouncer in transaction mode, loses prepared statements. Add default_query_exec_mode=exec to the DSN."
	adviceStarts   = "The server is being started or shut down."
	adviceReplica  = "No synchronous standby answers. Look at pg_stat_replication and at synchronous_standby_names of the server."
	adviceReadOnly = "The server is read-only: a standby, or a primary that was set so. Name the primary in the DSN, or several hosts with target_session_attrs=read-write."
)

// ErrUnreplicated is the error of a commit that only the server has, and none of its synchronous standbys: a failover could lose it.
var ErrUnreplicated = errors.New("the commit was not replicated")

// postgresVerdicts are what codes of errors mean, and classes of codes, which are their first two characters.
var postgresVerdicts = map[string]Verdict{
	"08":    {Unsure: true, Gone: true, Advice: adviceGone},
	"0A000": {Refused: true, Advice: "The schema was changed. Start all instances with the same version of the bridge."},
	"25006": {Full: true, Advice: adviceReadOnly},
	"26":    {Advice: advicePooler},
	"25P03": {Gone: true, Advice: adviceGone}, // the transaction was idle for too long
	"28":    {Advice: "The server refuses the user or the password. Check both in the DSN of: store postgres <dsn>, and pg_hba.conf of the server."},
	"3D000": {Advice: "The server has no database of this name. Create it, or name another one in the DSN of: store postgres <dsn>"},
	"3F000": {Advice: "The user has no schema for tables. Create one, or set search_path: ALTER ROLE <user> SET search_path = <schema>"},
	"40":    {Refused: true, Advice: "Other transactions are in the way for a long time. Look at the load of the database and at pg_locks."},
	"42501": {Tables: true, Advice: "The user lacks privileges. It must be able to create tables, and must own those of the bridge."},
	"42P01": {Tables: true, Advice: "A table of the bridge is missing. Restore the database from a backup, or give the bridge an empty one."},
	"42P05": {Advice: advicePooler},
	"42P07": {Advice: "The schema has tables of another program. Give the bridge a database of its own."},
	"42703": {Tables: true, Advice: "A table of the bridge was changed. Restore the database from a backup, or give the bridge an empty one."},
	"53":    {Advice: "The server lacks memory or connections. See max_connections and its log."},
	"53100": {Full: true, Advice: "The disk of the server is full. Free space on it."},
	"57014": {Advice: AdviceSlow},
	"57":    {Unsure: true, Gone: true, Advice: adviceStarts}, // PostgreSQL says so only before a commit, but poolers say it whenever they stop
	"57P03": {Advice: adviceStarts},
	"57P05": {Gone: true, Advice: adviceGone}, // the session was idle for too long
	"58":    {Unsure: true, Advice: "The disk of the server does not work as it should. Look at the log of PostgreSQL."},
	"XX":    {Unsure: true, Advice: "The database is damaged, or PostgreSQL has a fault. Look at its log."},
}

// Postgres says what an error of the driver of PostgreSQL means; nil: it is not known.
func Postgres(err error) *Verdict {
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		v, ok := postgresVerdicts[e.Code]
		if !ok {
			v, ok = postgresVerdicts[e.Code[:min(2, len(e.Code))]]
		}
		if ok {
			v.Unsure, v.Tables = v.Unsure && !connecting, v.Tables && !connecting
			if e.SeverityUnlocalized == "PANIC" { // the server ends, such as on a full disk of its log, which may have the commit already
				v.Full, v.Unsure = false, true
			}
			return &v
		}
		if !connecting {
			return nil
		}
	}
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case errors.Is(err, ErrUnreplicated):
		return &Verdict{Unsure: true, Advice: adviceReplica}
	case connecting && isCertificate:
		return &Verdict{Advice: adviceTLS}
	case connecting:
		return &Verdict{Advice: adviceConnect}
	case errors.Is(err, context.DeadlineExceeded):
		return nil
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone), pgconn.SafeToRetry(err):
		return &Verdict{Gone: true, Advice: adviceGone}
	}
	if _, ok := errors.AsType[net.Error](err); ok || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Verdict{Unsure: true, Gone: true, Advice: adviceGone}
	}
	return nil
}
