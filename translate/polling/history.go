package polling

import (
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// remembered is how many execution times of a skill are kept.
	remembered = 128
	// longestExecution bounds what is kept of an execution time.
	longestExecution = 24 * time.Hour
	// rebuildEvery is how many executions a schedule serves, once many are known.
	rebuildEvery = 16
	// surprises is how many are absorbed with early first polls.
	surprises = 3
	// surprisingRank is among which part of all execution times one is surprising.
	surprisingRank = 0.03
)

// A History is the newest execution times of one skill. The zero value is one of
// nothing. It is safe for concurrent use.
type History struct {
	mu    sync.Mutex
	times []float32 // seconds; a ring once it is full
	next  int       // where the ring goes on

	faster, slower drift
	surprised      int  // times since the skill may have become faster
	learned        int  // executions since what is known began
	scheduled      int  // of which the last schedule knows
	unsettled      bool // the last schedule believed in a change
}

// Completion is what was seen and heard of the end of a run.
type Completion struct {
	// Execution is how long the run took by the provider's clock; 0 or less if
	// it did not say.
	Execution time.Duration
	// Running is the latest time after the start at which the run was seen to be
	// still going on; 0 if it never was.
	Running time.Duration
	// Ended is when it was seen to have ended.
	Ended time.Duration
	// Polls is how many were made, the one that saw the end included.
	Polls int
}

// time is how long the run took, as far as can be told.
func (c Completion) time() time.Duration {
	ended := min(max(c.Ended, 0), longestExecution)
	running := min(max(c.Running, 0), ended)
	if c.Execution <= 0 || c.Execution > ended {
		return running + (ended-running)/2
	}
	return max(c.Execution, running)
}

// early reports whether the run had ended well before anyone looked.
func (c Completion) early() bool { return c.Polls <= 1 && c.time() <= c.Ended/2 }

// Add adds an execution. It reports whether a new schedule is due.
func (h *History) Add(c Completion) (due bool) {
	x := float32(c.time().Seconds())
	h.mu.Lock()
	defer h.mu.Unlock()
	low := h.rank(x, h.faster.lasts)
	h.faster.add(low)
	h.slower.add(1 - h.rank(x, h.slower.lasts))
	surprise := c.early() && low < surprisingRank
	h.push(x)
	h.learned++
	switch {
	case surprise:
		h.surprised++
	case h.faster.lasts == 0:
		h.surprised = 0
	}
	changed := false
	for _, d := range []*drift{&h.faster, &h.slower} {
		if d.certain() {
			h.forget(d.lasts)
			changed = true
		}
	}
	wanted := max(1, min(rebuildEvery, h.scheduled/8))
	return changed || surprise || h.unsettled || h.changing() || h.learned-h.scheduled >= wanted
}

// Len returns how many execution times are known.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.times)
}

// push puts a time in the place of the oldest.
func (h *History) push(x float32) {
	if len(h.times) < remembered {
		h.times = append(h.times, x)
		return
	}
	h.times[h.next] = x
	h.next = (h.next + 1) % remembered
}

// rank is the part of the execution times that are shorter than x, leaving out
// the newest ones.
func (h *History) rank(x float32, newest int) float64 {
	older := len(h.times) - newest
	if older < fewest {
		return 0.5
	}
	shorter := 0.5
	for _, y := range h.times {
		shorter += above(x, y)
	}
	for i := range newest {
		shorter -= above(x, h.times[(h.next+older+i)%len(h.times)])
	}
	return shorter / float64(older+1)
}

func above(x, y float32) float64 {
	switch {
	case x > y:
		return 1
	case x == y:
		return 0.5
	}
	return 0
}

// forget forgets all execution times but the newest.
func (h *History) forget(but int) {
	h.times = h.ordered(nil)
	h.times = slices.Clone(h.times[max(0, len(h.times)-but):])
	h.next = 0
	h.faster, h.slower = drift{}, drift{}
	h.surprised, h.learned, h.scheduled = 0, len(h.times), 0
}

// ordered appends the execution times, oldest first.
func (h *History) ordered(times []float32) []float32 {
	return append(append(times, h.times[h.next:]...), h.times[:h.next]...)
}

// changing reports whether the skill may have changed.
func (h *History) changing() bool { return h.faster.likely() || h.slower.likely() }

// lessons returns what a schedule is made of, in memory that the caller lends.
func (h *History) lessons(times []float64) lessons {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.times)
	l := lessons{times: times[:0]}
	for i := range n {
		l.times = append(l.times, float64(h.times[(h.next+i)%n]))
	}
	if h.changing() {
		d := h.faster
		if h.slower.sum > d.sum {
			d = h.slower
		}
		l.recent, l.belief = min(d.lasts, n), d.belief()
	}
	if h.surprised > 0 && h.surprised <= surprises && n > 0 {
		sorted := slices.Sorted(slices.Values(l.times))
		l.first = max(2*sorted[0], sorted[n/10], shortestGap.Seconds())
	}
	h.scheduled, h.unsettled = h.learned, h.changing()
	return l
}

// drift is the evidence that a skill has changed: a cumulative sum of the log
// likelihood of low ranks over that of equally likely ones. It starts again
// whenever it falls to 0.
type drift struct {
	sum   float64
	lasts int // executions since it started
}

const (
	fewest        = 4    // execution times that a rank has to be among, to mean something
	concentration = 0.2  // a changed skill's ranks have the density a·u^(a-1)
	certainty     = 9.0  // evidence at which what is older is forgotten
	even          = 5.3  // evidence at which a change is as likely as none: one in 200 executions is the first after one
	doubt         = -2.5 // from even: below, a change is not worth considering
)

func (d *drift) add(rank float64) {
	d.sum += math.Log(concentration) - (1-concentration)*math.Log(rank)
	d.lasts++
	if d.sum <= 0 {
		*d = drift{}
	}
}

func (d *drift) certain() bool   { return d.sum >= certainty }
func (d *drift) likely() bool    { return d.sum > even+doubt }
func (d *drift) belief() float64 { return 1 / (1 + math.Exp(even-d.sum)) }
