package store

import (
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
)

// BenchmarkThings stores new things, durably, one after the other and many at a time, and reads one.
func BenchmarkThings(b *testing.B) {
	for name, settings := range map[string]func(*testing.B) Settings{
		"sqlite": func(b *testing.B) Settings {
			b.Helper()
			return Settings{Kind: SQLite, File: filepath.Join(b.TempDir(), "s.db")}
		},
		"memory": func(*testing.B) Settings { return Settings{Kind: Memory, File: b.Name()} },
		"postgres": func(b *testing.B) Settings {
			b.Helper()
			dsn := postgrestest.Start(b)
			postgrestest.Exec(b, dsn, "ALTER SYSTEM SET fsync = on") // the server of tests does not sync
			postgrestest.Exec(b, dsn, "SELECT pg_reload_conf()")
			return Settings{Kind: Postgres, DSN: dsn}
		},
	} {
		b.Run(name, func(b *testing.B) {
			db := open(b, settings(b))
			var n atomic.Int64
			value := make([]byte, 1000)
			put := func(b *testing.B) {
				b.Helper()
				thing := &Thing{Kind: "bench", Name: strconv.FormatInt(n.Add(1), 10), Value: value}
				if ok, err := db.Things().Put(b.Context(), thing, 0); !ok || err != nil {
					b.Error(ok, err)
				}
			}
			b.Run("put", func(b *testing.B) {
				for b.Loop() {
					put(b)
				}
			})
			b.Run("put together", func(b *testing.B) {
				b.SetParallelism(16)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						put(b)
					}
				})
			})
			b.Run("get", func(b *testing.B) {
				for b.Loop() {
					if _, err := db.Things().Get(b.Context(), "bench", "1"); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
