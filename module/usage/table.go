package usage

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
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

	mu     sync.Mutex
	rows   map[key]*counted
	other  Counts
	series map[pair]struct{}
}

// key identifies a row.
type key struct{ principal, source, skill string }

// pair identifies the metrics of rows.
type pair struct{ principal, skill string }

// counted is a row with its metrics; nil: no call of the row is in the metrics.
type counted struct {
	Row
	metrics *metrics
}

// Counts are what is counted.
type Counts struct {
	// Calls are those that asked to execute the skill.
	Calls uint64 `json:"calls"`
	// Runs are those that the provider accepted.
	Runs uint64 `json:"runs"`
	// Refused are the calls that a quota of the caller refused.
	Refused uint64 `json:"refused"`
}

func (c *Counts) add(n Counts) {
	*c = Counts{c.Calls + n.Calls, c.Runs + n.Runs, c.Refused + n.Refused}
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
	n, now := c.counts(), t.now().UTC()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(c.Principal) > MaxText || len(c.SkillID) > MaxText {
		t.other.add(n)
		if c.Measured {
			t.metricsOf(pair{labelOther, labelOther}).add(n)
		}
		return
	}
	row := t.rows[key{c.Principal, c.Source, c.SkillID}]
	if row == nil {
		if len(t.rows) >= t.most {
			t.forget()
		}
		k := key{strings.Clone(c.Principal), strings.Clone(c.Source), strings.Clone(c.SkillID)} // texts may be parts of requests and documents
		row = &counted{Row: Row{Principal: k.principal, Namespace: k.source, SkillID: k.skill, Since: now}}
		t.rows[k] = row
	}
	row.Last = now
	row.Counts.add(n)
	if c.Measured {
		if row.metrics == nil {
			row.metrics = t.metricsOf(t.label(row.Principal, row.SkillID))
		}
		row.metrics.add(n)
	}
}

// forget removes one row in sixteen: those that were not used for the longest time. Sorting them costs as much as many calls, and so is done once
// for many new rows.
func (t *Table) forget() {
	rows := slices.SortedFunc(maps.Values(t.rows), func(a, b *counted) int { return a.Last.Compare(b.Last) })
	for _, row := range rows[:max(1, t.most/16)] {
		delete(t.rows, key{row.Principal, row.Namespace, row.SkillID})
		t.other.add(row.Counts)
	}
}

// label returns the labels of a row. Series of metrics are never removed, so the first pairs have labels of their own.
func (t *Table) label(principal, skill string) pair {
	p := pair{labelOf(principal), labelOf(skill)}
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

func (m *metrics) add(n Counts) {
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
	t.mu.Lock()
	u := Usage{Since: t.began, Other: t.other, Rows: []Row{}}
	for _, c := range t.rows {
		if wanted(&c.Row) {
			u.Rows = append(u.Rows, c.Row)
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
