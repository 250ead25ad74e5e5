//go:build unix

package store

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// benchmark calls f with the entries of SQLite on disk and of PostgreSQL, whose test server does not wait for the disk.
func benchmark(b *testing.B, rows int, f func(b *testing.B, r *Runs)) {
	b.Helper()
	for _, kind := range []Kind{SQLite, Postgres} {
		b.Run(string(kind), func(b *testing.B) {
			settings := Settings{Kind: kind, File: filepath.Join(b.TempDir(), "bench.db")}
			if kind == Postgres {
				settings.DSN = postgrestest.Start(b)
			}
			db := open(b, settings)
			if rows > 0 {
				fill(b, db, rows)
			}
			f(b, db.Runs())
		})
	}
}

// processor returns the processor time of this process.
func processor() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func claimAndEnd(b *testing.B, r *Runs) {
	b.Helper()
	e := &ledger.Entry{
		Owner: ledger.Owner{Realm: "main", Principal: "alice"}, ID: uuid.Must(uuid.NewV7()).String(), Front: "skills", Skill: "acme.count", Asked: "count",
		Args: make([]byte, 32),
	}
	e.Key = []byte(e.ID)
	if present, err := r.Claim(b.Context(), e, time.Hour); present != nil || err != nil {
		b.Error(present, err)
	}
	e.State, e.Outcome = ledger.Completed, make([]byte, 200)
	if ok, err := r.Change(b.Context(), e, nil, time.Hour); !ok || err != nil {
		b.Error(ok, err)
	}
}

func BenchmarkClaimAndEnd(b *testing.B) {
	benchmark(b, 0, func(b *testing.B, r *Runs) {
		b.Helper()
		begun := processor()
		for b.Loop() {
			claimAndEnd(b, r)
		}
		b.ReportMetric(float64((processor()-begun).Microseconds())/float64(b.N), "cpu-µs/op")
	})
}

// inParallel measures an operation of many clients at a time.
func inParallel(b *testing.B, do func(b *testing.B, r *Runs)) {
	b.Helper()
	benchmark(b, 0, func(b *testing.B, r *Runs) {
		b.Helper()
		begun := processor()
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				do(b, r)
			}
		})
		b.ReportMetric(float64((processor()-begun).Microseconds())/float64(b.N), "cpu-µs/op")
	})
}

// A task of A2A whose run ends at once is claimed with its end.
func BenchmarkClaimEndedParallel(b *testing.B) {
	inParallel(b, func(b *testing.B, r *Runs) {
		b.Helper()
		e := &ledger.Entry{
			Owner: ledger.Owner{Realm: "main", Principal: "alice"}, ID: uuid.Must(uuid.NewV7()).String(), Front: "a2a", Skill: "acme.count", Asked: "count",
			State: ledger.Completed, Notes: make([]byte, 600), Outcome: make([]byte, 200), Label: ledger.Label{Group: uuid.NewString(), State: 5, At: time.Now()},
		}
		if present, err := r.Claim(b.Context(), e, time.Hour); present != nil || err != nil {
			b.Error(present, err)
		}
	})
}

func BenchmarkClaimAndEndParallel(b *testing.B) { inParallel(b, claimAndEnd) }

// BenchmarkList lists 50 of 10,000 runs of an owner, among 100,000.
func BenchmarkList(b *testing.B) {
	benchmark(b, 100_000, func(b *testing.B, r *Runs) {
		b.Helper()
		owner := &ledger.Owner{Realm: "main", Principal: "alice"}
		for name, q := range map[string]*ledger.Query{
			"all":    {Owner: owner, Limit: 50},
			"open":   {Owner: owner, Limit: 50, States: []ledger.State{ledger.Working, ledger.Accepted}},
			"front":  {Owner: owner, Limit: 50, Fronts: []string{"none"}},
			"owners": {Limit: 50},
		} {
			b.Run(name, func(b *testing.B) {
				for b.Loop() {
					if _, _, err := r.List(b.Context(), q); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run("nothing to adopt", func(b *testing.B) {
			for b.Loop() {
				if _, err := r.Adopt(b.Context(), r.Instance(), []string{"main"}, 50); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("nothing is due", func(b *testing.B) {
			for b.Loop() {
				if _, err := r.Expire(b.Context(), 1000); err != nil {
					b.Fatal(err)
				}
				if _, err := r.Overdue(b.Context(), 50); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("count", func(b *testing.B) {
			for b.Loop() {
				if _, err := r.Count(b.Context(), owner); err != nil {
					b.Fatal(err)
				}
			}
		})
		known := make(map[ledger.Identity]int64)
		for i := range 2000 {
			known[ledger.Identity{Owner: *owner, ID: fmt.Sprintf("%08x-0000-7000-8000-000000000000", 10*(i+1))}] = 2
		}
		b.Run("newer of 2,000", func(b *testing.B) {
			for b.Loop() {
				if _, err := r.Newer(b.Context(), known); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

// BenchmarkExpire deletes 100,000 runs.
func BenchmarkExpire(b *testing.B) {
	benchmark(b, 0, func(b *testing.B, r *Runs) {
		b.Helper()
		for b.Loop() {
			b.StopTimer()
			exec(b, r.db, "DELETE FROM instances")
			fill(b, r.db, 100_000)
			exec(b, r.db, "UPDATE runs SET expires = 1, state = 16")
			begun := processor()
			b.StartTimer()
			for n := 1; n > 0; {
				var err error
				if n, err = r.Expire(b.Context(), 500); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((processor() - begun).Seconds(), "cpu-s/op")
		}
	})
}
