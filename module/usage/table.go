package usage

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bounds of what is kept.
const (
	// MaxRows is how many rows a table has.
	MaxRows = 10_000
	// MaxText is the size of the longest principal and of the longest id of a skill that get rows, in bytes.
	MaxText = 256
	// MaxSeries is how many pairs of a principal and a skill have metrics of their own.
	MaxSeries = 1000
)

// Labels of metrics.
const (
	LabelPrincipal = "principal"
	LabelSkill     = "skill"
	LabelEvent     = "event"

	labelNone  = "none"
	labelOther = "other"

	eventCall    = "call"
	eventRun     = "run"
	eventRefused = "refused"
)

// Table counts calls by caller and skill. It has the pairs of a caller and a skill that were used last, and the sums of all others. It is safe for
// concurrent use.
type Table struct {
	counters *prometheus.CounterVec
	began    time.Time
	now      func() time.Time
	most     int

	mu     sync.RWMutex // held for reading while a call is counted in a known row, otherwise for writing
	rows   map[key]*counted
	other  sums
	series map[pair]struct{}
}

// key identifies a row.
type key struct{ principal, source, skill string }

// pair identifies the metrics of rows.
type pair struct{ principal, skill string }

// counted is a row.
type counted struct {
	key

	since   int64        // in nanoseconds since 1970
	last    atomic.Int64 // the same
	sums    sums
	metrics *metrics // nil: no call of the row is in the metrics
}

// sums are [Counts] that grow.
type sums struct{ calls, runs, refused atomic.Uint64 }

func (s *sums) add(c *Counts) {
	s.calls.Add(c.Calls)
	s.runs.Add(c.Runs)
	s.refused.Add(c.Refused)
}

func (s *sums) counts() Counts { return Counts{s.calls.Load(), s.runs.Load(), s.refused.Load()} }

// Counts are what is counted.
type Counts struct {
	// Calls are those that asked to execute the skill.
	Calls uint64 `json:"calls"`
	// Runs are those that the provider accepted.
	Runs uint64 `json:"runs"`
	// Refused are the calls that a quota of the caller refused.
	Refused uint64 `json:"refused"`
}

// Row is what one caller has used of one skill.
type Row struct {
	Principal string    `json:"principal,omitempty"` // empty: all anonymous callers
	Namespace string    `json:"namespace,omitempty"` // of the source
	SkillID   string    `json:"skill_id,omitempty"`  // empty: the calls named no skill that there is
	Since     time.Time `json:"since"`               // the first call that the row counts
	Last      time.Time `json:"last"`                // the last one
	Counts
}

// Call is a call that has ended.
type Call struct {
	Principal, Source, SkillID string
	// Run says that the provider accepted a run, Refused that a quota refused the call.
	Run, Refused bool
	// Measured lets the metrics count the call, too.
	Measured bool
}

// counts returns what the call adds.
func (c *Call) counts() Counts {
	n := Counts{Calls: 1}
	if c.Run {
		n.Runs = 1
	}
	if c.Refused {
		n.Refused = 1
	}
	return n
}

// metrics are the counters of a pair.
type metrics struct{ calls, runs, refused prometheus.Counter }

// NewTable returns an empty table. The counters have the labels [LabelPrincipal], [LabelSkill] and [LabelEvent]. now returns the time.
func NewTable(counters *prometheus.CounterVec, now func() time.Time) *Table {
	return &Table{counters: counters, began: now().UTC(), now: now, most: MaxRows, rows: map[key]*counted{}, series: map[pair]struct{}{}}
}

// Add counts a call.
func (t *Table) Add(c *Call) {
	n := c.counts()
	if len(c.Principal) > MaxText || len(c.SkillID) > MaxText {
		t.mu.RLock()
		t.other.add(&n)
		t.mu.RUnlock()
		if c.Measured {
			t.metricsOf(pair{labelOther, labelOther}).add(&n)
		}
		return
	}
	k := key{c.Principal, c.Source, c.SkillID}
	t.mu.RLock()
	row := t.rows[k]
	known := row != nil && (row.metrics != nil || !c.Measured)
	if known {
		t.count(row, &n)
	}
	t.mu.RUnlock()
	if !known {
		row = t.insert(k, &n, c.Measured)
	}
	if c.Measured {
		row.metrics.add(&n)
	}
}

func (t *Table) count(row *counted, n *Counts) {
	row.last.Store(t.now().UnixNano())
	row.sums.add(n)
}

// insert counts a call in a row that may be a new one, or has no metrics yet.
func (t *Table) insert(k key, n *Counts, measured bool) *counted {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.rows[k]
	if row == nil {
		if len(t.rows) >= t.most {
			t.forget()
		}
		k = key{strings.Clone(k.principal), strings.Clone(k.source), strings.Clone(k.skill)} // texts may be parts of requests and documents
		row = &counted{key: k, since: t.now().UnixNano()}
		t.rows[k] = row
	}
	if measured && row.metrics == nil {
		row.metrics = t.metricsOf(t.label(row.key))
	}
	t.count(row, n)
	return row
}

// forget removes one row in sixteen: those that were not used for the longest time. Sorting them costs as much as many calls, and so is done once
// for many new rows.
func (t *Table) forget() {
	rows := slices.SortedFunc(maps.Values(t.rows), func(a, b *counted) int { return cmp.Compare(a.last.Load(), b.last.Load()) })
	for _, row := range rows[:max(1, t.most/16)] {
		delete(t.rows, row.key)
		n := row.sums.counts()
		t.other.add(&n)
	}
}

// label returns the labels of a row. Series of metrics are never removed, so the first pairs have labels of their own.
func (t *Table) label(k key) pair {
	p := pair{labelOf(k.principal), labelOf(k.skill)}
	if _, known := t.series[p]; known {
		return p
	}
	if len(t.series) >= MaxSeries {
		return pair{labelOther, labelOther}
	}
	t.series[p] = struct{}{}
	return p
}

func labelOf(text string) string {
	if text == "" {
		return labelNone
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func (t *Table) metricsOf(p pair) *metrics {
	of := func(event string) prometheus.Counter { return t.counters.WithLabelValues(p.principal, p.skill, event) }
	return &metrics{of(eventCall), of(eventRun), of(eventRefused)}
}

func (m *metrics) add(n *Counts) {
	m.calls.Add(float64(n.Calls))
	if n.Runs > 0 {
		m.runs.Add(float64(n.Runs))
	}
	if n.Refused > 0 {
		m.refused.Add(float64(n.Refused))
	}
}

// Usage is what was used since a time.
type Usage struct {
	Since time.Time `json:"since"` // the start of the process
	Total int       `json:"total"` // of the rows that the request selects
	Rows  []Row     `json:"rows"`  // those with the most calls first
	Other Counts    `json:"other"` // of all callers and skills without a row
}

// Usage returns the rows that are wanted, at most so many, and how many of them there are.
func (t *Table) Usage(most int, wanted func(*Row) bool) Usage {
	t.mu.Lock() // no call is counted in part
	u := Usage{Since: t.began, Other: t.other.counts(), Rows: []Row{}}
	for _, c := range t.rows {
		row := Row{c.principal, c.source, c.skill, time.Unix(0, c.since).UTC(), time.Unix(0, c.last.Load()).UTC(), c.sums.counts()}
		if wanted(&row) {
			u.Rows = append(u.Rows, row)
		}
	}
	t.mu.Unlock()
	slices.SortFunc(u.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Principal, b.Principal), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.SkillID, b.SkillID))
	})
	u.Total = len(u.Rows)
	u.Rows = u.Rows[:min(most, len(u.Rows))]
	return u
}
