// Package databases measures the databases in which the bridge keeps runs, without HTTP.
package databases

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/failure"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/servers"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
)

// Postgres is a server, which ends with the section.
type Postgres struct {
	// Address is where it listens.
	Address string

	starter *servers.Starter
	dsn     string // to which the name of a database is added
	made    int
}

// StartPostgres starts PostgreSQL; nil: there is none.
func StartPostgres(s *servers.Starter) *Postgres {
	dsn, stop, err := postgrestest.Serve()
	if errors.Is(err, postgrestest.ErrMissing) {
		return nil
	}
	failure.Check(err)
	s.AtEnd(func() { _ = stop() })
	return &Postgres{starter: s, dsn: dsn, Address: failure.Must(url.Parse(dsn)).Host}
}

// Create makes an empty database, and returns its DSN by an address of the server.
func (p *Postgres) Create(address string) (dsn string) {
	p.made++
	name := "bench_" + strconv.Itoa(p.made)
	p.exec(p.dsn+"postgres", "CREATE DATABASE "+name)
	return strings.Replace(p.dsn, p.Address, address, 1) + name + "?sslmode=disable"
}

func (p *Postgres) exec(dsn, text string) {
	c := failure.Must(pgx.Connect(p.starter.Context, dsn))
	defer c.Close(p.starter.Context)
	_, err := c.Exec(p.starter.Context, text)
	failure.Check(err)
}

func (p *Postgres) ask(dsn, text string) (value float64) {
	c := failure.Must(pgx.Connect(p.starter.Context, dsn))
	defer c.Close(p.starter.Context)
	failure.Check(c.QueryRow(p.starter.Context, text).Scan(&value))
	return value
}
