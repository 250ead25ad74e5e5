package store

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
