package quota_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/quota"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// clock is a time that a test sets.
type clock struct{ now time.Time }

func newClock() *clock                { return &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }
func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }
func (c *clock) read() time.Time      { return c.now }

// skill is a skill with one name.
type skill string

func (s skill) Named(name string) bool { return string(s) == name }

// take takes a call of a skill of the source a.
func take(p *quota.Policy, principal string) (*quota.Grant, *run.Failure) {
	return p.Take(principal, "a", skill("a.one"))
}

// want takes a call and ends it at once. It checks that the call is counted, or which limit refuses it and for how long.
func want(t *testing.T, p *quota.Policy, principal, limit string, after time.Duration) {
	t.Helper()
	g, failure := take(p, principal)
	g.End(quota.Ending{})
	switch {
	case limit == "" && failure != nil:
		t.Errorf("%s: %s", principal, failure.Message)
	case limit == "":
	case failure == nil:
		t.Errorf("%s: counted, want %s", principal, limit)
	case failure.Limit.Name != limit || failure.Retry.After != after || failure.Kind != run.RateLimited || failure.Executed != run.ExecutedNo || failure.Next() != run.NextRetry:
		t.Errorf("%s: %s after %s (%s), want %s after %s", principal, failure.Limit.Name, failure.Retry.After, failure.Message, limit, after)
	}
}

func TestRate(t *testing.T) {
	c := newClock()
	rules := &quota.Rules{List: []quota.Rule{{Principal: "*", Skills: "*", Rate: quota.Amount{Count: 3, Per: 30 * time.Second}}}}
	p := quota.New(rules, quota.NewCounters(c.read))
	for range 3 {
		want(t, p, "alice", "", 0)
	}
	want(t, p, "alice", "quota rate", 10*time.Second)
	want(t, p, "bob", "", 0) // has counts of his own
	c.pass(9 * time.Second)
	want(t, p, "alice", "quota rate", time.Second) // refused calls take nothing
	c.pass(time.Second)
	want(t, p, "alice", "", 0)
	want(t, p, "alice", "quota rate", 10*time.Second)
	c.pass(time.Hour)
	for range 3 { // no more than Count at once, however long it was quiet
		want(t, p, "alice", "", 0)
	}
	want(t, p, "alice", "quota rate", 10*time.Second)
}

// TestRateWaits: the suggested wait is enough, and hardly more.
func TestRateWaits(t *testing.T) {
	for _, r := range []quota.Amount{{1, time.Millisecond}, {7, time.Second}, {1000, time.Second}, {3, 7 * time.Minute}, {1_000_000, 366 * 24 * time.Hour}} {
		c := newClock()
		p := quota.New(&quota.Rules{List: []quota.Rule{{Principal: "*", Skills: "*", Rate: r}}}, quota.NewCounters(c.read))
		for range 2000 {
			g, failure := take(p, "alice")
			if failure == nil {
				g.End(quota.Ending{})
				continue
			}
			c.pass(failure.Retry.After)
			if _, failure = take(p, "alice"); failure != nil {
				t.Fatalf("%v: refused after the suggested wait, for %s", r, failure.Retry.After)
			}
		}
		if most := time.Duration(2000/float64(r.Count)*float64(r.Per)) + 2000*time.Second; c.now.Sub(newClock().now) > most {
			t.Errorf("%v: the suggested waits are too long: %s", r, c.now.Sub(newClock().now))
		}
	}
}

func TestRuns(t *testing.T) {
	c := newClock()
	p := quota.New(&quota.Rules{List: []quota.Rule{{Principal: "*", Skills: "*", Runs: quota.Amount{Count: 2, Per: time.Hour}}}}, quota.NewCounters(c.read))
	unused := func() {
		t.Helper()
		g, failure := take(p, "alice")
		if failure != nil {
			t.Error(failure.Message)
		}
		g.End(quota.Ending{Unused: true})
	}
	unused()
	want(t, p, "alice", "", 0)
	c.pass(10 * time.Minute)
	unused() // what is not executed is given back
	want(t, p, "alice", "", 0)
	want(t, p, "alice", "quota runs", 50*time.Minute)
	c.pass(50 * time.Minute)
	late, _ := take(p, "alice")
	c.pass(time.Hour)
	want(t, p, "alice", "", 0)
	late.End(quota.Ending{Unused: true}) // is of the window before
	want(t, p, "alice", "", 0)
	want(t, p, "alice", "quota runs", time.Hour)
}

