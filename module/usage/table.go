package usage

import (
	"cmp"
	"container/list"
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
	rows   map[key]*list.Element // of *counted
	recent list.List             // the row that was used last is the first
	other  Counts
	series map[pair]struct{}
}

// key identifies a row.
type key struct{ principal, source, skill string }

// pair identifies the metrics of rows.
type pair struct{ principal, skill string }

// counted is a row with its metrics.
type counted struct {
	Row
	metrics *metrics // nil: no call of the row is in the metrics
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

func (c *counted) key() key { return key{c.Principal, c.Namespace, c.SkillID} }

// metrics are the counters of a pair.
type metrics struct{ calls, runs, refused prometheus.Counter }

// NewTable returns an empty table. The counters have the labels [LabelPrincipal], [LabelSkill] and [LabelEvent]. now returns the time.
func NewTable(counters *prometheus.CounterVec, now func() time.Time) *Table {
	return &Table{counters: counters, began: now().UTC(), now: now, most: MaxRows, rows: map[key]*list.Element{}, series: map[pair]struct{}{}}
}

// Add counts a call.
func (t *Table) Add(c *Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts, kept := &t.other, (*counted)(nil)
	if len(c.Principal) <= MaxText && len(c.SkillID) <= MaxText {
		kept = t.row(key{c.Principal, c.Source, c.SkillID})
		kept.Last = t.now().UTC()
		counts = &kept.Counts
	}
	counts.Calls++
	if c.Run {
		counts.Runs++
	}
	if c.Refused {
		counts.Refused++
	}
	if c.Measured {
		t.measure(c, kept)
	}
}

// measure counts a call in the metrics. It may have no row.
func (t *Table) measure(c *Call, kept *counted) {
	var m *metrics
	switch {
	case kept == nil:
		m = t.metricsOf(pair{labelOther, labelOther})
	case kept.metrics == nil:
		kept.metrics = t.metricsOf(t.label(kept.key()))
		fallthrough
	default:
		m = kept.metrics
	}
	m.calls.Inc()
	if c.Run {
		m.runs.Inc()
	}
	if c.Refused {
		m.refused.Inc()
	}
}

// row returns the row with a key. A new one may take the place of the one that was not used for the longest time.
func (t *Table) row(k key) *counted {
	if e := t.rows[k]; e != nil {
		t.recent.MoveToFront(e)
		return e.Value.(*counted)
	}
	if len(t.rows) >= t.most {
		oldest := t.recent.Remove(t.recent.Back()).(*counted)
		delete(t.rows, oldest.key())
		t.other.Calls += oldest.Calls
		t.other.Runs += oldest.Runs
		t.other.Refused += oldest.Refused
	}
	k = key{strings.Clone(k.principal), strings.Clone(k.source), strings.Clone(k.skill)} // texts may be parts of requests and documents
	row := &counted{Row: Row{Principal: k.principal, Namespace: k.source, SkillID: k.skill, Since: t.now().UTC()}}
	t.rows[k] = t.recent.PushFront(row)
	return row
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
	for _, e := range t.rows {
		if row := &e.Value.(*counted).Row; wanted(row) {
			u.Rows = append(u.Rows, *row)
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
