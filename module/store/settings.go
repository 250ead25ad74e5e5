package store

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
)

// Kind is a kind of database.
type Kind string

const (
	// SQLite is a file, for the instances of one machine.
	SQLite Kind = "sqlite"
	// Postgres is a server, for instances on several machines.
	Postgres Kind = "postgres"
	// Memory is SQLite in memory: it is forgotten when the process ends.
	Memory Kind = "memory"
)

// Settings say which database is used.
type Settings struct {
	Kind Kind
	// File is the file of SQLite. In memory, it is the name of a database of its own, for tests.
	File string
	// DSN is the data source name of PostgreSQL: a URL or pairs of key and value. It contains a password, so no text quotes it.
	DSN string
	// CheckOnly leaves the schema as it is: a program that checks a configuration must not migrate the database of the bridge that runs.
	CheckOnly bool
}

// key identifies the database among those of the process.
type key struct {
	kind Kind
	name string
}

// complete checks the settings, makes the path of the file absolute, and returns the key of the database. It reads nothing.
func (s *Settings) complete() (key, error) {
	switch s.Kind {
	case SQLite:
		if s.File == "" {
			return key{}, errors.New("the database of SQLite has no file")
		}
		file, err := filepath.Abs(s.File)
		if err != nil {
			return key{}, fmt.Errorf("the path of the database: %w", err)
		}
		s.File = file
		return key{SQLite, file}, nil
	case Postgres:
		if s.DSN == "" {
			return key{}, errors.New("the database of PostgreSQL has no DSN")
		}
		return key{Postgres, lifetime.NewDigest(s.DSN).String()}, nil
	case Memory:
		return key{Memory, s.File}, nil
	}
	return key{}, fmt.Errorf("unknown kind of database %q", s.Kind)
}