func TestConcurrent(t *testing.T) {
	c := newClock()
	p := quota.New(&quota.Rules{List: []quota.Rule{{Principal: "*", Skills: "a.*", Concurrent: 2}}}, quota.NewCounters(c.read))
	ref := func(n int) *run.Ref { return &run.Ref{Source: "a", SkillID: "one", ExecutionID: strconv.Itoa(n)} }
	one, _ := take(p, "alice")
	two, _ := take(p, "alice")
	want(t, p, "alice", "quota concurrent", time.Second)
	one.End(quota.Ending{})
	want(t, p, "alice", "", 0)

	// A run that goes on without its call counts until its end is known.
	two.End(quota.Ending{Ref: ref(2), Until: c.now.Add(time.Minute)})
	three, failure := take(p, "alice")
	if failure != nil {
		t.Fatal(failure.Message)
	}
	want(t, p, "alice", "quota concurrent", time.Second)
	p.Ended("bob", ref(2)) // is not his run
	want(t, p, "alice", "quota concurrent", time.Second)
	p.Ended("alice", ref(2))
	want(t, p, "alice", "", 0)

	// It counts no longer than its call could have lasted, unless something follows it.
	three.End(quota.Ending{Ref: ref(3), Until: c.now.Add(time.Minute)})
	four, _ := take(p, "alice")
	four.End(quota.Ending{Ref: ref(4), Until: c.now.Add(time.Minute)})
	p.Follow("alice", ref(4), c.now.Add(time.Hour))
	want(t, p, "alice", "quota concurrent", time.Minute) // at the latest then: the caller may never learn of the ends
	if _, failure = take(p, "alice"); !strings.Contains(failure.Message, "get_run") {
		t.Error(failure.Message)
	}
	c.pass(time.Minute)
	five, failure := take(p, "alice")
	if failure != nil {
		t.Fatal(failure.Message)
	}
	want(t, p, "alice", "quota concurrent", time.Second)
	five.End(quota.Ending{Ref: ref(5), Until: c.now}) // its call is over: there is time to follow it without the call
	want(t, p, "alice", "quota concurrent", 5*time.Second)
	c.pass(5 * time.Second)
	want(t, p, "alice", "", 0)
	c.pass(time.Hour)
	six, _ := take(p, "alice")
	want(t, p, "alice", "", 0)
	six.End(quota.Ending{})
}

// TestWhichRulesApply compares which skills of which callers are bounded with what the rules say.
func TestWhichRulesApply(t *testing.T) {
	one := quota.Amount{Count: 1, Per: time.Hour}
	rules := &quota.Rules{
		Groups: map[string][]string{"staff": {"alice", "bob"}},
		List: []quota.Rule{
			{Principal: "staff", Skills: "a.*", Runs: one},
			{Principal: "carol", Skills: "a.one", Runs: one},
			{Principal: "*", Skills: "b.*", Runs: one},
			{Principal: "bob", Skills: "alone", Runs: one},
		},
	}
	for _, tc := range []struct {
		principal, namespace, skill string
		bound                       bool
	}{
		{"alice", "a", "a.one", true},
		{"bob", "a", "a.two", true},
		{"carol", "a", "a.one", true},
		{"carol", "a", "a.two", false},
		{"dave", "a", "a.one", false},
		{"", "a", "a.one", false},
		{"staff", "a", "a.one", false}, // a principal with the name of a group is not in it
		{"alice", "b", "b.x", true},
		{"dave", "b", "b.x", true},
		{"", "b", "b.x", true},
		{"bob", "", "alone", true},
		{"alice", "", "alone", false},
		{"*", "a", "a.one", false},
		{"", "", "a.one", false},
	} {
		p := quota.New(rules, quota.NewCounters(nil))
		for n := range 2 {
			_, failure := p.Take(tc.principal, tc.namespace, skill(tc.skill))
			if refused := failure != nil; refused != (tc.bound && n == 1) {
				t.Errorf("%+v: call %d: %v", tc, n+1, failure)
			}
		}
	}
	// One count for all skills of a pattern, for each caller.
	p := quota.New(rules, quota.NewCounters(nil))
	for i, c := range []struct {
		principal, skill string
		refused          bool
	}{{"alice", "a.one", false}, {"alice", "a.two", true}, {"bob", "a.two", false}, {"bob", "a.one", true}} {
		if _, failure := p.Take(c.principal, "a", skill(c.skill)); (failure != nil) != c.refused {
			t.Errorf("%d: %v", i, failure)
		}
	}
}

