package usage_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skill-bridge/caddy-skill-bridge/module/usage"
)

// newTable returns an empty table, its metrics, and what lets a time pass.
func newTable() (*usage.Table, *prometheus.CounterVec, func(time.Duration)) {
	counters := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "used_total", Help: "Uses."}, []string{usage.LabelPrincipal, usage.LabelSkill, usage.LabelEvent})
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return usage.NewTable(counters, func() time.Time { return now }), counters, func(d time.Duration) { now = now.Add(d) }
}

// series returns the values of the metrics by their labels.
func series(t *testing.T, counters *prometheus.CounterVec) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := registry.Register(counters); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() { // in the order of their names: event, principal, skill
				labels = append(labels, l.GetValue())
			}
			values[strings.Join(labels, " ")] = m.GetCounter().GetValue()
		}
	}
	return values
}

func all(*usage.Row) bool { return true }

func TestTable(t *testing.T) {
	table, counters, pass := newTable()
	add := func(principal, skill string, run, refused bool) {
		table.Add(&usage.Call{Principal: principal, Source: "acme", SkillID: skill, Run: run, Refused: refused, Measured: principal != "eve"})
		pass(time.Minute)
	}
	add("bob", "acme/a", true, false)
	add("alice", "acme/a", true, false)
	add("alice", "acme/a", false, true)
	add("", "", false, false)
	add("alice", strings.Repeat("x", 300), true, false)
	add("eve", "acme/a", true, false) // whose handler does not measure
	at := func(minute int) time.Time { return time.Date(2026, 1, 2, 3, 4+minute, 5, 0, time.UTC) }
	u := table.Usage(2, all)
	want := usage.Usage{Since: at(0), Total: 4, Rows: []usage.Row{
		{"alice", "acme", "acme/a", at(1), at(2), usage.Counts{Calls: 2, Runs: 1, Refused: 1}},
		{"", "acme", "", at(3), at(3), usage.Counts{Calls: 1}},
	}, Other: usage.Counts{Calls: 1, Runs: 1}}
	if fmt.Sprint(u) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", u, want)
	}
	if u := table.Usage(10, func(r *usage.Row) bool { return r.Principal == "bob" }); u.Total != 1 || len(u.Rows) != 1 || u.Rows[0].Principal != "bob" {
		t.Errorf("of bob: %+v", u)
	}
	got := series(t, counters)
	if len(got) != 3*4 {
		t.Errorf("series: %v", got)
	}
	for labels, want := range map[string]float64{
		"call alice acme/a": 2, "run alice acme/a": 1, "refused alice acme/a": 1, "run bob acme/a": 1, "call none none": 1, "call other other": 1,
	} {
		if got[labels] != want {
			t.Errorf("%s: %v, want %v", labels, got[labels], want)
		}
	}
}

// TestBounds: many callers get neither more rows nor more metrics than allowed, and no call is lost.
func TestBounds(t *testing.T) {
	table, counters, pass := newTable()
	usage.SetMost(table, 50)
	const callers = 3 * usage.MaxSeries
	for i := range callers {
		table.Add(&usage.Call{Principal: fmt.Sprint("p", i), SkillID: "s", Run: true, Measured: true})
		pass(time.Microsecond)
		table.Add(&usage.Call{Principal: "regular", SkillID: "s", Run: true, Measured: true})
		pass(time.Microsecond)
	}
	u := table.Usage(1000, all)
	if u.Total < 47 || u.Total > 50 || len(u.Rows) != u.Total || u.Rows[0].Principal != "regular" || u.Rows[0].Calls != callers {
		t.Errorf("%d rows, the first %+v", len(u.Rows), u.Rows[0])
	}
	sum := u.Other
	for _, r := range u.Rows {
		sum.Calls += r.Calls
		sum.Runs += r.Runs
	}
	if sum != (usage.Counts{Calls: 2 * callers, Runs: 2 * callers}) {
		t.Errorf("%+v calls in all", sum)
	}
	if n := len(series(t, counters)); n > 3*(usage.MaxSeries+1) {
		t.Errorf("%d series", n)
	}
	if n := testing.AllocsPerRun(100, func() { table.Add(&usage.Call{Principal: "regular", SkillID: "s", Run: true, Measured: true}) }); n != 0 {
		t.Errorf("a call of a known caller takes %v allocations", n)
	}
}

// TestLabelsAreCopies: a principal may be a part of a request, which the labels of metrics would keep in memory for ever.
func TestLabelsAreCopies(t *testing.T) {
	table, _, _ := newTable()
	request := strings.Repeat("x", 1000) + "ann"
	for _, measured := range []bool{false, true} { // of a handler without quotas, then of one with quotas
		table.Add(&usage.Call{Principal: request[1000:], SkillID: "s", Measured: measured})
	}
	if labelled := usage.Labelled(table); len(labelled) != 1 || labelled[0] != "ann" || unsafe.StringData(labelled[0]) == unsafe.StringData(request[1000:]) {
		t.Errorf("the labels are %q, or share memory with the request", labelled)
	}
}

// TestConcurrentCalls: no call is lost while rows come and go.
func TestConcurrentCalls(t *testing.T) {
	table, counters, _ := newTable()
	usage.SetMost(table, 8)
	const callers, each = 16, 500
	var wait sync.WaitGroup
	for i := range callers {
		wait.Go(func() {
			for j := range each {
				table.Add(&usage.Call{Principal: fmt.Sprint("p", (i+j)%12), SkillID: "s", Run: j%2 == 0, Measured: i%4 > 0})
			}
		})
	}
	wait.Wait()
	u := table.Usage(1000, all)
	sum := u.Other
	for _, r := range u.Rows {
		sum.Calls += r.Calls
		sum.Runs += r.Runs
	}
	if want := (usage.Counts{Calls: callers * each, Runs: callers * each / 2}); sum != want {
		t.Errorf("%+v calls in all, want %+v", sum, want)
	}
	measured := 0.0
	for labels, n := range series(t, counters) {
		if strings.HasPrefix(labels, "call ") {
			measured += n
		}
	}
	if want := callers * each * 3 / 4; int(measured) != want {
		t.Errorf("the metrics have %v calls, want %d", measured, want)
	}
}
