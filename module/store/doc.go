// Package store keeps in one SQL database everything that the bridge must not forget: runs that outlive their requests, and [Things], which is all
// that is small. SQLite serves one instance, PostgreSQL several. Both are used through one implementation over database/sql; what their dialects do
// differently is in sqlite.go and postgres.go.
//
// A [DB] outlives the configurations that use it. [Hold] opens nothing, so that a configuration can be validated without its database;
// [DB.Start] opens the database in the background, and again and again until it is open.
package store