// TestAllRulesBind: a call that one rule refuses takes nothing under the others, and the longest wait is suggested.
func TestAllRulesBind(t *testing.T) {
	c := newClock()
	p := quota.New(&quota.Rules{List: []quota.Rule{
		{Principal: "*", Skills: "*", Runs: quota.Amount{Count: 3, Per: time.Hour}},
		{Principal: "alice", Skills: "a.*", Rate: quota.Amount{Count: 1, Per: time.Second}},
	}}, quota.NewCounters(c.read))
	want(t, p, "alice", "", 0)
	for range 5 {
		want(t, p, "alice", "quota rate", time.Second)
	}
	c.pass(time.Second)
	want(t, p, "alice", "", 0)
	c.pass(time.Second)
	want(t, p, "alice", "", 0)
	want(t, p, "alice", "quota runs", time.Hour-2*time.Second)
}

// TestSharedCounts: counts outlive a policy where the rule is the same.
func TestSharedCounts(t *testing.T) {
	c := newClock()
	counters := quota.NewCounters(c.read)
	of := func(per time.Duration) *quota.Policy {
		return quota.New(&quota.Rules{List: []quota.Rule{{Principal: "*", Skills: "*", Runs: quota.Amount{Count: 1, Per: per}}}}, counters)
	}
	want(t, of(time.Hour), "alice", "", 0)
	want(t, of(time.Hour), "alice", "quota runs", time.Hour)
	want(t, of(time.Minute), "alice", "", 0)
}

// TestFull: many callers take no more memory than is allowed. Those that a rule names, and those that are counted, are not affected.
func TestFull(t *testing.T) {
	c := newClock()
	counters := quota.NewCounters(c.read)
	quota.SetMost(counters, 100)
	p := quota.New(&quota.Rules{List: []quota.Rule{
		{Principal: "*", Skills: "*", Rate: quota.Amount{Count: 2, Per: time.Minute}},
		{Principal: "alice", Skills: "*", Rate: quota.Amount{Count: 50, Per: time.Minute}},
	}}, counters)
	for i := range 1000 {
		if i >= 100 {
			want(t, p, fmt.Sprint("caller", i), "quota callers", time.Minute)
			continue
		}
		want(t, p, fmt.Sprint("caller", i), "", 0)
	}
	want(t, p, "caller7", "", 0)
	want(t, p, "alice", "", 0)
	if n := quota.Kept(counters); n > 102 {
		t.Errorf("%d counts are kept", n)
	}
	c.pass(time.Hour)
	for i := range 1000 { // those before have everything left
		want(t, p, fmt.Sprint("later", i), "", 0)
		c.pass(time.Minute)
	}
	if n := quota.Kept(counters); n > 102 {
		t.Errorf("%d counts are kept", n)
	}
}

