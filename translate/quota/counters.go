package quota

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// Bounds of what counters keep.
const (
	maxKept = 100_000 // counts of callers that no rule names, and runs that go on without a call
	look    = 8       // counts that each new count looks at, to remove those that say nothing any more
	lookAll = 64      // the same when there is no room
)

// Waits that failures suggest.
const (
	shortestWait = time.Millisecond
	endWait      = time.Second // for the end of a call
	roomWait     = time.Minute
)

// handover is how long a run counts at least when its call ends before it, so that it counts on if it is followed without its call.
const handover = 5 * time.Second

// Counters count the calls and runs of callers. They are safe for concurrent use.
type Counters struct {
	now  func() time.Time
	most int
	seed maphash.Seed

	mu     sync.Mutex
	counts map[key]*count
	others int               // of the counts: those of callers that no rule names
	left   map[digest]*runOn // runs that go on without a call
}

// digest is a keyed digest of texts that callers or providers choose.
type digest uint64

// key identifies the count of a caller under a rule.
type key struct {
	rule      string
	principal digest
}

// count has what a caller has used under a rule.
type count struct {
	rule  *Rule // a copy: a count outlives its policy
	named bool  // a rule or a group names the caller

	rate   *share.Rate // of calls that begin; nil: Rate does not bound them
	runs   int         // since window, under Runs
	window time.Time
	calls  int      // in progress
	left   []*runOn // runs that go on without a call, under Concurrent
	next   time.Time
}

// runOn is a run that goes on without a call.
type runOn struct {
	id     digest
	known  bool      // its end can be read
	until  time.Time // it counts no longer than that
	counts []*count
}

// NewCounters returns counters of which nothing was used. now returns the time; nil: [time.Now].
func NewCounters(now func() time.Time) *Counters {
	if now == nil {
		now = time.Now
	}
	return &Counters{
		now: now, most: maxKept, seed: maphash.MakeSeed(), counts: map[key]*count{}, left: map[digest]*runOn{},
	}
}

func (c *Counters) digest(principal string, ref *run.Ref) digest {
	return digest(maphash.Comparable(c.seed, [4]string{principal, ref.Source, ref.SkillID, ref.ExecutionID}))
}

// take counts a call under all its rules, or under none.
func (c *Counters) take(g *Grant, named bool) *run.Failure {
	principal, now := c.digest(g.principal, new(run.Ref)), c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	var refusal *run.Failure
	counted := 0
	for i := range g.parts {
		p := &g.parts[i]
		if p.count = c.of(key{p.id, principal}, &p.rule.Rule, named, now); p.count == nil {
			refusal = refused(limitCallers, int64(c.most), "The bridge already counts the calls of as many callers as it can; try again later.", roomWait)
			break
		}
		p.count.calls++ // at once, so that the next count does not take its place
		counted++
		if failure := c.exceeded(p.count, now); failure != nil && (refusal == nil || failure.Retry.After > refusal.Retry.After) {
			refusal = failure
		}
	}
	for i := range g.parts[:counted] {
		p := &g.parts[i]
		if refusal != nil {
			p.count.calls--
			continue
		}
		if p.count.rate != nil {
			p.count.rate.Take(now)
		}
		p.count.runs++
		p.window = p.count.window
	}
	return refusal
}

// of returns a count, up to date; nil: there is no room for it.
func (c *Counters) of(k key, r *Rule, named bool, now time.Time) *count {
	n := c.counts[k]
	if n == nil {
		c.tidy(look, now)
		if !named && c.others+len(c.left) >= c.most {
			c.tidy(lookAll, now)
			if c.others+len(c.left) >= c.most {
				return nil
			}
		}
		n = &count{rule: new(*r), named: named, window: now}
		if of := r.Rate; of.Count > 0 {
			each := max(of.Per/time.Duration(of.Count), 1)
			n.rate = share.NewRate(now, each, each*time.Duration(of.Count))
		}
		c.counts[k] = n
		if !named {
			c.others++
		}
	}
	n.refresh(now)
	return n
}

// refresh begins a new window if it is time for that.
func (n *count) refresh(now time.Time) {
	if n.runs == 0 || now.Sub(n.window) >= n.rule.Runs.Per {
		n.runs, n.window = 0, now
	}
}

// exceeded returns the failure of a call that the count does not allow; nil: it does. The call is one of those in progress.
func (c *Counters) exceeded(n *count, now time.Time) *run.Failure {
	r := n.rule
	switch {
	case r.Runs.Count > 0 && n.runs >= r.Runs.Count:
		return r.exceeded(limitRuns, r.Runs.Count, "runs", r.Runs.Per, wait(n.window.Add(r.Runs.Per).Sub(now)))
	case n.rate != nil && n.rate.Delay(now) > 0:
		return r.exceeded(limitRate, r.Rate.Count, "calls", r.Rate.Per, wait(n.rate.Delay(now)))
	case r.Concurrent > 0 && n.calls+len(n.left) > r.Concurrent:
		if c.forget(n, now); n.calls+len(n.left) > r.Concurrent {
			return c.full(n, now)
		}
	}
	return nil
}

