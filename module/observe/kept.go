package observe

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// countEvery is how old the numbers of the databases may be.
const countEvery = 10 * time.Second

// Metrics of the databases.
var (
	keptDesc       = metricDesc("kept_runs", "Runs in the databases, of all instances that use them.")
	keptMaxDesc    = metricDesc("kept_runs_max", "How many runs may be kept: the lowest number of a bridge or publisher.")
	openDesc       = metricDesc("open_runs", "Runs in the databases that have not ended, by front and state.", "front", "state")
	deliveriesDesc = metricDesc("deliveries_waiting", "Requests to URLs of callers that wait in the databases.")
	usableDesc     = metricDesc("database_usable", "Whether the database can be used: 1, or 0.", "database")
)

// keptMetrics are the numbers of what the databases keep.
type keptMetrics struct {
	mu   sync.Mutex
	at   time.Time // when they were counted; zero: never
	of   []*store.DB
	last Figures
	read bool // a database could be read
}

// send sends the numbers of some databases. If none can be read, it only says that.
func (k *keptMetrics) send(databases []*store.DB, add func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.at) >= countEvery || !slices.Equal(k.of, databases) {
		now, unread := FiguresOf(context.Background(), databases)
		for of := range k.last.Open { // a series that was there stays
			now.Open[of] += 0
		}
		k.at, k.of, k.last, k.read = time.Now(), slices.Clone(databases), now, len(unread) < len(databases)
	}
	usable := make(map[string]float64, len(databases)) // settings with another password, or that are not read yet, may name the same place
	for _, db := range databases {
		status, can := db.Status(), 0.
		if status.Open && status.Trouble == nil {
			can = 1
		}
		place := strings.ToValidUTF8(status.Place, "\uFFFD")
		if known, ok := usable[place]; ok {
			can = min(known, can)
		}
		usable[place] = can
	}
	for place, can := range usable {
		add(usableDesc, prometheus.GaugeValue, can, place)
	}
	if !k.read {
		return
	}
	add(keptDesc, prometheus.GaugeValue, float64(k.last.Kept))
	add(deliveriesDesc, prometheus.GaugeValue, float64(k.last.Waiting))
	for of, n := range k.last.Open {
		add(openDesc, prometheus.GaugeValue, float64(n), of.Front, of.State.String())
	}
}

// figuresTimeout is how long a database may take to tell its numbers.
const figuresTimeout = 2 * time.Second

// Figures are the numbers of a database, of all instances that use it.
type Figures struct {
	// Kept is how many runs it has.
	Kept int
	// Open are the numbers of the runs that have not ended.
	Open map[Group]int
	// Waiting is how many deliveries wait to be sent.
	Waiting int
}

// Group is what runs are counted by.
type Group struct {
	Front string
	State ledger.State
}

// FiguresOf returns the numbers of some databases, and why others could not be read.
func FiguresOf(ctx context.Context, databases []*store.DB) (all Figures, unread map[*store.DB]error) {
	all.Open, unread = map[Group]int{}, map[*store.DB]error{}
	for _, db := range databases {
		ctx, cancel := context.WithTimeout(ctx, figuresTimeout)
		if err := all.add(ctx, db); err != nil {
			unread[db] = err
		}
		cancel()
	}
	return all, unread
}

// roughly counts exactly up to a number, and then as PostgreSQL remembers it: counting more reads each row.
const roughly = "SELECT CASE WHEN reltuples > 100000 THEN CAST(reltuples AS bigint) ELSE (SELECT count(*) FROM runs) END FROM pg_class WHERE oid = CAST('runs' AS regclass)"

func (f *Figures) add(ctx context.Context, db *store.DB) error {
	runs, kept := db.Runs(), "SELECT count(*) FROM runs" // by the pages of an index
	if db.Status().Kind == store.Postgres {
		kept = roughly
	}
	count := func(to *int) func(*sql.Rows) error {
		return func(rows *sql.Rows) error {
			var n int
			err := rows.Scan(&n)
			*to += n
			return err
		}
	}
	err := runs.Read(ctx, count(&f.Kept), kept)
	if err == nil {
		err = runs.Read(ctx, func(rows *sql.Rows) error {
			var of Group
			var n int
			err := rows.Scan(&of.Front, &of.State, &n)
			f.Open[of] += n
			return err
		}, "SELECT front, state, count(*) FROM runs WHERE state < {ended} GROUP BY front, state") // in an index that has only these
	}
	if err == nil {
		err = runs.Read(ctx, count(&f.Waiting), "SELECT count(*) FROM deliveries WHERE next IS NOT NULL")
	}
	return err
}