// TestTogether: however many calls begin and end at a time, none is beyond its rules, and what all have left in the end is what they had.
func TestTogether(t *testing.T) {
	const concurrent, runs = 3, 500
	counters := quota.NewCounters(nil)
	quota.SetMost(counters, 20)
	p := quota.New(&quota.Rules{List: []quota.Rule{
		{Principal: "*", Skills: "*", Concurrent: concurrent}, {Principal: "*", Skills: "a.*", Runs: quota.Amount{Count: runs, Per: time.Hour}},
	}}, counters)
	var going, begun [4]atomic.Int64 // by principal
	var group sync.WaitGroup
	for worker := range 32 {
		group.Go(func() {
			principal := worker % len(going)
			name := strconv.Itoa(principal)
			for n := range 500 {
				_, _ = p.Take(fmt.Sprint("stranger", worker, n), "b", skill("b.one")) // never ends
				g, failure := take(p, name)
				if failure != nil {
					continue
				}
				if n := going[principal].Add(1); n > concurrent {
					t.Errorf("%d calls of %s at once", n, name)
				}
				going[principal].Add(-1)
				ref := &run.Ref{ExecutionID: fmt.Sprint(worker, n)}
				switch n % 3 {
				case 0:
					g.End(quota.Ending{Unused: true})
					continue
				case 1:
					g.End(quota.Ending{})
				case 2:
					g.End(quota.Ending{Ref: ref, Until: time.Now().Add(time.Hour)})
					p.Follow(name, ref, time.Now().Add(2*time.Hour))
					p.Ended(name, ref)
				}
				begun[principal].Add(1)
			}
		})
	}
	group.Wait()
	for principal := range begun {
		name, n := strconv.Itoa(principal), begun[principal].Load()
		if n > runs {
			t.Errorf("%d runs of %s", n, name)
		}
		for ; n < runs; n++ {
			g, failure := take(p, name)
			if failure != nil && failure.Limit.Name == "quota callers" {
				break // strangers have taken its place before it came
			}
			if failure != nil {
				t.Fatalf("after %d of %d runs: %s", n, runs, failure.Message)
			}
			g.End(quota.Ending{})
		}
	}
	if n := quota.Kept(counters); n > 20 {
		t.Errorf("%d are kept", n)
	}
}

// TestUnknownRuns: runs without execution ids count one by one, until their time has passed.
func TestUnknownRuns(t *testing.T) {
	c := newClock()
	p := quota.New(&quota.Rules{List: []quota.Rule{{Principal: "*", Skills: "*", Concurrent: 2}}}, quota.NewCounters(c.read))
	for range 2 {
		g, failure := take(p, "alice")
		if failure != nil {
			t.Fatal(failure.Message)
		}
		g.End(quota.Ending{Ref: &run.Ref{}, Until: c.now.Add(20 * time.Second)})
		c.pass(time.Second)
	}
	p.Ended("alice", &run.Ref{})
	want(t, p, "alice", "quota concurrent", 18*time.Second)
	want(t, p, "bob", "", 0)
	c.pass(18 * time.Second)
	want(t, p, "alice", "", 0)
}

func TestMessage(t *testing.T) {
	for _, tc := range []struct {
		rule quota.Rule
		text string
	}{
		{quota.Rule{Principal: "*", Skills: "*", Rate: quota.Amount{Count: 1, Per: time.Minute}}, "The caller's quota for all skills is used up (quota rate: 1 call in 1m); try again in 1m."},
		{quota.Rule{Principal: "*", Skills: "a.*", Runs: quota.Amount{Count: 1, Per: 24 * time.Hour}}, "The caller's quota for skills of a is used up (quota runs: 1 run in 24h); try again in 24h."},
		{quota.Rule{Principal: "*", Skills: "a.one", Concurrent: 1}, "The caller's quota for this skill is used up (quota concurrent: 1 run at once); try again in 1s."},
	} {
		p := quota.New(&quota.Rules{List: []quota.Rule{tc.rule}}, quota.NewCounters(newClock().read))
		_, _ = take(p, "alice")
		if _, failure := take(p, "alice"); failure == nil || failure.Message != tc.text || !failure.Limit.Own || strings.Contains(failure.Message, "alice") {
			t.Errorf("%+v, want %q", failure, tc.text)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	p := quota.New(&quota.Rules{List: []quota.Rule{{Principal: "*", Skills: "a.*", Concurrent: 10, Rate: quota.Amount{Count: 1 << 30, Per: time.Millisecond}}}}, quota.NewCounters(nil))
	b.ReportAllocs()
	for b.Loop() {
		g, _ := take(p, "alice")
		g.End(quota.Ending{})
	}
}
