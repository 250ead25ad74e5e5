package databases

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/failure"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/servers"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	realm  = "bench"
	owners = 10
	page   = 50 // of list_runs, and of an adoption
)

// Rows is a database with many runs.
type Rows struct {
	*servers.Starter
	Server          *Postgres // nil: SQLite
	Kept, All, Open int       // how many runs there are, and how many of All are open
	Repeat          int       // how often a time is measured

	settings store.Settings
	closing  func()
	empty    float64 // size of the empty database
}

// Kept has what kept runs cost: bytes, and seconds.
type Kept struct{ Size, List, Processor float64 }

// MeasureKept measures the size of kept runs, a list, and their expiry.
func (r *Rows) MeasureKept() (k Kept) {
	s := r.open()
	r.fill(s, r.Kept, ledger.Completed, time.Hour)
	k.Size = r.size()
	k.List = r.typically(func() {
		found, _, err := s.List(r.Context, &ledger.Query{Owner: &ledger.Owner{Realm: realm, Principal: "owner 0"}, Limit: page})
		failure.Check(err)
		if len(found) != page {
			failure.Check(fmt.Errorf("a page of %d runs", len(found)))
		}
	})
	s = r.open() // an empty one
	r.fill(s, r.Kept, ledger.Completed, time.Millisecond)
	pid := []int{os.Getpid()}
	before, expired := failure.Must(servers.ProcessorTime(pid)), 0
	for n := 1000; n == 1000; expired += n {
		n = failure.Must(s.Expire(r.Context, 1000))
	}
	k.Processor = failure.Must(servers.ProcessorTime(pid)) - before
	if expired != r.Kept {
		failure.Check(fmt.Errorf("%d of %d runs have expired", expired, r.Kept))
	}
	return k
}

// Open has the times of what is looked for among many runs, in seconds.
type Open struct{ Adoption, NoAdoption, NoExpiry float64 }

// MeasureOpen measures the adoption of the open runs of an instance that is gone, and looks without work.
func (r *Rows) MeasureOpen() (o Open) {
	gone := r.open()
	r.fill(gone, r.All-r.Open, ledger.Completed, time.Hour)
	r.fill(gone, r.Open, ledger.Working, time.Hour)
	r.Close() // the instance
	if r.Server != nil {
		r.Server.exec(r.settings.DSN, "VACUUM ANALYZE") // as its autovacuum does sooner or later
	}
	s := r.reopen()
	adopt := func() int { return len(failure.Must(s.Adopt(r.Context, s.Instance(), []string{realm}, page))) }
	var times []float64
	adopted := 0
	for begun := time.Now(); ; begun = time.Now() {
		n := adopt()
		if n == 0 {
			break
		}
		adopted += n
		times = append(times, time.Since(begun).Seconds())
	}
	if adopted != r.Open {
		failure.Check(fmt.Errorf("%d of %d runs were adopted", adopted, r.Open))
	}
	slices.Sort(times)
	o.Adoption, o.NoAdoption = times[len(times)/2], r.typically(func() { adopt() })
	o.NoExpiry = r.typically(func() { failure.Must(s.Expire(r.Context, 1000)) })
	return o
}

// typically returns the median of the times of a function, in seconds.
func (r *Rows) typically(do func()) float64 {
	times := make([]float64, r.Repeat)
	for i := range times {
		begun := time.Now()
		do()
		times[i] = time.Since(begun).Seconds()
	}
	slices.Sort(times)
	return times[len(times)/2]
}

// open opens an empty database in this process, and closes the one that was open.
func (r *Rows) open() *store.Runs {
	r.Close()
	r.settings = store.Settings{Kind: store.SQLite, File: filepath.Join(failure.Must(os.MkdirTemp(r.Dir, "database-")), "bench.db")}
	if r.Server != nil {
		r.settings = store.Settings{Kind: store.Postgres, DSN: r.Server.Create(r.Server.Address)}
	}
	s := r.reopen()
	r.empty = 0
	r.empty = r.size()
	return s
}

func (r *Rows) reopen() *store.Runs {
	db := store.New(r.settings)
	r.closing = db.Close
	db.Start(zap.NewNop())
	failure.Check(db.Ready(r.Context))
	return db.Runs()
}

// Close closes the database.
func (r *Rows) Close() {
	if r.closing != nil {
		r.closing()
		r.closing = nil
	}
}

// size returns the size of what is stored, in bytes.
func (r *Rows) size() float64 {
	if r.Server != nil {
		return r.Server.ask(r.settings.DSN, "SELECT pg_database_size(current_database())::float8") - r.empty
	}
	var size int64
	for _, file := range failure.Must(filepath.Glob(r.settings.File + "*")) { // with the write-ahead log
		size += failure.Must(os.Stat(file)).Size()
	}
	return float64(size) - r.empty
}

// fill adds runs as calls with keys leave them, of ten owners.
func (r *Rows) fill(s *store.Runs, n int, state ledger.State, keep time.Duration) {
	var next atomic.Int64
	var writers sync.WaitGroup
	errs := make([]error, 256) // so many commit together
	for i := range errs {
		writers.Go(func() {
			for errs[i] == nil {
				number := next.Add(1) - 1
				if number >= int64(n) {
					return
				}
				errs[i] = addRun(r.Context, s, number, state, keep)
			}
		})
	}
	writers.Wait()
	for _, err := range errs {
		failure.Check(err)
	}
}

func addRun(ctx context.Context, s *store.Runs, number int64, state ledger.State, keep time.Duration) error {
	id := uuid.Must(uuid.NewV7()).String()
	e := &ledger.Entry{
		Owner: ledger.Owner{Realm: realm, Principal: fmt.Sprint("owner ", number%owners)}, ID: id, Key: []byte(id)[4:], Front: "skills", Skill: "bench/now", Asked: "bench.now",
		Ref: run.Ref{Source: "bench", SkillID: "bench/now", Version: "1.0.0", ExecutionID: "exec-a1b2c3d4", Kept: id}, State: state, Args: make([]byte, 32),
	}
	if state.Ended() {
		e.Outcome = []byte(provider.NowAnswer)
	}
	present, err := s.Claim(ctx, e, keep)
	if err == nil && present != nil {
		err = fmt.Errorf("there is a run with the id %s already", id)
	}
	return err
}
