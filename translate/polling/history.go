package polling

import (
	"math"
	"slices"
	"sync"
	"time"
)

const (
	remembered       = 128            // execution times of a skill
	longestExecution = 24 * time.Hour // longer ones count as this
	rebuildEvery     = 16             // most executions between two schedules
	surprises        = 3              // the first poll is early after up to so many surprises
	surprisingRank   = 0.03           // an execution time with a lower rank is a surprise
)

// history holds the newest execution times of one skill. It is safe for concurrent use.
type history struct {
	mu    sync.Mutex
	times []float32 // in seconds; a ring buffer once it is full
	next  int       // index of the oldest time in the ring

	faster, slower drift
	surprised      int  // surprises since the skill may have become faster
	learned        int  // executions added since the history was last cut, and those that were kept
	scheduled      int  // value of learned when the last schedule was made
	unsettled      bool // when the last schedule was made, the skill might have changed
}

// Completion says when a run ended.
type Completion struct {
	// Execution is how long the run took by the provider's clock; 0 or less:
	// not known.
	Execution time.Duration
	// Running is the time from the start to the last poll that found the run still
	// running; 0 if there was none.
	Running time.Duration
	// Ended is the time from the start to the poll that found the end.
	Ended time.Duration
	// Polls counts the polls, including the one that found the end.
	Polls int
}

// time returns how long the run took. The bounds are the last poll that found it running,
// and the poll that found the end. The result is the provider's time, but at least the
// lower bound. If there is no such time, or it is above the upper bound, the result is
// the middle of the bounds.
func (c Completion) time() time.Duration {
	ended := min(max(c.Ended, 0), longestExecution)
	running := min(max(c.Running, 0), ended)
	if c.Execution <= 0 || c.Execution > ended {
		return running + (ended-running)/2
	}
	return max(c.Execution, running)
}

// add adds an execution. It reports whether a new schedule is due.
func (h *history) add(c Completion) (due bool) {
	x := float32(c.time().Seconds())
	h.mu.Lock()
	defer h.mu.Unlock()
	low := h.rank(x, h.faster.lasts)
	h.faster.add(low)
	h.slower.add(1 - h.rank(x, h.slower.lasts))
	early := c.Polls <= 1 && c.time() <= c.Ended/2 // it had ended in the first half of the time before the first poll
	surprise := early && low < surprisingRank
	if len(h.times) < remembered {
		h.times = append(h.times, x)
	} else { // the oldest time is replaced
		h.times[h.next] = x
		h.next = (h.next + 1) % remembered
	}
	h.learned++
	switch {
	case surprise:
		h.surprised++
	case h.faster.lasts == 0:
		h.surprised = 0
	}
	changed := false
	for _, d := range []*drift{&h.faster, &h.slower} {
		if d.sum >= certainty {
			h.forget(d.lasts)
			changed = true
		}
	}
	wanted := max(1, min(rebuildEvery, h.scheduled/8))
	return changed || surprise || h.unsettled || h.changing() || h.learned-h.scheduled >= wanted
}

// rank returns the share of execution times that are shorter than x, from 0 to 1. It
// ignores the newest ones, as many as newest says.
func (h *history) rank(x float32, newest int) float64 {
	older := len(h.times) - newest
	if older < minRanked {
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

// forget removes all execution times but the newest ones, as many as but says.
func (h *history) forget(but int) {
	times := h.ordered()
	h.times, h.next = slices.Clone(times[max(0, len(times)-but):]), 0
	h.faster, h.slower = drift{}, drift{}
	h.surprised, h.learned, h.scheduled = 0, len(h.times), 0
}

// ordered returns the execution times, oldest first.
func (h *history) ordered() []float32 { return slices.Concat(h.times[h.next:], h.times[:h.next]) }

// snapshot is like ordered, but locks the history.
func (h *history) snapshot() []float32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ordered()
}

// restore sets the execution times if none are known. It reports whether it has done so.
func (h *history) restore(times []float32) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.times) > 0 {
		return false
	}
	h.times, h.learned = times, len(times)
	return true
}

// changing reports whether the skill may have changed.
func (h *history) changing() bool { return h.faster.likely() || h.slower.likely() }

// sample returns the data for a schedule and notes that a schedule was made. It overwrites
// buffer.
func (h *history) sample(buffer []float64) sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.times)
	l := sample{times: buffer[:0]}
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

// drift is the evidence that a skill has changed (a CUSUM test). If it has not
// changed, all ranks of its execution times are equally likely; if it has, low ranks
// are more likely. The sum adds up the logarithms of the likelihood ratios, and
// restarts when it falls to 0.
type drift struct {
	sum   float64
	lasts int // executions since the sum was 0
}

const (
	minRanked     = 4    // least number of older execution times for a rank
	concentration = 0.2  // a in a·u^(a-1), the density of the ranks u of a changed skill
	certainty     = 9.0  // sum from which the skill has changed: older times are forgotten
	evenOdds      = 5.3  // sum at which a change has a probability of 1/2, if one in 200 executions is the first after a change
	doubt         = -2.5 // added to evenOdds: up to this sum, schedules ignore a possible change
)

func (d *drift) add(rank float64) {
	d.sum += math.Log(concentration) - (1-concentration)*math.Log(rank)
	d.lasts++
	if d.sum <= 0 {
		*d = drift{}
	}
}

func (d *drift) likely() bool    { return d.sum > evenOdds+doubt }
func (d *drift) belief() float64 { return 1 / (1 + math.Exp(evenOdds-d.sum)) }