// full returns the failure of a call where the runs that go on are as many as may. If they all go on without a call, it says how to learn of
// their ends, and for how long one of them counts at most.
func (c *Counters) full(n *count, now time.Time) *run.Failure {
	if n.calls > 1 || len(n.left) == 0 { // this call is one of them
		return n.rule.exceeded(limitConcurrent, n.rule.Concurrent, "runs", 0, endWait)
	}
	failure := n.rule.exceeded(limitConcurrent, n.rule.Concurrent, "runs", 0, wait(n.next.Sub(now)))
	if slices.ContainsFunc(n.left, func(o *runOn) bool { return o.known }) {
		failure.Message += " A run that goes on without a call counts until its end is read: follow it with its run_token (get_run), to call sooner."
	} else {
		failure.Message += " A call that ended before the provider answered counts as a run that goes on, since its provider may go on: wait for the answers of calls, to call sooner."
	}
	return failure
}

// wait returns a time to wait in whole milliseconds, and in whole seconds if it is long.
func wait(d time.Duration) time.Duration {
	unit := time.Millisecond
	if d > 10*time.Second {
		unit = time.Second
	}
	return max((d + unit - 1).Truncate(unit), shortestWait)
}

// forget removes the runs that count no longer.
func (c *Counters) forget(n *count, now time.Time) {
	if len(n.left) == 0 || now.Before(n.next) {
		return
	}
	for _, o := range slices.Clone(n.left) {
		if !now.Before(o.until) {
			c.remove(o)
		}
	}
	n.next = time.Time{}
	for _, o := range n.left {
		if n.next.IsZero() || o.until.Before(n.next) {
			n.next = o.until
		}
	}
}

func (c *Counters) remove(o *runOn) {
	delete(c.left, o.id)
	for _, n := range o.counts {
		n.left = slices.DeleteFunc(n.left, func(other *runOn) bool { return other == o })
	}
}

// tidy looks at some counts, in random order, and removes those of callers who have everything left.
func (c *Counters) tidy(most int, now time.Time) {
	for k, n := range c.counts {
		if most--; most < 0 {
			return
		}
		n.refresh(now)
		c.forget(n, now)
		if n.calls > 0 || len(n.left) > 0 || n.runs > 0 && n.rule.Runs.Count > 0 || n.rate != nil && n.rate.Rest(now) > 0 {
			continue
		}
		delete(c.counts, k)
		if !n.named {
			c.others--
		}
	}
}

// Grant is what a call has taken.
type Grant struct {
	counters  *Counters
	principal string
	parts     []part
	room      [2]part
}

// part is what a call has taken under one rule.
type part struct {
	*count
	rule   *rule
	id     string    // of the rule
	window time.Time // that the call counts in, under Runs
}

// Ending says how a call has ended.
type Ending struct {
	// Unused says that certainly nothing was executed.
	Unused bool
	// Ref is the run that goes on, or may go on; nil: none does. Without an execution id, its end will not be known.
	Ref *run.Ref
	// Until is when the run counts no longer, also if it goes on.
	Until time.Time
}

// End ends the call. The Grant may be nil, and must not be used again.
func (g *Grant) End(e Ending) {
	if g == nil {
		return
	}
	c := g.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range g.parts {
		p := &g.parts[i]
		p.count.calls--
		if e.Unused && p.count.runs > 0 && p.count.window.Equal(p.window) {
			p.count.runs--
		}
	}
	if e.Ref != nil {
		c.leave(g, e.Ref, e.Until)
	}
}

// leave lets a run count on without its call, under the rules that bound how many go on at once.
func (c *Counters) leave(g *Grant, ref *run.Ref, until time.Time) {
	now, known := c.now(), ref.ExecutionID != ""
	id := c.digest(g.principal, ref)
	if !known {
		id = digest(rand.Uint64()) //nolint:gosec // unlike all others
	}
	if earliest := now.Add(handover); until.Before(earliest) {
		until = earliest
	}
	o := &runOn{id: id, known: known, until: until}
	for i := range g.parts {
		if g.parts[i].count.rule.Concurrent > 0 {
			o.counts = append(o.counts, g.parts[i].count)
		}
	}
	if len(o.counts) == 0 || c.left[id] != nil || c.others+len(c.left) >= c.most {
		return
	}
	c.left[id] = o
	for _, n := range o.counts {
		n.left = append(n.left, o)
		if n.next.IsZero() || until.Before(n.next) {
			n.next = until
		}
	}
}
